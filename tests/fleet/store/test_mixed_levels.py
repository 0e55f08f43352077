"""A series over hours of which some are settled and some are not: it tells what the rows tell, however far merging has come."""

import random
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.store.compact import compact
from fleet.store.memory import MemorySeries
from fleet.store.parquet import ParquetSeries
from tests.fleet.store.test_contract import DAY, HOUR, NOON, opened
from tests.fleet.store.test_levels import METRICS, same
from wire.metrics import Scope

NAMES: Final[dict[Scope, tuple[str, ...]]] = {"gpu": METRICS, "process": ("cpu_pct", "read_bytes_total")}
DIVIDED: Final = (1, 7, 30, 60, 600, 2700, 3600, 7200, 14_400, 6 * HOUR, DAY)
"""Steps that the level which answers divides: all that is told is exact then."""
SKEWED: Final = (45, 100_000, 250, 5000, 14_500)
HOURS: Final = 7


class Site:
    """The same rows in a Parquet store under a clock that the test moves, and in one that merges nothing."""

    def __init__(self, path: Path) -> None:
        self.now = float(NOON)
        self.merging = ParquetSeries(path, clock=lambda: self.now, grace_s=0)
        self.plain = MemorySeries()

    def write(self, frame: pl.DataFrame, scope: Scope = "gpu") -> None:
        """Rows that arrive a moment after the newest of them, or of those before."""
        self.now = max(self.now + 1, float(frame["ts"].max()) + 1)  # type: ignore[arg-type] # a whole number
        for store in (self.merging, self.plain):
            store.write(scope, frame)

    def settle(self, now: float) -> None:
        """Merge all that is due at that time."""
        self.now = max(self.now, now)
        while compact(self.merging, now).merges:
            pass

    def told(
        self, step_s: int, start: int = NOON, end: int = NOON + DAY, scope: Scope = "gpu"
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """What both tell in full, the merging one first."""
        asked = scope, 1, NAMES[scope], start, end, step_s
        return self.merging.series(*asked, full=True), self.plain.series(*asked, full=True)

    def agree(self, step_s: int, start: int = NOON, end: int = NOON + DAY, scope: Scope = "gpu") -> None:
        """Fail where they differ by more than the step that means and shares are kept in; a percentile may be lacking."""
        told, truth = self.told(step_s, start, end, scope)

        assert told.schema == truth.schema
        assert told["ts"].to_list() == truth["ts"].to_list()
        for name in truth.columns:
            step = 1.0 if name.startswith("mem_used_bytes") else 1e-2 if name.startswith("cpu_pct") else 2e-3
            for ts, value, known in zip(truth["ts"], told[name].to_list(), truth[name].to_list(), strict=True):
                lacks = name.endswith("_p95") and value is None
                assert lacks or same(value, known, step), (name, ts - NOON, value, known)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """An empty one."""
    return Site(tmp_path)


def counter(start: int, end: int, first: float, every_s: int = 60) -> pl.DataFrame:
    """A counter of GPU 1 that grows by 1 J a second from `first`, and a state that says which hour it is."""
    times = range(start, end, every_s)
    values = [first + ts - start for ts in times]
    return pl.DataFrame(
        {"entity": 1, "ts": times, "energy_j_total": values, "pstate": [(ts - NOON) // HOUR % 16 for ts in times]}, strict=False
    )


@pytest.mark.parametrize("step_s", [2700, 5000, 7200, 14_500, DAY, 100_000])
def test_a_bucket_of_settled_hours_and_the_one_under_way_is_in_order_of_time(site: Site, step_s: int) -> None:
    """Five hours are settled, half an hour is not: the last value is the newest, and the counter grew by no more than it did."""
    site.write(counter(NOON, NOON + 5 * HOUR + 1800, 1_000_000))
    site.settle(NOON + 5 * HOUR + 1800)
    told = site.told(step_s, end=NOON + 12 * HOUR)[0]
    last = told.row(-1, named=True)

    assert last["energy_j_total"] == 1_000_000 + 5 * HOUR + 1800 - 60
    assert last["pstate"] == 5
    assert told["energy_j_total"].is_sorted()
    assert told["energy_j_total_grown"].sum() <= 5 * HOUR + 1800
    if step_s in DIVIDED:
        site.agree(step_s)


def test_hours_that_are_not_settled_may_lie_between_those_that_are(site: Site) -> None:
    """Late rows opened the second and the fourth of five hours again."""
    site.write(counter(NOON, NOON + 5 * HOUR, 1000))
    site.settle(NOON + 7 * HOUR)
    for hour in (1, 3):
        at = NOON + hour * HOUR + 30
        site.write(pl.DataFrame({"entity": [1], "ts": [at], "energy_j_total": [1000.0 + at - NOON], "pstate": [hour]}))

    for step_s in DIVIDED[2:]:
        site.agree(step_s)


def test_a_counter_that_begins_anew_at_a_border_grows_by_what_it_has_then(site: Site) -> None:
    """Its last value is of a settled hour and its first after the fall of one under way; an hour without rows may lie between."""
    site.write(counter(NOON, NOON + HOUR, 5000))
    site.settle(NOON + 2 * HOUR)
    site.write(counter(NOON + 2 * HOUR, NOON + 3 * HOUR, 7))
    told = site.told(DAY)[0].row(0, named=True)

    assert told["energy_j_total_grown"] == (HOUR - 60) + 7 + (HOUR - 60)
    site.agree(DAY)


def test_absent_values_at_a_border_are_looked_past(site: Site) -> None:
    """The last known value before the border and the first after it make the growth, wherever they are."""
    gap = pl.when(pl.col("ts").is_between(NOON + 3000, NOON + HOUR + 600)).then(None).otherwise(pl.col("energy_j_total"))
    site.write(counter(NOON, NOON + HOUR + 1800, 5000).with_columns(gap.alias("energy_j_total")))
    site.settle(NOON + HOUR + 1800)

    for step_s in DIVIDED:
        site.agree(step_s)


@pytest.mark.parametrize("end", [NOON + HOUR, NOON + HOUR + 1, NOON + 2 * HOUR - 1, NOON + 2 * HOUR + 900])
def test_an_end_within_an_hour_cuts_it(site: Site, end: int) -> None:
    """Of a settled hour too, as long as its rows are there; a start likewise."""
    site.write(counter(NOON, NOON + 4 * HOUR, 5000, every_s=20))
    site.settle(NOON + 6 * HOUR)

    for step_s in DIVIDED:
        site.agree(step_s, NOON, end)
        site.agree(step_s, end - HOUR + 1, end + HOUR)


def test_hours_whose_rows_are_gone_are_followed_by_those_that_have_them(site: Site) -> None:
    """A day that is roll-ups alone, a settled morning, and the hour under way, in buckets that reach over both borders."""
    day = NOON // DAY * DAY
    site.write(counter(day, day + DAY + 6 * HOUR + 900, 1000))
    site.settle(day + DAY + 6 * HOUR + 900)
    site.merging.prune({1: day + DAY})

    assert site.merging.window("gpu", day, day + DAY).is_empty()
    for step_s in (60, 600, HOUR, 5 * HOUR, 7 * DAY):
        site.agree(step_s, day, day + 2 * DAY)


@pytest.mark.parametrize("settles", [False, True])
def test_a_straggler_does_not_hide_the_hour_whose_rows_are_gone(site: Site, settles: bool) -> None:
    """It comes days late: neither at once, nor where the span cuts its hour, it stands for all of it; rolled up, it is one more sample of its bucket."""
    day = NOON // DAY * DAY
    site.write(counter(day, day + 4 * HOUR, 1000, every_s=20))
    site.settle(day + 6 * HOUR)
    site.merging.prune({1: day + DAY})
    before = {step_s: site.told(step_s, day, day + DAY)[0] for step_s in (60, HOUR, DAY)}
    cut = site.told(600, day + HOUR + 313, day + 3 * HOUR - 313)[0]
    site.now = day + 3 * DAY
    at = day + 2 * HOUR + 7
    site.write(pl.DataFrame({"entity": [1], "ts": [at], "energy_j_total": [1.0], "pstate": [7]}))
    if settles:
        site.settle(site.now + 2 * HOUR)

    assert site.merging.window("gpu", day, day + DAY).height == 1
    for step_s, known in before.items():
        others = ~pl.col("ts").is_between(at - step_s, at, closed="right") if settles else pl.lit(True)
        told = site.told(step_s, day, day + DAY)[0]
        assert told.filter(others).equals(known.filter(others)), step_s
        for name in ("energy_j_total", "energy_j_total_max", "pstate"):  # of the straggler's own bucket: it is not its newest
            assert told[name].to_list() == known[name].to_list(), (step_s, name)
    around = ~pl.col("ts").is_between(at - 600, at, closed="right") if settles else pl.lit(True)
    assert site.told(600, day + HOUR + 313, day + 3 * HOUR - 313)[0].filter(around).equals(cut.filter(around))


_flush = st.tuples(st.integers(0, HOURS - 1), st.integers(1, HOURS), st.sampled_from((1, 17, 60, 600)), st.booleans())


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    flushes=st.lists(_flush, min_size=1, max_size=4),
    settles=st.lists(st.integers(0, HOURS * 12 + 40).map(lambda slots: slots * 300), max_size=4),
    scope=st.sampled_from(("gpu", "gpu", "process")),
    span=st.tuples(st.integers(0, HOURS * HOUR), st.integers(1, HOURS * HOUR)) | st.just((0, DAY)),
)
def test_any_rows_settled_up_to_any_time_tell_what_they_told_before(
    seed: int, flushes: list[tuple[int, int, int, bool]], settles: list[int], scope: Scope, span: tuple[int, int]
) -> None:
    """Gaps, counters that begin anew, late rows, absent values; over any span, in buckets of any step that a level divides."""
    chance = random.Random(seed)
    with opened(ParquetSeries) as store:
        assert isinstance(store, ParquetSeries)
        site = Site(store.root)
        for number, flush in enumerate(flushes):
            site.write(_rows(chance, scope, *flush), scope)
            if number < len(settles):
                site.settle(NOON + settles[number])
        start, end = NOON + span[0], NOON + span[0] + span[1]
        for step_s in chance.sample(DIVIDED, 5):
            site.agree(step_s, start, end, scope)
        for step_s in SKEWED:
            _nothing_is_lost(*site.told(step_s, start, end, scope), NAMES[scope])


def _rows(chance: random.Random, scope: Scope, first: int, hours: int, every_s: int, gaps: bool) -> pl.DataFrame:
    """Rows of some hours with gaps between them; each metric is absent now and then, counters fall now and then."""
    times = [
        ts
        for ts in range(NOON + first * HOUR, NOON + min(HOURS, first + hours) * HOUR, every_s)
        if every_s > 1 or ts % HOUR < 20 or ts % HOUR > HOUR - 20  # seconds at the borders of the hours
        if not gaps or chance.random() < 0.4
    ] or [NOON + first * HOUR]
    things = [{"pid": pid} for pid in (7, 8)] if scope == "process" else [{}]
    made: list[dict[str, Any]] = []
    for thing in things:
        total = float(chance.randrange(10**6))
        for ts in times:
            total = float(chance.randrange(100)) if chance.random() < 0.02 else total + chance.randrange(100)
            values: dict[str, Any] = {
                "sm_active": chance.randrange(10_001) / 10_000,
                "energy_j_total": total,
                "read_bytes_total": int(total),
                "cpu_pct": chance.randrange(1000) / 10,
                "pstate": chance.randrange(16),
                "clocks_event_reasons": chance.choice((0, 1, 4, 0x84)),
                "mem_used_bytes": chance.randrange(1 << 43),
                "nvlink_links_active": chance.randrange(19),
            }
            known = {name: None if chance.random() < 0.2 else values[name] for name in NAMES[scope]}
            made.append({"entity": 1, **thing, "ts": ts, **known})
    return pl.DataFrame(made, infer_schema_length=None)


def _nothing_is_lost(told: pl.DataFrame, truth: pl.DataFrame, names: tuple[str, ...]) -> None:
    """Of steps that no level divides a row may lie one bucket aside: all of them are there."""
    for name in names:
        assert told[f"{name}_n"].sum() == truth[f"{name}_n"].sum(), name
        assert told[f"{name}_min"].min() == truth[f"{name}_min"].min(), name
        assert told[f"{name}_max"].max() == truth[f"{name}_max"].max(), name
