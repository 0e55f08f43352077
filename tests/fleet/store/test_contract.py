"""What every engine of the store must do; the same tests run on the Parquet engine and on memory."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.store.compact import compact
from fleet.store.memory import MemorySeries
from fleet.store.parquet import ParquetSeries
from fleet.store.series import Series, StoreError
from tests.fleet.store.servers import new_victoria
from wire import metrics
from wire.metrics import Scope

HOUR = 3600
DAY = 86_400
NOON = 20_000 * DAY + 12 * HOUR  # an hour's first second, in the middle of a UTC day

Make = Callable[[Path], Series]


class MergedSeries(ParquetSeries):
    """The Parquet engine with every file merged right after it was written, up to the settled hour."""

    def write(self, scope: Scope, frame: pl.DataFrame) -> None:
        super().write(scope, frame)
        compact(self, self.clock() + DAY)


ENGINES: dict[str, Make] = {
    "parquet": ParquetSeries,
    "merged": lambda path: MergedSeries(path, grace_s=0),
    "memory": lambda path: MemorySeries(),
    "victoria": lambda path: new_victoria(),
}
ITS_OWN_RETENTION = {"victoria"}
"""Engines whose server drops what is old by itself."""
engines = pytest.mark.parametrize(
    "make",
    [pytest.param(make, id=name, marks=pytest.mark.slow if name == "merged" else ()) for name, make in ENGINES.items()],
)
"""Of the properties alone: merging after each write of each example takes as long as all the other engines."""


@contextmanager
def opened(make: Make) -> Iterator[Series]:
    """An empty store; hypothesis makes one for each example."""
    with tempfile.TemporaryDirectory() as path:
        yield make(Path(path))


@pytest.fixture(params=list(ENGINES.values()), ids=list(ENGINES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Series:
    """An empty store of each engine in turn."""
    return request.param(tmp_path)  # type: ignore[no-any-return]


@pytest.fixture(params=[name for name in ENGINES if name not in ITS_OWN_RETENTION])
def pruned(request: pytest.FixtureRequest, tmp_path: Path) -> Series:
    """An empty store of each engine that drops what is old when told."""
    return ENGINES[request.param](tmp_path)


def rows(*cells: tuple[int, int, float | None]) -> pl.DataFrame:
    """A gpu frame of (entity, ts, sm_active)."""
    return pl.DataFrame(cells, schema={"entity": pl.Int64, "ts": pl.Int64, "sm_active": pl.Float64}, orient="row")


def cells(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """The (entity, ts, sm_active) of a frame."""
    return frame.select("entity", "ts", "sm_active").rows()


# window


def test_it_gives_back_what_was_written_in_order_of_entity_and_time(store: Series) -> None:
    """Rows of different agents' batches in one frame come back sorted, each value in the registry's unit."""
    store.write("gpu", rows((7, NOON + 1, 0.5), (3, NOON, 0.1234), (7, NOON, 0.0), (3, NOON + 1, 1.0)))

    assert cells(store.window("gpu", NOON, NOON + 10)) == [
        (3, NOON, 0.1234),
        (3, NOON + 1, 1.0),
        (7, NOON, 0.0),
        (7, NOON + 1, 0.5),
    ]


def test_the_start_counts_and_the_end_does_not(store: Series) -> None:
    """start <= ts < end."""
    store.write("gpu", rows(*((1, NOON + second, 0.5) for second in range(5))))

    assert store.window("gpu", NOON + 1, NOON + 3)["ts"].to_list() == [NOON + 1, NOON + 2]
    assert store.window("gpu", NOON + 1, NOON + 1).is_empty()
    assert store.window("gpu", NOON + 3, NOON + 1).is_empty()


def test_entities_and_times_that_cannot_be_match_nothing(store: Series) -> None:
    """Ids and seconds outside what a key can be are no error; one doubled is read once."""
    store.write("gpu", rows((1, NOON, 0.5), (2, NOON, 0.25)))

    assert store.window("gpu", NOON, NOON + 1, [-1]).is_empty()
    assert store.window("gpu", NOON, NOON + 1, [-1, 1 << 40]).is_empty()
    assert cells(store.window("gpu", -5, 1 << 40, {2, -7, 1 << 33})) == [(2, NOON, 0.25)]
    assert cells(store.window("gpu", NOON, NOON + 1, [2, 2])) == [(2, NOON, 0.25)]
    assert store.window("gpu", 1 << 40, 1 << 41).is_empty()
    assert store.latest("gpu", 1 << 40).is_empty()
    assert cells(store.latest("gpu", -1, [1])) == [(1, NOON, 0.5)]


@pytest.mark.parametrize("scope", ["gpu", "host", "process"])
def test_an_empty_answer_has_all_columns_and_types_of_a_full_one(store: Series, scope: Scope) -> None:
    """Callers need no special case for an unknown entity, an empty list of entities or an empty store."""
    row: dict[str, Any] = {"entity": [1], "ts": [NOON]}
    if scope == "process":
        row |= {"pid": [9], "name": ["train"], "user": ["ann"], "gpu_mem_bytes": [1 << 30]}
    before = store.window(scope, NOON, NOON + 1)
    store.write(scope, pl.DataFrame(row))
    full = store.window(scope, NOON, NOON + 1)

    assert len(full) == 1
    assert before.is_empty()
    assert before.schema == full.schema
    for empty in (
        store.window(scope, NOON, NOON + 1, [2]),
        store.window(scope, NOON, NOON + 1, []),
        store.latest(scope, NOON, [2]),
    ):
        assert empty.is_empty()
        assert empty.schema == full.schema


@pytest.mark.parametrize("scope", ["gpu", "host", "process"])
def test_every_metric_of_the_registry_has_its_type(store: Series, scope: Scope) -> None:
    """Whole-number metrics are Int64, all others Float64, and both ends of each range survive."""
    kept = list(metrics.sent(scope))
    frame = {"entity": [1, 1], "ts": [NOON, NOON + 1]} | {metric.name: [metric.low, metric.high] for metric in kept}
    if scope == "process":
        frame |= {"pid": [5, 5]}
    store.write(scope, pl.DataFrame(frame, strict=False))
    back = store.window(scope, NOON, NOON + 2)

    for metric in kept:
        assert back[metric.name].dtype == (pl.Int64 if metric.is_integer else pl.Float64), metric.name
        assert back[metric.name].to_list() == pytest.approx([metric.low, metric.high], rel=1e-4), metric.name


def test_it_reads_only_the_columns_named(store: Series) -> None:
    """The keys come first, always; a metric that nobody wrote is a column of nulls."""
    store.write("gpu", rows((1, NOON, 0.5)))
    back = store.window("gpu", NOON, NOON + 1, metrics=["power_w", "sm_active"])

    assert set(back.columns) == {"entity", "ts", "power_w", "sm_active"}
    assert back.columns[:2] == ["entity", "ts"]
    assert back["power_w"].to_list() == [None]


def test_a_process_row_keeps_its_names_and_has_the_pid_in_its_key(store: Series) -> None:
    """Two processes on one GPU in one second are two rows, in order of pid."""
    store.write(
        "process",
        pl.DataFrame(
            {
                "entity": [1, 1],
                "pid": [20, 10],
                "ts": [NOON, NOON],
                "name": ["训练", None],
                "user": ["ann", "bob"],
                "cpu_pct": [99.9, 0.0],
            }
        ),
    )
    back = store.window("process", NOON, NOON + 1)

    assert back.select("entity", "pid", "ts", "name", "user", "cpu_pct", "gpu_mem_bytes").rows() == [
        (1, 10, NOON, None, "bob", 0.0, None),
        (1, 20, NOON, "训练", "ann", 99.9, None),
    ]


# What counts


def test_of_rows_written_twice_the_later_one_counts_as_a_whole(store: Series) -> None:
    """Within a frame and across frames; the later row's absent value is absent."""
    store.write("gpu", rows((1, NOON, 0.1), (1, NOON, 0.2), (2, NOON, 0.3), (3, NOON, 0.4)))
    store.write("gpu", rows((2, NOON, None), (3, NOON, 0.5)))

    assert cells(store.window("gpu", NOON, NOON + 1)) == [(1, NOON, 0.2), (2, NOON, None), (3, NOON, 0.5)]


def test_samples_that_arrive_hours_late_are_found(store: Series) -> None:
    """An agent's backlog of yesterday evening, written after today's rows, in one frame with them."""
    store.write("gpu", rows((1, NOON, 0.9)))
    store.write("gpu", rows((1, NOON + 1, 0.8), (1, NOON - 20 * HOUR, 0.1), (1, NOON - 2 * HOUR, 0.2), (1, NOON - 1, 0.3)))

    assert cells(store.window("gpu", NOON - 20 * HOUR, NOON - 20 * HOUR + 1)) == [(1, NOON - 20 * HOUR, 0.1)]
    assert cells(store.window("gpu", NOON - 2 * HOUR, NOON)) == [(1, NOON - 2 * HOUR, 0.2), (1, NOON - 1, 0.3)]
    assert len(store.window("gpu", NOON - DAY, NOON + DAY)) == 5
    assert cells(store.latest("gpu", NOON - DAY)) == [(1, NOON + 1, 0.8)]


def test_a_value_that_does_not_fit_is_absent_and_its_neighbours_are_not(store: Series) -> None:
    """NaN, infinities and numbers too large for the column never wrap round to something plausible."""
    store.write("gpu", rows((1, NOON, float("nan")), (2, NOON, float("inf")), (3, NOON, 6.6), (4, NOON, -0.5), (5, NOON, 0.7)))

    assert cells(store.window("gpu", NOON, NOON + 1)) == [
        (1, NOON, None),
        (2, NOON, None),
        (3, NOON, None),
        (4, NOON, None),
        (5, NOON, 0.7),
    ]
    assert store.misfits == 4  # type: ignore[attr-defined]


def test_a_column_without_a_value_has_none_whatever_its_type(store: Series) -> None:
    """A frame of rows that tell nothing of a metric has no type for it; the store knows it."""
    store.write("gpu", pl.DataFrame({"entity": [1], "ts": [NOON], "pstate": [None], "sm_active": [None], "power_w": [100.0]}))

    row = store.window("gpu", NOON, NOON + 1, [1], ["pstate", "sm_active", "power_w"]).row(0, named=True)
    assert (row["pstate"], row["sm_active"], row["power_w"]) == (None, None, 100.0)


def test_an_empty_frame_is_no_error(store: Series) -> None:
    """A flush without rows of one scope is normal."""
    store.write("host", rows().select("entity", "ts"))

    assert store.window("host", 0, 1 << 31).is_empty()


# Refusals


@pytest.mark.parametrize(
    ("frame", "word"),
    [
        (pl.DataFrame({"entity": [1], "ts": [NOON], "horse_power": [1]}), "horse_power"),
        (pl.DataFrame({"entity": [1], "sm_active": [1.0]}), "ts"),
        (pl.DataFrame({"entity": [1, None], "ts": [NOON, NOON]}), "entity"),
        (pl.DataFrame({"entity": [1], "ts": [NOON + 0.5]}), "whole"),
        (pl.DataFrame({"entity": [-1], "ts": [NOON]}), "entity"),
        (pl.DataFrame({"entity": [1], "ts": [NOON], "sm_active": [[1.0]]}), "gpu"),
    ],
    ids=["unknown column", "no key", "null key", "fraction of a second", "negative key", "a list for a number"],
)
def test_it_refuses_a_frame_that_it_cannot_keep(store: Series, frame: pl.DataFrame, word: str) -> None:
    """Nothing of it is stored, and the message names what is wrong."""
    with pytest.raises(StoreError, match=word):
        store.write("gpu", frame)

    assert store.window("gpu", 0, 1 << 31).is_empty()


def test_it_refuses_unknown_scopes_metrics_and_steps(store: Series) -> None:
    """A caller's mistake is a StoreError, never an empty answer."""
    with pytest.raises(StoreError, match="rack"):
        store.window("rack", 0, 1)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="horse_power"):
        store.window("gpu", 0, 1, metrics=["horse_power"])
    with pytest.raises(StoreError, match="step"):
        store.series("gpu", 1, ["sm_active"], 0, 1, 0)
    with pytest.raises(StoreError, match="text"):
        store.series("process", 1, ["name"], 0, 1, 10)


# series


def test_buckets_hold_mean_minimum_and_maximum_and_a_gap_stays_a_gap(store: Series) -> None:
    """Ten-second buckets; nothing was written in the second one."""
    store.write("gpu", rows((1, NOON, 0.1), (1, NOON + 9, 0.3), (2, NOON + 9, 1.0), (1, NOON + 20, 0.5)))
    back = store.series("gpu", 1, ["sm_active"], NOON, NOON + 60, 10)

    assert back.columns == ["ts", "sm_active", "sm_active_min", "sm_active_max"]
    assert back.rows() == [(NOON, pytest.approx(0.2), 0.1, 0.3), (NOON + 20, 0.5, 0.5, 0.5)]


def test_counters_and_states_give_the_last_value_of_a_bucket(store: Series) -> None:
    """The mean of a counter or of a bit mask means nothing; an absent last reading is passed over."""
    store.write(
        "gpu",
        pl.DataFrame(
            {"entity": [1, 1, 1], "ts": [NOON, NOON + 5, NOON + 9], "energy_j_total": [10.0, 25.5, None], "pstate": [0, 8, 2]}
        ),
    )
    back = store.series("gpu", 1, ["energy_j_total", "pstate"], NOON, NOON + 10, 10)

    assert back["energy_j_total"].to_list() == [25.5]
    assert back["pstate"].to_list() == [2]
    assert back["pstate"].dtype == pl.Int64


def test_a_bucket_of_absent_values_is_absent(store: Series) -> None:
    """Samples were taken, the metric had no value: null, not zero."""
    store.write("gpu", rows((1, NOON, None), (1, NOON + 1, None)))

    assert store.series("gpu", 1, ["sm_active"], NOON, NOON + 10, 10).rows() == [(NOON, None, None, None)]


def test_an_empty_series_has_the_types_of_a_full_one(store: Series) -> None:
    """For an unknown entity too."""
    store.write("gpu", rows((1, NOON, 0.5)))
    wanted = ["sm_active", "mem_used_bytes", "energy_j_total"]
    full, empty = (store.series("gpu", entity, wanted, NOON, NOON + 1, 10) for entity in (1, 2))

    assert len(full) == 1
    assert empty.is_empty()
    assert empty.schema == full.schema


# latest


def test_latest_gives_each_entity_its_own_newest_row(store: Series) -> None:
    """Those silent since `since` are left out; those that fell silent after it are not."""
    store.write("gpu", rows((1, NOON - 100, 0.1), (2, NOON - 50, 0.2), (3, NOON - 3000, 0.9)))
    store.write("gpu", rows((1, NOON, 0.3)))

    assert cells(store.latest("gpu", NOON - 100)) == [(1, NOON, 0.3), (2, NOON - 50, 0.2)]
    assert cells(store.latest("gpu", NOON - 100, [2, 3])) == [(2, NOON - 50, 0.2)]


def test_latest_gives_each_process_of_a_gpu(store: Series) -> None:
    """Its key is the GPU and the pid."""
    store.write(
        "process", pl.DataFrame({"entity": [1, 1, 1], "pid": [10, 10, 11], "ts": [NOON, NOON + 1, NOON], "threads": [1, 2, 3]})
    )

    assert store.latest("process", NOON).select("entity", "pid", "ts", "threads").rows() == [
        (1, 10, NOON + 1, 2),
        (1, 11, NOON, 3),
    ]


# prune


def test_prune_drops_whole_days_alone(pruned: Series) -> None:
    """A day of which one second is still wanted stays as it is."""
    midnight = NOON - 12 * HOUR
    frame = pl.DataFrame({"entity": [1] * 3, "ts": [midnight - DAY, midnight - 1, midnight]})
    pruned.write("gpu", frame)
    pruned.write("host", frame)
    pruned.prune({1: midnight - 1})
    kept = pruned.window("gpu", 0, NOON)["ts"].to_list()
    pruned.prune({1: midnight + 5})

    assert kept == [midnight - DAY, midnight - 1, midnight]
    assert pruned.window("gpu", 0, NOON)["ts"].to_list() == [midnight]
    assert pruned.window("host", 0, NOON)["ts"].to_list() == [midnight]
    pruned.write("gpu", rows((1, midnight - 5, 0.1)))
    assert pruned.window("gpu", 0, NOON)["ts"].to_list() == [midnight - 5, midnight]


def test_an_engine_whose_server_keeps_its_own_retention_says_that_it_freed_nothing() -> None:
    """What it holds stays until its server drops it."""
    store = new_victoria()
    store.write("gpu", rows((1, NOON, 0.1)))

    assert store.prune({1: NOON + DAY}) == 0
    assert cells(store.window("gpu", 0, NOON + 1)) == [(1, NOON, 0.1)]


# Properties

_flush = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.integers(-2 * HOUR, 2 * HOUR).map(lambda offset: NOON + offset) | st.integers(NOON, NOON + 3),
        st.none() | st.integers(0, 10_000).map(lambda steps: steps / 10_000),
    ),
    max_size=12,
)


@engines
@settings(max_examples=25, deadline=None)
@given(flushes=st.lists(_flush, max_size=6), bounds=st.tuples(st.integers(-HOUR, HOUR), st.integers(-HOUR, HOUR)))
def test_any_flushes_read_back_as_a_dict_would_hold_them(
    make: Make, flushes: list[list[tuple[int, int, float | None]]], bounds: tuple[int, int]
) -> None:
    """Late, doubled and absent values in any order of writing: window, latest and series agree with a plain dict."""
    held: dict[tuple[int, int], float | None] = {}
    start, end = NOON + bounds[0], NOON + bounds[1]
    with opened(make) as store:
        for flush in flushes:
            store.write("gpu", rows(*flush))
            held |= {(entity, ts): value for entity, ts, value in flush}
        window = cells(store.window("gpu", start, end))
        latest = cells(store.latest("gpu", start))
        series = store.series("gpu", 1, ["sm_active"], start, end, 60)

    inside = sorted((entity, ts, value) for (entity, ts), value in held.items() if start <= ts < end)
    newest = {entity: (entity, ts, held[entity, ts]) for entity, ts in sorted(held) if ts >= start}
    assert window == [(entity, ts, value) for entity, ts, value in inside]
    assert latest == [newest[entity] for entity in sorted(newest)]
    assert series["ts"].to_list() == sorted({ts // 60 * 60 for entity, ts, _ in inside if entity == 1})


@engines
@settings(max_examples=15, deadline=None)
@given(
    flushes=st.lists(
        st.dictionaries(
            st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(NOON - 2, NOON + 2)),
            st.tuples(st.none() | st.text(max_size=5), st.none() | st.integers(0, 1 << 40)),
            max_size=8,
        ),
        max_size=5,
    )
)
def test_any_process_rows_read_back_as_a_dict_would_hold_them(
    make: Make, flushes: list[dict[tuple[int, int, int], tuple[str | None, int | None]]]
) -> None:
    """Three keys, text of any kind, and the newest row of each pid."""
    held: dict[tuple[int, int, int], tuple[str | None, int | None]] = {}
    columns = {"entity": pl.Int64, "pid": pl.Int64, "ts": pl.Int64, "name": pl.String, "gpu_mem_bytes": pl.Int64}
    with opened(make) as store:
        for flush in flushes:
            store.write("process", pl.DataFrame([key + row for key, row in flush.items()], schema=columns, orient="row"))
            held |= flush
        window = store.window("process", NOON - 1, NOON + 2).select(*columns).rows()
        latest = store.latest("process", NOON - 1).select(*columns).rows()

    inside = [key + held[key] for key in sorted(held) if NOON - 1 <= key[2] < NOON + 2]
    newest = {key[:2]: key + held[key] for key in sorted(held) if key[2] >= NOON - 1}
    assert window == inside
    assert latest == [newest[key] for key in sorted(newest)]


@engines
@settings(max_examples=15, deadline=None)
@given(flush=_flush, times=st.integers(2, 4))
def test_writing_the_same_rows_again_changes_nothing(make: Make, flush: list[tuple[int, int, float | None]], times: int) -> None:
    """An agent resends what it got no ack for."""
    with opened(make) as store:
        store.write("gpu", rows(*flush))
        once = store.window("gpu", 0, 1 << 31)
        for _ in range(times):
            store.write("gpu", rows(*flush))

        assert store.window("gpu", 0, 1 << 31).equals(once)
