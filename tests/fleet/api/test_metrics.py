"""/metrics"""

from datetime import timedelta

import pytest
from django.utils import timezone
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from fleet.findings.lifecycle import Judged, Place, reconcile, report
from fleet.findings.models import Cycle
from fleet.inventory.models import Event, Refusal
from fleet.notify import routing
from fleet.notify.models import Route
from tests.fleet.rows import event, found, gpu, node, person

pytestmark = pytest.mark.django_db
PROMETHEUS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
NOW = timezone.now()


def scrape(client: APIClient) -> dict[tuple[str, str], float]:
    """Each sample's value by its name and its one label's value."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.content.decode())
    return {(one.name, "".join(one.labels.values())): one.value for family in families for one in family.samples}


def test_it_counts_what_is_there(bob: APIClient) -> None:
    """Every number is that of the rows, and a state that nothing is in is 0."""
    home, silent, never = node("n1"), node("n2", last_seen_at=NOW - timedelta(minutes=5)), node("n3", last_seen_at=None)
    cards = [gpu(home, 0), gpu(home, 1), gpu(home, 2, present=False), gpu(silent, 0), gpu(never, 0)]
    Route.objects.create(name="chat", url="json://127.0.0.1:9/")
    report(NOW, found("1", severity="critical"), Place(home.pk))
    reconcile(NOW, [found("2", severity="warn")], _judged(), {})  # pending, so it does not fire
    routing.route()
    for name, total in (("n1", 3), ("n2", 4)):
        Refusal.objects.create(node_name=name, code="wrong_shape", total=total)
    event(cards[0])
    Event.objects.filter(pk=event(cards[0]).pk).update(handled_at=NOW)
    Cycle.objects.create(name="advise", started_at=NOW, ended_at=NOW)

    assert scrape(bob) == {
        ("fettle_nodes", "ok"): 1, ("fettle_nodes", "stale"): 1, ("fettle_nodes", "unknown"): 1,
        ("fettle_gpus", "ok"): 2, ("fettle_gpus", "stale"): 1, ("fettle_gpus", "unknown"): 2,
        ("fettle_findings_open", "info"): 0, ("fettle_findings_open", "advice"): 0,
        ("fettle_findings_open", "warn"): 0, ("fettle_findings_open", "critical"): 1,
        ("fettle_frames_refused_total", "wrong_shape"): 7,
        ("fettle_deliveries", "pending"): 1, ("fettle_deliveries", "sending"): 0, ("fettle_deliveries", "sent"): 0,
        ("fettle_deliveries", "failed"): 0, ("fettle_deliveries", "dead"): 0,
        ("fettle_advisor_last_run_timestamp_seconds", ""): pytest.approx(NOW.timestamp()),
        ("fettle_advisor_last_run_failed", ""): 0,
        ("fettle_events_unhandled", ""): 1,
    }  # fmt: skip


def test_an_advisor_that_never_ran_has_no_time(bob: APIClient) -> None:
    """1970 would be a number that nobody measured; a run that failed says so."""
    assert not [name for name, _ in scrape(bob) if "advisor" in name]

    Cycle.objects.create(name="advise", started_at=NOW, ended_at=NOW, error="StoreError: disk on fire")
    assert scrape(bob)["fettle_advisor_last_run_failed", ""] == 1


def test_it_needs_a_session_or_a_token(stranger: APIClient) -> None:
    """401 for everybody else; a person who is logged in sees it in the browser."""
    assert stranger.get("/metrics").status_code == 401

    stranger.force_login(person("carol"))
    assert stranger.get("/metrics").status_code == 200


def test_it_speaks_openmetrics_to_those_who_ask(bob: APIClient) -> None:
    """Prometheus does; a browser gets plain text, and no Accept is refused."""
    Refusal.objects.create(node_name="n1", code="wrong_shape", total=3)
    answer = bob.get("/metrics", headers={"accept": PROMETHEUS})

    assert answer["Content-Type"].startswith("application/openmetrics-text")
    families = openmetrics(answer.content.decode())  # type: ignore[no-untyped-call]
    assert "fettle_frames_refused" in {family.name for family in families}
    for accept in ("text/html", "image/png", ""):
        assert bob.get("/metrics", headers={"accept": accept})["Content-Type"].startswith("text/plain")


def test_the_number_of_queries_does_not_grow(bob: APIClient, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Seven of its own, and two for the token and its person."""
    bob.get("/metrics")  # notes the token's use
    for number in range(20):
        card = gpu(node(f"n{number}"))
        report(NOW, found(str(card.pk), severity="critical"), Place(card.node_id, (card.pk,)))

    with django_assert_num_queries(9):
        bob.get("/metrics")


def _judged() -> Judged:
    return Judged(rules=frozenset(["power-cap-limited"]), targets=frozenset([("gpu", "2")]))
