"""What is known of serving engines beyond the window."""

from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

from fleet.inventory.models import Engine, Node
from fleet.slow import services
from fleet.store.series import store
from tests.fleet.rows import node
from tests.fleet.slow.past import NOON, process

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)


def engine(home: Node, port: int = 8000, **more: Any) -> Engine:
    """One that was first seen ten days ago, and a moment ago."""
    times = {"first_seen_at": NOON - 10 * DAY, "last_seen_at": NOON}
    return Engine.objects.create(node=home, name=f"http://h:{port}", **{"kind": "vllm", **times, **more})


def served(one: Engine, start: datetime, requests: float, **more: float) -> None:
    """An hour of it, a sample a minute: requests finished evenly, each with 50 tokens."""
    t = int(start.timestamp())
    rows = [
        {"entity": one.pk, "ts": t + minute * 60, "requests_finished_total": requests * minute / 59,
         "generation_tokens_total": 50 * requests * minute / 59, **more}
        for minute in range(60)
    ]  # fmt: skip
    store().write("engine", pl.DataFrame(rows))


def usual(one: Engine) -> dict[str, Any]:
    """Its features of 14 days."""
    found = services.usual(NOON + timedelta(seconds=10))
    assert found is not None
    rows = found.filter(pl.col("service") == one.pk)
    return rows.row(0, named=True) if rows.height else {}


def test_the_usual_is_the_median_of_hours_that_served() -> None:
    """Of 1.0, 1.2 and 2.0 s: 1.2, deviation 0.2; hours without requests, of the future and of a month ago count for nothing."""
    one = engine(node("n1"))
    for hour, e2e in ((1, 1.0), (2, 1.2), (3, 2.0)):
        served(one, NOON - hour * HOUR, 3600.0, e2e_mean_s=e2e, ttft_mean_s=e2e / 10, tpot_mean_s=e2e / 100)
    served(one, NOON - 5 * HOUR, 0.0, e2e_mean_s=9.0)
    served(one, NOON - 15 * DAY, 100.0, e2e_mean_s=9.0)
    served(one, NOON, 100.0, e2e_mean_s=9.0)
    told = usual(one)

    assert told["base_e2e_s"] == pytest.approx(1.2)
    assert told["base_mad_s"] == pytest.approx(1.4826 * 0.2)
    assert told["base_ttft_s"] == pytest.approx(0.12)
    assert told["base_tpot_s"] == pytest.approx(0.012)
    assert told["base_days"] == pytest.approx(3 / 24)
    assert told["base_tokens_per_request"] == pytest.approx(50)
    assert told["base_finished_per_s"] == pytest.approx(1.0)


def test_what_it_never_told_is_unknown() -> None:
    """An engine without a histogram of the first token."""
    one = engine(node("n1"))
    served(one, NOON - HOUR, 10.0, e2e_mean_s=1.0)

    assert usual(one)["base_ttft_s"] is None
    assert usual(engine(one.node, 8001)) == {}


def test_the_rate_of_now_is_the_counters_growth() -> None:
    """Over the last five minutes; a fall is a new beginning; one sample is no rate."""
    one, anew, single = (engine(node("n1"), 8000), engine(node("n2")), engine(node("n3")))
    t = int(NOON.timestamp())
    rows = [(one.pk, t - 900, 0), (one.pk, t - 250, 100), (one.pk, t - 150, None), (one.pk, t - 50, 500),
            (anew.pk, t - 200, 900), (anew.pk, t - 100, 10), (anew.pk, t - 50, 40), (single.pk, t - 50, 7)]  # fmt: skip
    schema = {"entity": pl.Int64, "ts": pl.Int64, "requests_finished_total": pl.Float64}
    store().write("engine", pl.DataFrame(rows, schema=schema, orient="row"))
    told = services.finished_per_s(NOON, [one, anew, single])

    assert told == {one.pk: pytest.approx(2.0), anew.pk: pytest.approx(40 / 150)}


def test_restarts_are_starts_of_its_processes_but_for_the_first() -> None:
    """Ranks that begin together are one start; of a week."""
    home = node("n1")
    one = engine(home)
    for days, pids in ((10, (1,)), (6, (2, 3)), (1, (4, 5))):
        for pid in pids:
            begun = NOON - days * DAY + pid * MINUTE
            process(home, pid, begun, NOON, engine="vllm")
    process(home, 9, NOON - HOUR, NOON, engine="sglang")
    process(home, 10, NOON - HOUR, NOON, torch="2.9")

    assert services.of_engines(NOON, [one])[one.pk] == {"age_s": 10 * 86_400.0, "restarts_7d": 2}


def test_restarts_are_unknown_where_nobody_can_say_whose_they_were() -> None:
    """Two engines of a kind on one node, or processes that told nothing."""
    home = node("n1")
    pair = [engine(home, 8000), engine(home, 8001)]
    process(home, 1, NOON - DAY, NOON, engine="vllm")
    silent = engine(node("n2"))
    told = services.of_engines(NOON, [*pair, silent])

    assert {one["restarts_7d"] for one in told.values()} == {None}


def test_engines_that_went_away_are_not_there() -> None:
    """A minute or two is how exact `last_seen_at` is."""
    home = node("n1")
    one = engine(home)
    engine(home, 8001, last_seen_at=NOON - 10 * MINUTE)

    assert services.there(NOON) == [one]
