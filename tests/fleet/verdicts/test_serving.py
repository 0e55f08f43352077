"""Verdicts on advice to services, from the engines' own series to the row."""

from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from django.test import Client

from fleet.findings.lifecycle import advise_transition
from fleet.findings.models import Finding
from fleet.inventory.models import Engine
from fleet.store.series import store
from fleet.verdicts import words
from fleet.verdicts.models import Verification
from fleet.verdicts.tasks import go_on
from tests.fleet.rows import NOON, minutes, node
from tests.fleet.verdicts.site import content

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
PATIENCE = timedelta(seconds=20)


def engine(port: int = 8000, **more: Any) -> Engine:
    """One of the node n1."""
    times = {"first_seen_at": NOON - minutes(60), "last_seen_at": NOON + minutes(60)}
    home = Engine.objects.first()
    return Engine.objects.create(
        node=home.node if home else node("n1"), name=f"http://h:{port}", kind="vllm", model="llama", **{**times, **more}
    )


def serves(one: Engine, start_s: float, seconds: int, requests_per_s: float, queue_s: float) -> None:
    """From so many seconds past noon: requests of 200 tokens that wait so long, a scrape a second."""
    t = int(NOON.timestamp() + start_s)
    rows = [
        {"entity": one.pk, "ts": t + k, "requests_finished_total": (start_s + k) * requests_per_s, "requests_waiting": 4.0,
         "prompt_tokens_total": 150 * (start_s + k) * requests_per_s, "generation_tokens_total": 50 * (start_s + k) * requests_per_s,
         "queue_mean_s": queue_s * (1 + 0.02 * ((7 * k) % 5 - 2))}
        for k in range(seconds)
    ]  # fmt: skip
    store().write("engine", pl.DataFrame(rows))


def advised(one: Engine, rule: str = "serving-queue-growth") -> Verification:
    """The row of advice that was applied three minutes past noon, after two minutes in which 0.8 s were waited."""
    serves(one, 0, 120, 4.0, 0.8)
    finding = Finding.objects.create(
        fingerprint=f"{rule}:service:{one.pk}", rule=rule, severity="warn", severity_rank=2, scope="service", target=str(one.pk), node=one.node,
        bottleneck="compute", confidence="high", content=content(), opened_at=NOON + minutes(1), last_seen_at=NOON + minutes(2),
    )  # fmt: skip
    advise_transition(finding, "applied", None, at=NOON + minutes(3))
    go_on(NOON + minutes(3))
    return Verification.objects.get()


def test_the_first_minute_of_like_load_gives_the_verdict(admin_client: Client) -> None:
    """At twice the load the queue says nothing; at the same load it is a fourth of what it was: four times as fast."""
    one = engine()
    row = advised(one)
    serves(one, 200, 60, 8.0, 0.1)
    go_on(NOON + minutes(4.5))
    row.refresh_from_db()
    assert row.verdict == ""
    assert words.reason(row).startswith("The load was not alike: 4.00 requests a second before, 8.00 after")

    serves(one, 260, 60, 4.1, 0.2)
    go_on(NOON + minutes(5.5))
    row.refresh_from_db()
    assert (row.verdict, row.measure) == ("helped", "queue_mean_s")
    assert row.ratio == pytest.approx(4.0, rel=0.03)
    assert row.before == pytest.approx(0.8, rel=0.03)
    assert row.after == pytest.approx(0.2, rel=0.03)
    assert row.after_from == NOON + minutes(4) + PATIENCE
    assert row.recovered_gpu_hours is None
    assert not words.is_estimate(row.measure)
    assert words.reason(row).startswith("By time in the queue: 4.0")
    assert Finding.objects.get().advice == "helped"
    page = admin_client.get("/advice/").content.decode()
    assert "By time in the queue: 4.0" in page
    (figure,) = admin_client.get(f"/advice/{row.pk}/chart.json").json()["figures"]
    assert [line["name"] for line in figure["figure"]["data"]][::2] == ["before", "after"]


def test_worse_and_no_effect_are_told_too() -> None:
    """Twice the wait, then on another site the same wait."""
    one = engine()
    row = advised(one)
    serves(one, 200, 60, 4.0, 1.6)
    go_on(NOON + minutes(5))
    row.refresh_from_db()
    assert row.verdict == "worse"
    assert row.ratio == pytest.approx(0.5, rel=0.03)

    Verification.objects.all().delete()
    Finding.objects.all().delete()
    other = engine(8001)
    again = advised(other)
    serves(other, 200, 60, 4.0, 0.8)
    go_on(NOON + minutes(5))
    again.refresh_from_db()
    assert again.verdict == "no_effect"


def test_a_service_that_moved_to_another_port_is_the_same_service() -> None:
    """The engine was started anew with another address; the one of its model and node that began then is looked at."""
    one = engine(last_seen_at=NOON + minutes(2.5))
    row = advised(one)
    moved = engine(9000, first_seen_at=NOON + minutes(3.1))
    serves(moved, 200, 60, 4.0, 0.2)
    go_on(NOON + minutes(5))
    row.refresh_from_db()

    assert row.verdict == "helped"


def test_without_like_load_until_it_is_due_the_reason_is_a_sentence() -> None:
    """Two weeks of other load."""
    one = engine()
    row = advised(one)
    serves(one, 200, 60, 8.0, 0.1)
    go_on(NOON + minutes(4.5))
    go_on(row.due_at)
    row.refresh_from_db()

    assert row.verdict == "cannot_tell"
    assert words.reason(row).startswith("The load was not alike")


def test_advice_that_promises_no_speed_is_not_waited_for() -> None:
    """Memory that is left on the card."""
    row = advised(engine(), "serving-memory-margin-thin")

    assert row.verdict == "cannot_tell"
    assert words.reason(row).startswith("What this advice changes does not show in the service's latency")
