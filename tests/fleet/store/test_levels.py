"""What every engine tells of a bucket in full, and which level answers; the same tests run on all engines that roll up."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.store.memory import MemorySeries
from fleet.store.series import CODES, Series, rounded
from tests.fleet.store.test_contract import DAY, ENGINES, HOUR, NOON, Make, opened

ROLLING = {name: make for name, make in ENGINES.items() if name in ("parquet", "merged", "memory")}
rolling = pytest.mark.parametrize("make", list(ROLLING.values()), ids=list(ROLLING))
METRICS = ("sm_active", "energy_j_total", "pstate", "clocks_event_reasons", "mem_used_bytes", "nvlink_links_active")


@pytest.fixture(params=list(ROLLING.values()), ids=list(ROLLING))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Series:
    """An empty store of each engine in turn."""
    return request.param(tmp_path)  # type: ignore[no-any-return]


def write(store: Series, name: str, values: Sequence[float | None], start: int = NOON) -> None:
    """One value a second of GPU 1."""
    times = range(start, start + len(values))
    store.write("gpu", pl.DataFrame({"entity": [1] * len(values), "ts": times, name: values}, strict=False))


def one(store: Series, name: str, step_s: int) -> dict[str, Any]:
    """The only bucket of a metric, in full."""
    return store.series("gpu", 1, [name], NOON, NOON + step_s, step_s, full=True).row(0, named=True)


def test_a_gauge_keeps_mean_extremes_a_percentile_and_how_many_samples_had_it(store: Series) -> None:
    """Of 0.00, 0.01 … 0.59, and of seconds without a value nothing."""
    write(store, "sm_active", [step / 100 if step < 60 else None for step in range(100)])
    told = one(store, "sm_active", HOUR)

    assert told["sm_active"] == pytest.approx(0.295, abs=1e-4)
    assert (told["sm_active_min"], told["sm_active_max"], told["sm_active_n"]) == (0.0, 0.59, 60)
    assert told["sm_active_p95"] == pytest.approx(0.5605, abs=1e-4)


def test_a_counter_keeps_its_growth_over_a_restart(store: Series) -> None:
    """It fell to 5: that is 5 more, however far it had come. The last value is a counter's."""
    write(store, "energy_j_total", [100.0, 130.0, None, 150.5, 5.0, 7.25])
    told = one(store, "energy_j_total", HOUR)

    assert told["energy_j_total"] == 7.25
    assert told["energy_j_total_grown"] == pytest.approx(30 + 20.5 + 5 + 2.25)
    assert (told["energy_j_total_min"], told["energy_j_total_max"], told["energy_j_total_n"]) == (5.0, 150.5, 5)


def test_bits_and_codes_keep_their_share_of_the_samples(store: Series) -> None:
    """Bits 0 and 2 of a mask, codes 0 and 8 of a state; the samples without a value count for nothing."""
    write(store, "clocks_event_reasons", [0, 1, 5, 5, None])
    write(store, "pstate", [0, 0, 0, 8, None], NOON + HOUR)
    bits = one(store, "clocks_event_reasons", HOUR)
    codes = store.series("gpu", 1, ["pstate"], NOON + HOUR, NOON + 2 * HOUR, HOUR, full=True).row(0, named=True)

    assert bits["clocks_event_reasons_shares"] == [0.75, 0.0, 0.5] + [0.0] * (CODES - 3)
    assert bits["clocks_event_reasons"] == 5
    assert (bits["clocks_event_reasons_min"], bits["clocks_event_reasons_max"]) == (0, 5)
    assert codes["pstate_shares"] == [0.75] + [0.0] * 7 + [0.25] + [0.0] * (CODES - 9)
    assert (codes["pstate"], codes["pstate_n"]) == (8, 4)


def test_what_nobody_measured_is_absent_in_all_that_is_told_of_it(store: Series) -> None:
    """The bucket is there, as its samples are; the count is 0 and the rest null."""
    write(store, "power_w", [100.0, 200.0])
    told = store.series("gpu", 1, [*METRICS], NOON, NOON + HOUR, HOUR, full=True).row(0, named=True)
    counts = {name: value for name, value in told.items() if name.endswith("_n")}

    assert set(counts.values()) == {0}
    assert {value for name, value in told.items() if name != "ts" and name not in counts} == {None}


def test_processes_of_one_gpu_are_told_of_together(store: Series) -> None:
    """The mean is over all rows of both, a counter grows by what each has grown."""
    rows = [(1, 7, NOON, 100.0, 10), (1, 7, NOON + 1, 50.0, 30), (1, 8, NOON, 0.0, 900), (1, 8, NOON + 1, 0.0, 901)]
    schema = ["entity", "pid", "ts", "cpu_pct", "read_bytes_total"]
    store.write("process", pl.DataFrame(rows, schema=schema, orient="row"))
    told = store.series("process", 1, ["cpu_pct", "read_bytes_total"], NOON, NOON + HOUR, HOUR, full=True).row(0, named=True)

    assert told["cpu_pct"] == 37.5
    assert (told["cpu_pct_n"], told["cpu_pct_max"]) == (4, 100.0)
    assert told["read_bytes_total_grown"] == 21


def test_a_bucket_longer_than_an_hour_holds_all_its_hours(store: Series) -> None:
    """Two hours written apart, the growth between them among it; a percentile cannot be had from two."""
    write(store, "energy_j_total", [10.0, 20.0])
    write(store, "energy_j_total", [50.0, 51.0], NOON + HOUR)
    write(store, "sm_active", [0.25, 0.75], NOON + HOUR + 10)
    told = store.series("gpu", 1, ["energy_j_total", "sm_active"], NOON, NOON + 2 * HOUR, 2 * HOUR, full=True)

    assert told["energy_j_total_grown"].to_list() == [41.0]
    assert told["energy_j_total"].to_list() == [51.0]
    assert told["sm_active"].to_list() == [0.5]
    assert told["ts"].to_list() == [NOON]


def test_prune_drops_of_each_level_what_is_older_than_its_second(store: Series) -> None:
    """Rows of two days ago go, and what they were like stays readable for an engine that rolls up."""
    write(store, "sm_active", [0.25] * 20, NOON - 2 * DAY)
    write(store, "sm_active", [0.75] * 20)
    store.prune({1: NOON - DAY})
    kept = store.series("gpu", 1, ["sm_active"], NOON - 2 * DAY, NOON - 2 * DAY + 60, 10)
    store.prune({1: NOON - DAY, 10: NOON - DAY, 60: NOON - DAY, 3600: NOON - 200 * DAY})
    coarse = store.series("gpu", 1, ["sm_active"], NOON - 2 * DAY, NOON - 2 * DAY + 60, 10)

    assert store.window("gpu", 0, NOON + 60)["ts"].to_list() == list(range(NOON, NOON + 20))
    if not isinstance(store, MemorySeries):
        assert kept["sm_active"].to_list() == [0.25, 0.25]
        assert coarse.rows() == [(NOON - 2 * DAY, 0.25, 0.25, 0.25)]  # an hour's, as nothing finer is there


_value = st.fixed_dictionaries(
    {
        "sm_active": st.none() | st.integers(0, 10_000).map(lambda steps: steps / 10_000),
        "energy_j_total": st.none() | st.integers(0, 10**9).map(lambda steps: steps / 1000),
        "pstate": st.none() | st.integers(0, 15),
        "clocks_event_reasons": st.none() | st.sampled_from((0, 1, 4, 5, 0x80, 0xFFFFFFFE)),
        "mem_used_bytes": st.none() | st.integers(0, 1 << 43),
        "nvlink_links_active": st.none() | st.integers(0, 18),
    }
)
_flush = st.dictionaries(
    st.tuples(st.integers(1, 2), st.integers(-HOUR, 2 * HOUR).map(lambda offset: NOON + offset) | st.integers(NOON, NOON + 40)),
    _value,
    max_size=30,
)


@rolling
@settings(max_examples=8, deadline=None)
@given(flushes=st.lists(_flush, max_size=3), step_s=st.sampled_from((1, 7, 10, 30, 60, 100, 3600, 7200)))
def test_any_buckets_tell_what_the_rows_in_them_tell(make: Make, flushes: list[dict[Any, Any]], step_s: int) -> None:
    """Whatever was merged and rolled up in between, up to half a step of rounding; a percentile may be lacking."""
    plain = MemorySeries()
    start, end = NOON - 7200, NOON + 7200
    schema = {"entity": pl.Int64, "ts": pl.Int64, **dict.fromkeys(METRICS, pl.Float64)}
    with opened(make) as store:
        for flush in flushes:
            rows = [(*key, *(values[name] for name in METRICS)) for key, values in flush.items()]
            frame = pl.DataFrame(rows, schema=schema, orient="row", strict=False)
            for each in (plain, store):
                each.write("gpu", frame)
        told = store.series("gpu", 1, METRICS, start, end, step_s, full=True)
    truth = plain.series("gpu", 1, METRICS, start, end, step_s, full=True)

    assert told.schema == truth.schema
    assert told["ts"].to_list() == truth["ts"].to_list()
    for name in truth.columns:
        step = 1.0 if name.startswith("mem_used_bytes") else 2e-3  # that means are rounded to
        for value, known in zip(told[name].to_list(), truth[name].to_list(), strict=True):
            if not (name.endswith("_p95") and value is None):
                assert same(value, known, step), name


def same(value: Any, known: Any, step: float) -> bool:
    """True when both are null, or differ by less than the step (in every share)."""
    if isinstance(known, list):
        return isinstance(value, list) and all(abs(one - other) < step for one, other in zip(value, known, strict=True))
    if known is None or value is None:
        return known is value
    return bool(abs(value - known) <= max(step, 1e-6 * abs(known)))


@pytest.mark.parametrize(("step_s", "shown"), [(0, 1), (1, 1), (9, 9), (11, 20), (60, 60), (61, 120), (840, 840), (3601, 7200)])
def test_a_step_is_rounded_up_to_whole_rows(step_s: int, shown: int) -> None:
    """Of the coarsest level that is no longer than it."""
    assert rounded(step_s) == shown
