"""The limit of bytes: what goes first, what is said, what stays."""

import logging
from pathlib import Path

import polars as pl
import pytest

from fleet.store.compact import compact
from fleet.store.parquet import ParquetSeries

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
    return sum(path.stat().st_size for path in engine.root.rglob("*") if path.is_file())


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
