"""Run by test_retention.py, in a mount namespace where FETTLE_TEST_DISK is a file system of 2 MB: pruning when it is full."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

from fleet.store.compact import compact
from fleet.store.parquet import ParquetSeries

HOUR, DAY = 3600, 86_400
T = 20_000 * DAY + 12 * HOUR
DISK = Path(os.environ.get("FETTLE_TEST_DISK", "/nowhere"))


@pytest.fixture
def engine() -> Iterator[ParquetSeries]:
    """An empty store on the small disk, three days later."""
    yield ParquetSeries(DISK / "series", clock=lambda: T + 3.0 * DAY, grace_s=0)
    shutil.rmtree(DISK / "series")
    (DISK / "ballast").unlink(missing_ok=True)


def write(engine: ParquetSeries, start: int) -> None:
    """Some minutes of some GPUs."""
    keys = [(entity, ts) for entity in range(1, 21) for ts in range(start, start + 200)]
    frame = pl.DataFrame(keys, schema=["entity", "ts"], orient="row")
    engine.write("gpu", frame.with_columns(power_w=(pl.col("ts") * 7919 * pl.col("entity")).hash() % 600_000 / 1000))


def fill() -> None:
    """Leave no block."""
    with (DISK / "ballast").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"\0" * 512):
            pass


def raw(engine: ParquetSeries) -> list[Path]:
    """The files of raw rows."""
    return list((engine.root / "raw").rglob("*.parquet"))


def test_settled_hours_give_the_room_for_the_roll_ups_of_those_that_are_not(
    engine: ParquetSeries, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is lost, nothing is said."""
    for hour in range(5):
        write(engine, T + hour * HOUR)
    for _ in range(2):
        compact(engine, T + 4.0 * DAY)
    write(engine, T + 5 * HOUR)
    fill()
    freed = engine.prune({1: T + 2 * DAY})

    assert freed > 0
    assert raw(engine) == []
    assert engine.series("gpu", 1, ["power_w"], T, T + 6 * HOUR, HOUR).height == 6
    assert not caplog.records


@pytest.mark.parametrize("limit", [None, 1])
def test_an_hour_without_room_for_its_roll_ups_goes_without_and_that_is_said(
    engine: ParquetSeries, caplog: pytest.LogCaptureFixture, limit: int | None
) -> None:
    """By age and by the limit alike: pruning is what frees a full disk."""
    write(engine, T)
    fill()
    assert engine.prune({} if limit else {1: T + 2 * DAY}, limit) > 0

    assert raw(engine) == []
    assert "without roll-ups" in caplog.text
    assert not list(engine.root.rglob("*.tmp"))
