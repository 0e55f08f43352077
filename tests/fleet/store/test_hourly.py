"""Hours of the whole fleet: the same as asking for one entity after the other."""

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fleet.store.hourly import hours
from fleet.store.memory import MemorySeries
from fleet.store.series import Series, StoreError
from tests.fleet.store.servers import new_victoria
from tests.fleet.store.test_contract import HOUR, NOON, MergedSeries

METRICS = ("power_w", "energy_j_total", "clocks_event_reasons")


@pytest.fixture(params=["merged", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Series:
    """An empty store of each engine that has hours at hand."""
    return MemorySeries() if request.param == "memory" else MergedSeries(tmp_path, grace_s=0)


def fill(store: Series) -> None:
    """Three hours of two GPUs, a sample a minute; the second lacks its power in the second hour, and the first has none of the third."""
    rows = [
        {
            "entity": gpu,
            "ts": NOON + minute * 60,
            "power_w": None if gpu == 2 and 60 <= minute < 120 else 100.0 * gpu + minute,
            "energy_j_total": 5.0 * minute if minute < 90 else 5.0 * (minute - 90),
            "clocks_event_reasons": 4 if minute % 4 == 0 else 0,
        }
        for gpu in (1, 2)
        for minute in range(180)
        if gpu == 2 or minute < 120
    ]
    store.write("gpu", pl.DataFrame(rows))


def test_it_is_what_each_entity_answers(store: Series) -> None:
    """Every column, with the entity before it; an hour without rows is left out."""
    fill(store)
    found = hours(store, "gpu", NOON, NOON + 3 * HOUR, METRICS)
    single = [
        store.series("gpu", gpu, METRICS, NOON, NOON + 3 * HOUR, HOUR, full=True).select(
            pl.lit(gpu, pl.Int64).alias("entity"), pl.all()
        )
        for gpu in (1, 2)
    ]

    assert found is not None
    assert found.select("entity", "ts").rows() == [(1, NOON), (1, NOON + HOUR), *((2, NOON + hour * HOUR) for hour in range(3))]
    assert_frame_equal(found, pl.concat(single))
    assert found["power_w_n"].to_list() == [60, 60, 60, 0, 60]


def test_the_start_counts_and_the_end_does_not(store: Series) -> None:
    """Hours by their first second."""
    fill(store)

    found = hours(store, "gpu", NOON + HOUR, NOON + 2 * HOUR, ["power_w"])
    assert found is not None
    assert found["ts"].unique().to_list() == [NOON + HOUR]


def test_what_was_never_written_is_absent(store: Series) -> None:
    """An empty frame of the right columns, and nulls for a metric that nobody has."""
    empty = hours(store, "gpu", NOON, NOON + HOUR, ["power_w"])
    fill(store)
    lacking = hours(store, "gpu", NOON, NOON + HOUR, ["sm_active"])

    assert empty is not None
    assert lacking is not None
    assert empty.is_empty()
    assert empty.columns[:2] == ["entity", "ts"]
    assert lacking["sm_active"].to_list() == [None, None]
    assert lacking["sm_active_n"].to_list() == [0, 0]


def test_a_metric_that_there_is_not_is_said(store: Series) -> None:
    """As everywhere in the store."""
    with pytest.raises(StoreError, match="No metric colour"):
        hours(store, "gpu", NOON, NOON + HOUR, ["colour"])


def test_an_engine_without_roll_ups_at_hand_says_none() -> None:
    """Not an empty fleet."""
    assert hours(new_victoria(), "gpu", NOON, NOON + HOUR, ["power_w"]) is None
