"""Merging: when it is due, what it makes, what stays for readers."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from fleet.store import disk
from fleet.store.compact import LATE_S, compact, is_due
from fleet.store.layout import RAW, parse
from fleet.store.parquet import ParquetSeries

HOUR = 3600
T = 20_000 * 86_400 + 12 * HOUR
REPOSITORY = Path(__file__).resolve().parents[3]


class Site:
    """A store under a clock that the test moves."""

    def __init__(self, path: Path, grace_s: float = 60) -> None:
        self.now = float(T)
        self.store = ParquetSeries(path, clock=lambda: self.now, grace_s=grace_s)
        self.day = path / "raw" / "gpu" / "2024-10-04"

    def flush(self, ts: int, at: float | None = None, entities: range = range(1, 4), value: float = 0.5) -> None:
        """Ten seconds of some GPUs, from `ts`, arriving at `at`."""
        self.now = ts + 10 if at is None else at
        keys = [(entity, second) for second in range(ts, ts + 10) for entity in entities]
        self.store.write(
            "gpu",
            pl.DataFrame(keys, schema=["entity", "ts"], orient="row").with_columns(
                sm_active=value, energy_j_total=pl.col("ts") * 1.5 + pl.col("entity")
            ),
        )

    def compact(self, now: float) -> int:
        """How many merges one run made."""
        return compact(self.store, now).merges

    def levels(self) -> Counter[str]:
        """Files by level."""
        return Counter(path.name[0] for path in self.day.glob("*.parquet"))

    def all(self) -> pl.DataFrame:
        """Every row."""
        return self.store.window("gpu", 0, 1 << 32)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """An empty one."""
    return Site(tmp_path)


def age(site: Site, seconds: float) -> None:
    """Make every file look `seconds` older than it is."""
    for path in site.day.glob("*.parquet"):
        os.utime(path, (path.stat().st_mtime - seconds,) * 2)


def test_flushes_of_one_slot_become_one_set_once_the_slot_is_over(site: Site) -> None:
    """Not before; the slot after it waits for its own end."""
    for ts in range(T, T + 300, 10):
        site.flush(ts, at=ts + 9)
    early = site.compact(T + 299)
    site.flush(T + 300)
    before = site.all()

    assert early == 0
    assert is_due(site.store, T + 300)
    assert site.compact(T + 300) == 1
    assert site.levels() == {"a": 31, "b": 1}
    assert site.all().equals(before)
    assert site.compact(T + 300) == 0


def test_inputs_stay_for_the_grace_and_go_after_it(site: Site) -> None:
    """A reader that listed the directory just before the merge can still open what it saw."""
    site.flush(T)
    site.compact(T + 300)
    within = site.levels()
    age(site, 61)
    due = is_due(site.store, T + 301)
    site.compact(T + 301)

    assert within == {"a": 1, "b": 1}
    assert due
    assert site.levels() == {"b": 1}
    assert len(site.all()) == 30


def test_an_hour_settles_one_slot_after_its_end(tmp_path: Path) -> None:
    """Flush files, five-minute files and the hour hold the same rows."""
    site = Site(tmp_path, grace_s=0)
    for ts in range(T, T + HOUR, 100):
        site.flush(ts, at=ts + 9)
    before = site.all()
    site.compact(T + HOUR)
    fives = site.levels()
    site.compact(T + HOUR + 300)
    site.compact(T + HOUR + 300)

    assert fives["b"] == 12
    assert site.levels() == {"d": 1}
    assert site.all().equals(before)


def test_late_rows_join_a_settled_hour_after_they_have_stopped_coming(tmp_path: Path) -> None:
    """They are readable at once; the hour is rewritten once, not with each of them."""
    site = Site(tmp_path, grace_s=0)
    site.flush(T)
    site.compact(T + 2 * HOUR)
    late = T + 5 * HOUR
    site.flush(T + 10, at=late)
    site.flush(T + 2, at=late + 400, value=0.75)
    seen = site.all()

    assert site.compact(late + 800) == 2
    assert site.all().equals(seen)
    assert site.compact(late + LATE_S) == 0
    assert site.compact(late + 400 + LATE_S) == 2  # the hour, and its ten-second roll-ups with those that they replace
    assert site.compact(late + 400 + LATE_S) == 0
    assert site.levels() == {"d": 1}
    assert site.all().equals(seen)
    assert seen.filter(pl.col("ts") == T + 2)["sm_active"].to_list() == [0.75] * 3


def test_the_later_of_two_rows_counts_across_levels(tmp_path: Path) -> None:
    """A resend after the merge, and one before it, in the same second."""
    site = Site(tmp_path, grace_s=0)
    site.flush(T, value=0.1)
    site.flush(T, value=0.2)
    site.compact(T + 300)
    merged = site.all()
    site.flush(T, at=T + 2 * HOUR, value=0.3)

    assert merged["sm_active"].unique().to_list() == [0.2]
    assert site.all()["sm_active"].unique().to_list() == [0.3]
    for now in (3 * HOUR, 4 * HOUR, 5 * HOUR):
        site.compact(T + now)
        assert site.all()["sm_active"].unique().to_list() == [0.3]
        assert len(site.all()) == 30


def test_a_large_fleet_is_cut_into_shards_by_entity(site: Site) -> None:
    """Each name says which entities are inside, and the rows are ordered."""
    site.flush(T, entities=range(1, 1001))
    site.compact(T + 300)
    shards = sorted(site.day.glob("b-*.parquet"), key=lambda path: path.name)
    named = [parse(path.name) for path in shards]

    assert [(one.shard, one.shards, one.e0, one.e1) for one in named if one] == [
        (0, 4, 1, 250),
        (1, 4, 251, 500),
        (2, 4, 501, 750),
        (3, 4, 751, 1000),
    ]
    for path, one in zip(shards, named, strict=True):
        rows = pl.read_parquet(path)
        assert one
        assert (rows["entity"].min(), rows["entity"].max()) == (one.e0, one.e1)
        assert rows.equals(rows.sort("entity", "ts"))
    assert len(site.store.window("gpu", T, T + 10, [250, 251, 999])) == 30


def test_a_reader_opens_only_the_shards_that_it_needs(tmp_path: Path) -> None:
    """A shard of other GPUs that cannot be read is not even noticed."""
    site = Site(tmp_path, grace_s=0)
    site.flush(T, entities=range(1, 251))
    site.compact(T + 2 * HOUR)
    site.compact(T + 2 * HOUR)
    next(site.day.glob("d-*-s1of2-*.parquet")).write_bytes(b"broken")

    assert len(site.store.series("gpu", 7, ["sm_active"], T, T + HOUR, 10)) == 1
    assert len(site.store.window("gpu", T, T + HOUR, range(1, 125))) == 1240
    assert site.store.window("gpu", T - HOUR, T).is_empty()
    assert site.store.readers["gpu"][RAW].damaged == set()
    assert len(site.store.window("gpu", T, T + HOUR)) == 1250
    assert len(site.store.readers["gpu"][RAW].damaged) == 1


def test_a_busy_compactor_is_left_alone(site: Site) -> None:
    """Two at once would be correct work done twice."""
    site.flush(T)
    with disk.locked(site.store.lock):
        done = compact(site.store, T + 300)

    assert done.busy
    assert done.merges == 0
    assert site.compact(T + 300) == 1


def test_what_a_kill_left_behind_is_cleared_away(site: Site) -> None:
    """Temporary files of both kinds, a set without all its shards, the rest of a pruned day."""
    site.flush(T, entities=range(1, 601))
    site.compact(T + 300)
    merged = sorted(site.day.glob("b-*.parquet"))
    half = merged[0].name
    for path in merged[1:]:
        path.unlink()
    (site.day / ".flush-a-1-2-q1-1-s0of1-e1-1.parquet.tmp").write_bytes(b"PAR1")
    (site.day / ".merge-b-1-2-q1-1-s0of1-e1-1.parquet.tmp").touch()
    (site.day.parent / ".trash-2024-10-01-1").mkdir()
    rows = len(site.all())
    done = compact(site.store, T + 300)

    assert rows == 6000
    assert done.merges == 1
    assert half in {path.name for path in site.day.glob("b-*.parquet")}
    assert len(list(site.day.glob("b-*.parquet"))) == 3
    assert not list(site.day.glob(".*"))
    assert not list(site.day.parent.glob(".trash-*"))
    assert len(site.all()) == 6000


def test_a_damaged_input_is_set_aside_and_the_rest_is_merged(site: Site) -> None:
    """One truncated flush costs its own rows alone."""
    site.flush(T)
    site.flush(T + 10)
    site.flush(T + 20)
    broken = sorted(site.day.glob("a-*.parquet"))[1]
    broken.write_bytes(broken.read_bytes()[:-10])
    first, second = site.compact(T + 300), site.compact(T + 300)

    assert (first, second) == (0, 1)
    assert broken.with_name(f"{broken.name}.damaged").exists()
    assert site.levels() == {"a": 2, "b": 1}
    assert site.all()["ts"].unique().sort().to_list() == [*range(T, T + 10), *range(T + 20, T + 30)]


def test_a_damaged_shard_of_a_settled_hour_costs_its_own_gpus_alone(tmp_path: Path) -> None:
    """Late rows still join the hour: the damaged shard is set aside, the others are merged with them."""
    site = Site(tmp_path, grace_s=0)
    site.flush(T, entities=range(1, 251))
    site.compact(T + 2 * HOUR)
    site.compact(T + 2 * HOUR)
    shard = next(site.day.glob("d-*-s0of2-*.parquet"))
    shard.write_bytes(b"PAR1 this is not what it says PAR1")
    kept = site.all()
    site.flush(T + 10, at=T + 3 * HOUR, entities=range(1, 3))
    for _ in range(3):
        site.compact(T + 6 * HOUR)

    assert kept["entity"].unique().sort().to_list() == list(range(126, 251))
    assert site.levels() == {"d": 2}
    assert site.all().filter(pl.col("ts") < T + 10).equals(kept)
    assert site.all().filter(pl.col("ts") >= T + 10)["entity"].unique().sort().to_list() == [1, 2]


def test_it_stops_between_merges_when_told_to(site: Site) -> None:
    """A worker that ends takes its child with it."""
    site.flush(T)
    site.flush(T + 400)

    assert compact(site.store, T + 1000, go_on=lambda: False).merges == 0
    assert compact(site.store, T + 1000).merges == 2


def test_it_runs_as_a_process_of_its_own(tmp_path: Path) -> None:
    """The real clock, the real command of the Celery task."""
    site = Site(tmp_path)
    site.flush(T)
    command = [sys.executable, "-m", "fleet.store.compact", str(tmp_path)]
    done = subprocess.run(
        command, cwd=REPOSITORY, env={"PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert site.levels() == {"a": 1, "b": 1, "d": 1}
    assert len(site.all()) == 30


def test_a_disk_that_refuses_the_merge_loses_nothing(site: Site) -> None:
    """The inputs stay what counts, and the sentence says so."""
    site.flush(T)
    rows = site.all()
    script = (
        "import resource, sys; from pathlib import Path; from fleet.store.compact import main;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300)); sys.exit(main([sys.argv[1]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(site.store.root)],
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "nothing was lost" in done.stdout
    assert "Traceback" not in done.stderr
    assert site.levels() == {"a": 1}
    assert site.all().equals(rows)


def test_a_run_that_is_cut_short_is_gone_on_with_and_still_frees_what_is_old(tmp_path: Path) -> None:
    """One merge a run: every scope has its turn, none waits behind another that always has more."""
    site = Site(tmp_path, grace_s=0)
    for ts in range(T, T + HOUR, 100):
        site.flush(ts, at=ts + 9)
        keys = pl.DataFrame({"entity": [1], "ts": [ts]})
        site.store.write("host", keys.with_columns(cpu_busy_cores=0.5))
        site.store.write("process", keys.with_columns(pid=7, cpu_pct=1.0))
        site.store.write("engine", keys.with_columns(requests_running=3.0))
    before = {scope: site.store.window(scope, 0, 1 << 32) for scope in site.store.tables}
    for run in range(len(before)):
        budget = iter((True,))
        assert compact(site.store, T + HOUR + 60 * run, go_on=lambda: next(budget, False)).merges == 1  # noqa: B023 - used at once
    raw = tmp_path / "raw"

    assert {path.parts[-3] for path in raw.rglob("b-*")} == set(before)
    assert all(len(list((raw / scope).rglob("a-*"))) == 33 for scope in before)
    compact(site.store, T + 2 * HOUR)
    assert all(site.store.window(scope, 0, 1 << 32).equals(frame) for scope, frame in before.items())
