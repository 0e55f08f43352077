"""Roll-ups on disk: when they are made, made anew, merged and dropped."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fleet.store import retention
from fleet.store.compact import LATE_S, compact
from fleet.store.layout import ROLLED, read_day
from fleet.store.parquet import ParquetSeries
from wire.metrics import METRICS

HOUR, DAY = 3600, 86_400
T = 20_000 * DAY + 12 * HOUR
REPOSITORY = Path(__file__).resolve().parents[3]


class Site:
    """A store under a clock that the test moves; nothing waits for readers."""

    def __init__(self, path: Path) -> None:
        self.now = float(T)
        self.path = path
        self.store = ParquetSeries(path, clock=lambda: self.now, grace_s=0)

    def hour(self, start: int, value: float = 0.5, entities: range = range(1, 4), every_s: int = 60) -> None:
        """A sample a minute of some GPUs for an hour, arriving at its end."""
        keys = [(entity, ts) for ts in range(start, start + HOUR, every_s) for entity in entities]
        frame = pl.DataFrame(keys, schema=["entity", "ts"], orient="row")
        self.now = max(self.now, start + HOUR)
        self.store.write("gpu", frame.with_columns(sm_active=value, power_w=300.0, energy_j_total=pl.col("ts") * 1.5))

    def settle(self, seconds: float = 2 * HOUR) -> int:
        """Merge what is due so much later; how many merges there were."""
        self.now += seconds
        return sum(compact(self.store, self.now).merges for _ in range(2))

    def files(self, folder: str) -> list[str]:
        """The files of one resolution, of all days."""
        return sorted(path.name for path in (self.path / folder).rglob("*.parquet"))

    def by_hour(self, start: int = T, hours: int = 1, step_s: int = HOUR) -> list[tuple[object, ...]]:
        """GPU 1's means and counts."""
        frame = self.store.series("gpu", 1, ["sm_active"], start, start + hours * HOUR, step_s, full=True)
        return frame.select("ts", "sm_active", "sm_active_n").rows()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """An empty one."""
    return Site(tmp_path)


def test_an_hour_has_roll_ups_of_every_resolution_once_it_is_settled(site: Site) -> None:
    """Not before: until then its rows answer."""
    site.hour(T)
    before = site.by_hour()
    early = [site.files(of.name) for of in ROLLED]
    site.settle()

    assert early == [[], [], []]
    assert [len(site.files(of.name)) for of in ROLLED] == [1, 1, 1]
    assert before == site.by_hour() == [(T, 0.5, 60)]


def test_what_comes_late_counts_at_once_and_in_the_roll_ups_later(site: Site) -> None:
    """From its rows until the hour is rolled up again, then from the roll-up that takes the other's place."""
    site.hour(T)
    site.settle()
    site.now += HOUR
    site.store.write("gpu", pl.DataFrame({"entity": [1] * 60, "ts": range(T + 1, T + HOUR, 60), "sm_active": [1.0] * 60}))
    at_once = site.by_hour()
    site.settle(LATE_S + 600)
    rolled = site.by_hour()
    site.store.prune({1: T + 2 * DAY})

    assert at_once == rolled == site.by_hour() == [(T, 0.75, 120)]
    assert not site.files("raw")


def test_what_comes_after_the_rows_are_gone_joins_their_roll_up(site: Site) -> None:
    """One sample beside sixty: it counts as one of sixty-one; another GPU's hour, of which nothing was known, is there."""
    site.hour(T)
    site.settle()
    site.store.prune({1: T + 2 * DAY})
    site.now += 3 * DAY
    site.store.write("gpu", pl.DataFrame({"entity": [1, 9], "ts": [T + 17, T + 17], "sm_active": [1.0, 1.0]}))
    site.settle(2 * HOUR)
    site.store.prune({1: T + 5 * DAY})

    assert site.by_hour() == [(T, pytest.approx(31 / 61, abs=1e-4), 61)]
    assert site.store.series("gpu", 9, ["sm_active"], T, T + HOUR, HOUR)["sm_active"].to_list() == [1.0]


def backlog(start: int, end: int) -> pl.DataFrame:
    """A sample a second of two GPUs, with a metric of each kind; what they tell of differs from second to second."""
    keys = [(entity, ts) for ts in range(start, end) for entity in (1, 2)]
    at = pl.col("ts") - T
    return pl.DataFrame(keys, schema=["entity", "ts"], orient="row").with_columns(
        sm_active=(at % 7) / 10, energy_j_total=at * 300.0, clocks_event_reasons=4 * (at % 3 > 0), pstate=at % 5
    )


def test_a_backlog_that_is_older_than_rows_are_kept_ends_in_roll_ups_however_long_it_takes(tmp_path: Path) -> None:
    """Rows of thirty hours ago that come in parts, with a prune after each: the roll-ups are those of rows that came at once."""
    whole, parts = Site(tmp_path / "whole"), Site(tmp_path / "parts")
    names = ["sm_active", "energy_j_total", "clocks_event_reasons", "pstate"]
    ends = [
        T,
        T + 700,
        T + 1500,
        T + 2300,
        T + 3600,
        T + 5000,
    ]  # on ten seconds: raw rows alone could join two halves of a roll-up
    for site, bounds in ((whole, [T, ends[-1]]), (parts, ends)):
        site.now = T + 30 * HOUR + 12 * HOUR
        for start, end in pairwise(bounds):
            site.store.write("gpu", backlog(start, end))
            site.now += 600
            site.store.prune({1: int(site.now) - 24 * HOUR, 10: int(site.now) - 7 * DAY})
        site.settle()

    assert not whole.files("raw")
    assert not parts.files("raw")
    for step_s in (10, 60, HOUR):
        told = [site.store.series("gpu", 1, names, T, T + 5000, step_s, full=True) for site in (whole, parts)]
        once, late = (one.drop(name for name in one.columns if name.endswith("_p95")) for one in told)
        assert once["sm_active_n"].sum() == 5000
        assert_frame_equal(once, late, abs_tol=2e-4)


def test_what_is_written_while_its_day_is_pruned_stays_until_it_is_rolled_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backlog goes on between the roll-up of a day and its removal: what came then is not removed with it."""
    site.hour(T)
    settle = retention._settle

    def and_write(*of: Any) -> None:
        settle(*of)
        monkeypatch.setattr(retention, "_settle", settle)
        site.store.write("gpu", pl.DataFrame({"entity": [1], "ts": [T + 17], "sm_active": [1.0]}))

    monkeypatch.setattr(retention, "_settle", and_write)
    site.store.prune({1: T + 2 * DAY})
    assert site.store.window("gpu", T + 17, T + 18)["sm_active"].to_list() == [1.0]
    site.store.prune({1: T + 2 * DAY})

    assert not site.files("raw")
    assert site.by_hour() == [(T, pytest.approx(31 / 61, abs=1e-4), 61)]


@pytest.mark.parametrize("folder", [of.name for of in ROLLED])
def test_roll_ups_that_are_missing_are_made_anew(site: Site, folder: str) -> None:
    """While their rows are there: a disk lost a directory, or somebody deleted it."""
    site.hour(T)
    site.settle()
    whole = site.files(folder)
    for path in (site.path / folder).rglob("*.parquet"):
        path.unlink()
    meanwhile = site.by_hour()
    site.settle(60)

    assert meanwhile == site.by_hour() == [(T, 0.5, 60)]
    assert len(site.files(folder)) == len(whole)


def test_hours_that_were_settled_before_there_were_roll_ups_get_them(site: Site) -> None:
    """An hour of level c, as earlier versions settled it."""
    site.hour(T)
    site.settle()
    for of in ROLLED:
        for path in (site.path / of.name).rglob("*.parquet"):
            path.unlink()
    (settled,) = (site.path / "raw").rglob("d-*.parquet")
    settled.rename(settled.with_name("c" + settled.name[1:]))
    site.settle(60)

    assert [name[0] for name in site.files("raw")] == ["d"]
    assert [len(site.files(of.name)) for of in ROLLED] == [1, 1, 1]


def test_the_roll_ups_of_a_day_become_one_file(site: Site) -> None:
    """A day of one-minute roll-ups is read from one file; hours, of which a directory has thirty days, once they are many."""
    for hour in range(24):
        site.hour(T - 12 * HOUR + hour * HOUR, value=hour / 100, every_s=600)
    for _ in range(3):
        site.settle()
    days = [(number // 100, value) for number, (_, value, _) in enumerate(site.by_hour(T - 12 * HOUR, 24))]

    assert [name[0] for name in site.files("1m")] == ["c"]
    assert [name[0] for name in site.files("1h")] == ["c"]
    assert len(site.files("10s")) == 24
    assert days == [(0, pytest.approx(hour / 100)) for hour in range(24)]


def test_a_metric_that_is_new_rewrites_no_file(site: Site) -> None:
    """An hour of before it, one of after it, merged into one day: null where it was not measured."""
    known = [metric for metric in METRICS if metric.name != "power_w"]
    old = ParquetSeries(site.path, known, clock=lambda: site.now, grace_s=0)
    site.now = T + HOUR
    old.write("gpu", pl.DataFrame({"entity": [1], "ts": [T], "sm_active": [0.25]}))
    compact(old, T + 2 * HOUR)
    compact(old, T + 2 * HOUR)
    written = {path: path.stat().st_mtime_ns for path in site.path.rglob("*.parquet")}
    site.hour(T + HOUR, entities=range(1, 2))
    site.settle()
    same = {path: path.stat().st_mtime_ns for path in written}
    told = site.store.series("gpu", 1, ["sm_active", "power_w"], T, T + 2 * HOUR, HOUR)
    site.settle(2 * DAY)
    merged = site.store.series("gpu", 1, ["sm_active", "power_w"], T, T + 2 * HOUR, HOUR)

    assert same == written
    assert told.select("sm_active", "power_w").rows() == [(0.25, None), (0.5, 300.0)]
    assert merged.equals(told)


def test_what_a_kill_left_half_made_is_removed_and_made_again(site: Site) -> None:
    """A temporary file, a set without its second shard, a file cut short: the rows answer meanwhile."""
    site.hour(T, entities=range(1, 201))  # two shards
    site.settle()
    for shard in (site.path / "10s").rglob("*-s1of2-*.parquet"):
        shard.rename(shard.with_name(f".roll-{shard.name}.tmp"))
    meanwhile = site.by_hour(step_s=60)
    site.settle(60)
    (day,) = (read_day(path) for path in (site.path / "10s" / "gpu").iterdir() if path.is_dir())
    for path in (site.path / "1m").rglob("*-s0of2-*.parquet"):
        os.truncate(path, 100)
    cut = site.by_hour(step_s=60)

    assert not day.tmp
    assert not [hour for hour in day.hours.values() if hour.incomplete]
    assert meanwhile == [(ts, 0.5, 1) for ts in range(T, T + HOUR, 60)]
    assert site.by_hour(step_s=10)[0] == (T, 0.5, 1)
    assert cut == meanwhile  # from the hour's rows
    assert site.by_hour() == [(T, 0.5, 60)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_a_merge_that_is_killed_anywhere_loses_no_roll_up(site: Site, seed: int) -> None:
    """Kill -9 in the middle of a run, again and again: in the end every hour is told of as from its rows."""
    for hour in range(4):
        site.hour(T + hour * HOUR, value=hour / 8, entities=range(1, 300), every_s=10)
    truth = site.by_hour(hours=4)
    script = (
        "import os, sys, threading, time; from pathlib import Path; from fleet.store.compact import compact;"
        "from fleet.store.parquet import ParquetSeries; threading.Timer(float(sys.argv[2]), os.kill, (os.getpid(), 9)).start();"
        "compact(ParquetSeries(Path(sys.argv[1]), grace_s=0), float(sys.argv[3]))"
    )
    for attempt in range(6):
        after = f"{0.02 + 0.13 * attempt + 0.03 * seed:.2f}"
        subprocess.run(
            [sys.executable, "-c", script, str(site.path), after, str(T + 6 * HOUR)],
            cwd=REPOSITORY,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            check=False,
        )
        assert site.by_hour(hours=4) == truth
    site.settle(6 * HOUR)
    site.store.prune({1: T + 2 * DAY})

    assert not site.files("raw")
    assert site.by_hour(hours=4) == truth
    assert sum(count for _, _, count in site.by_hour(hours=4, step_s=60)) == 4 * 360  # type: ignore[misc]
