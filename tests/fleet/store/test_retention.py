"""The limit of bytes: what goes first, what is said, what stays."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from fleet.store.compact import compact
from fleet.store.parquet import ParquetSeries
from fleet.store.series import StoreError

HOUR, DAY = 3600, 86_400
T = 20_000 * DAY + 12 * HOUR


@pytest.fixture
def clock() -> list[float]:
    """The store's time, which the test moves."""
    return [float(T)]


@pytest.fixture
def engine(tmp_path: Path, clock: list[float]) -> ParquetSeries:
    """Six hours of some GPUs, the last of them under way, all but the newest three rolled up."""
    engine = ParquetSeries(tmp_path, clock=lambda: clock[0], grace_s=0)
    for hour in range(6):
        keys = [(entity, ts) for ts in range(T + hour * HOUR, T + (hour + 1) * HOUR, 20) for entity in range(1, 21)]
        frame = pl.DataFrame(keys, schema=["entity", "ts"], orient="row")
        clock[0] = T + hour * HOUR + 1800.0
        engine.write("gpu", frame.with_columns(power_w=100.0 + (pl.col("ts") * pl.col("entity")) % 977))
        if hour == 4:
            for _ in range(2):
                compact(engine, T + 3 * HOUR + 400)
    return engine


def used(engine: ParquetSeries) -> int:
    """Bytes of all its files."""
    return sum(path.stat().st_size for path in engine.root.rglob("*.parquet*"))


def hours(engine: ParquetSeries) -> list[int]:
    """The hours of which there are rows, from 0."""
    return sorted({(ts - T) // HOUR for ts in engine.window("gpu", 0, T + DAY, metrics=[])["ts"].to_list()})


def test_nothing_goes_while_there_is_room(engine: ParquetSeries, caplog: pytest.LogCaptureFixture) -> None:
    """At the limit exactly, and nothing is said."""
    assert engine.prune({}, used(engine)) == 0
    assert hours(engine) == [0, 1, 2, 3, 4, 5]
    assert not caplog.records


def test_the_oldest_rows_go_first_and_only_as_many_as_must(engine: ParquetSeries, caplog: pytest.LogCaptureFixture) -> None:
    """What they were like stays readable; how much went is said."""
    before = used(engine)
    with caplog.at_level(logging.WARNING):
        freed = engine.prune({}, before - 1)

    assert hours(engine) == [1, 2, 3, 4, 5]
    assert freed == before - used(engine)
    assert "FETTLE_STORE_GB" in caplog.text
    assert "2024-10-04 12:00 UTC" in caplog.text
    assert engine.series("gpu", 1, ["power_w"], T, T + HOUR, 60).height == 60


def test_an_hour_that_is_not_rolled_up_is_rolled_up_before_it_goes(engine: ParquetSeries) -> None:
    """Also where the compactor does not keep up."""
    while len(hours(engine)) > 1:
        engine.prune({}, used(engine) - 1)

    assert hours(engine) == [5]
    assert engine.series("gpu", 1, ["power_w"], T, T + 5 * HOUR, HOUR).height == 5


def test_roll_ups_go_after_all_rows_but_those_of_the_hour_under_way(engine: ParquetSeries) -> None:
    """Which stay whatever the limit: what was just acked is no ballast."""
    engine.prune({}, 1)

    assert hours(engine) == [5]
    assert engine.series("gpu", 1, ["power_w"], T, T + 5 * HOUR, HOUR).is_empty()
    assert engine.series("gpu", 1, ["power_w"], T + 5 * HOUR, T + 6 * HOUR, HOUR).height == 1


def test_rows_whose_time_is_over_stay_until_they_are_rolled_up(engine: ParquetSeries) -> None:
    """Pruned by age the same day: every hour's roll-up is there."""
    engine.prune({1: T + 2 * DAY})

    assert hours(engine) == []
    assert engine.series("gpu", 1, ["power_w"], T, T + 6 * HOUR, HOUR).height == 6


def test_no_roll_up_goes_before_what_it_is_made_of(engine: ParquetSeries) -> None:
    """Ten-second roll-ups asked to go while their rows stay would be made anew, and so on."""
    engine.prune({1: T - DAY, 10: T + 2 * DAY, 60: T + 2 * DAY})

    assert list((engine.root / "10s").rglob("*.parquet"))
    assert list((engine.root / "1m").rglob("*.parquet"))


def test_what_is_not_the_stores_is_not_counted_and_stays(engine: ParquetSeries) -> None:
    """A backup beside the data drives nothing out; notes in a day's directory stay when the day goes."""
    (engine.root / "backup.tar").write_bytes(b"x" * 1_000_000)
    notes = next((engine.root / "raw" / "gpu").glob("20*")) / "notes.txt"
    notes.write_text("mine")
    rolled = next((engine.root / "1h" / "gpu").glob("20*")) / "notes.tmp"
    rolled.write_text("mine too")

    assert engine.prune({}, used(engine)) == 0
    assert engine.prune(dict.fromkeys((1, 10, 60, 3600), T + 90 * DAY)) > 0
    assert [path.name for path in notes.parent.iterdir()] == ["notes.txt"]
    assert [path.name for path in rolled.parent.iterdir()] == ["notes.tmp"]
    assert used(engine) == 0


def test_what_was_set_aside_counts_and_goes_with_its_hour(engine: ParquetSeries) -> None:
    """It takes room like any other file."""
    first = sorted((engine.root / "raw" / "gpu").rglob("*.parquet"))[0]
    aside = first.with_name(f"a-{T}-{T + 1}-q1-1-s0of1-e1-1.parquet.damaged")
    aside.write_bytes(b"x" * 1_000_000)

    assert engine.prune({}, used(engine) - 1) > 1_000_000
    assert not aside.exists()
    assert hours(engine) == [1, 2, 3, 4, 5]


def test_a_directory_that_cannot_go_keeps_no_other(engine: ParquetSeries) -> None:
    """The others go; then it is said."""
    engine.write("host", pl.DataFrame({"entity": [1], "ts": [T]}))
    (engine.root / "10s" / "host").write_text("a file where a directory belongs")
    with pytest.raises(StoreError, match="cannot be removed"):
        engine.prune({1: T + 2 * DAY})

    assert hours(engine) == []
    assert engine.window("host", T, T + 1).height == 1


def test_a_full_disk_gets_room_by_pruning(tmp_path: Path) -> None:
    """On a real small file system, in a mount namespace of its own; skipped where none may be made."""
    mount = (
        "unshare",
        "--mount",
        "--map-root-user",
        "sh",
        "-c",
        'mount -t tmpfs -o size=2m none "$0" && exec "$@"',
        str(tmp_path),
    )
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace may be made here")
    done = subprocess.run(
        [*mount, sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "tests/fleet/store/on_full_disk.py"],
        cwd=Path(__file__).resolve().parents[3],
        env=os.environ | {"FETTLE_TEST_DISK": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout
