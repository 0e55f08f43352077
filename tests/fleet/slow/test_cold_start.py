"""The first requests of an engine against those that followed."""

from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

from fleet.inventory.models import Engine
from fleet.slow import cold_start
from fleet.store.series import store
from tests.fleet.rows import node
from tests.fleet.slow.past import NOON, minutes, process

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]


def engine(first: datetime = NOON, **more: Any) -> Engine:
    """One that was first seen at noon."""
    return Engine.objects.create(node=node("n1"), name="http://h:1", kind="vllm", first_seen_at=first, last_seen_at=NOON, **more)


def served(one: Engine, start: datetime = NOON, before: int = 0, first_s: float = 4.0) -> None:
    """Twenty minutes, a sample every ten seconds, two requests between them; the first forty seconds are slow."""
    t = int(start.timestamp())
    rows = [
        {"entity": one.pk, "ts": t + 10 * number, "requests_finished_total": before + 2 * number,
         "ttft_mean_s": first_s if number == 4 else 1.0 if number < 10 else 0.5}
        for number in range(120)
    ]  # fmt: skip
    store().write("engine", pl.DataFrame(rows))


def test_it_is_the_slowest_of_the_first_over_what_is_usual_after() -> None:
    """4 s while twenty requests ended, 0.5 s in the ten minutes after."""
    one = engine()
    served(one)

    assert cold_start.of_engines(NOON + minutes(30), [one]) == {one.pk: pytest.approx(8.0)}


def test_it_is_not_known_before_the_ten_minutes_are_over() -> None:
    """Nor where it never answered."""
    one = engine()
    assert cold_start.of_engines(NOON + minutes(30), [one]) == {}
    served(one)

    assert cold_start.of_engines(NOON + minutes(10), [one]) == {}


def test_an_engine_that_served_before_it_was_read_says_nothing() -> None:
    """Its first requests are past."""
    one = engine()
    served(one, before=1000)

    assert cold_start.of_engines(NOON + minutes(30), [one]) == {}


def test_a_start_counts_for_a_day_and_by_its_process() -> None:
    """First seen last week; its process began at noon."""
    one = engine(NOON - timedelta(days=7), pid=77)
    served(one)
    before = cold_start.of_engines(NOON + minutes(30), [one])
    process(one.node, 77, NOON, NOON + minutes(30), engine="vllm")

    assert before == {}
    assert cold_start.of_engines(NOON + minutes(30), [one]) == {one.pk: pytest.approx(8.0)}
    assert cold_start.of_engines(NOON + timedelta(hours=25), [one]) == {}
