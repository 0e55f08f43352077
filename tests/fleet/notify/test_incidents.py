"""PagerDuty's and Opsgenie's events, as their published interfaces read them: an end closes what its beginning opened."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from fleet.findings import lifecycle
from fleet.findings.lifecycle import Judged, Place, reconcile
from fleet.notify import sending
from fleet.notify.deliver import send
from fleet.notify.models import Route
from fleet.notify.note import Alert, Message
from fleet.notify.trial import trial
from tests.fleet.notify.chats import Chats, Posted, answer
from tests.fleet.notify.telling import tell
from tests.fleet.rows import NOON, found, gpu, node

PAGERDUTY = "pagerduty://r0ut1ngk3y0123456789abcdef012345@ap1k3y"
OPSGENIE = "opsgenie://0ps63n13-4p1k-3yth-4tn0-b0dym4y533"
HOT = Alert(
    "gpu-too-hot:gpu:7", True, "critical", "It is hot (n1 GPU 3)", "It is at 95 °C.", "https://fettle.example.org/findings/1/", NOON,
    labels={"alertname": "gpu-too-hot", "severity": "critical", "node": "n1", "target": "n1 GPU 3", "cluster": "a"},
)  # fmt: skip
OVER = replace(HOT, firing=False, ends_at=NOON + timedelta(hours=1))


def telling(*alerts: Alert) -> Message:
    """A message with these alerts."""
    return Message("[critical] It is hot", "It is at 95 °C.", "failure", "k" * 32, alerts=alerts)


def is_event(event: dict[str, Any]) -> bool:
    """PagerDuty's Events API v2: what `POST /v2/enqueue` asks for, by its reference."""
    assert re.fullmatch(r"[a-z0-9]{32}", event["routing_key"])
    assert event["event_action"] in ("trigger", "acknowledge", "resolve")
    assert 0 < len(event["dedup_key"]) <= 255
    if event["event_action"] == "trigger":
        payload = event["payload"]
        assert 0 < len(payload["summary"]) <= 1024
        assert payload["source"]
        assert payload["severity"] in ("critical", "error", "warning", "info")
        assert set(payload) <= {"summary", "source", "severity", "timestamp", "component", "group", "class", "custom_details"}
        assert all(set(link) <= {"href", "text"} for link in event.get("links", []))
    assert set(event) <= {"routing_key", "event_action", "dedup_key", "payload", "images", "links", "client", "client_url"}
    return True


def is_alert(alert: dict[str, Any]) -> bool:
    """Opsgenie's Alert API: what `POST /v2/alerts` asks for, by its reference."""
    assert 0 < len(alert["message"]) <= 130
    assert 0 < len(alert["alias"]) <= 512
    assert len(alert["description"]) <= 15_000
    assert alert["priority"] in ("P1", "P2", "P3", "P4", "P5")
    assert len(alert.get("entity", "")) <= 512
    assert len(alert.get("source", "")) <= 100
    assert all(isinstance(value, str) for value in alert["details"].values())
    assert set(alert) <= {
        "message", "alias", "description", "responders", "visibleTo", "actions", "tags", "details", "entity", "source", "priority", "user", "note",
    }  # fmt: skip
    return True


@pytest.mark.parametrize(
    ("severity", "theirs"), [("critical", "critical"), ("warn", "warning"), ("advice", "info"), ("info", "info")]
)
def test_pagerduty_opens_and_resolves_by_the_same_key(severity: str, theirs: str, chats: Chats) -> None:
    """One incident, whatever process sends the end."""
    assert send(PAGERDUTY, telling(replace(HOT, severity=severity))).sent
    assert send(PAGERDUTY, telling(replace(OVER, severity=severity))).sent
    opened, over = (got.body for got in chats.got)

    assert is_event(opened)
    assert is_event(over)
    assert (opened["event_action"], over["event_action"]) == ("trigger", "resolve")
    assert opened["dedup_key"] == over["dedup_key"]
    assert opened["payload"]["severity"] == theirs
    assert (opened["payload"]["source"], opened["payload"]["component"]) == ("n1", "n1 GPU 3")
    assert (opened["payload"]["class"], opened["payload"]["group"]) == ("gpu-too-hot", "a")
    assert opened["links"] == [{"href": HOT.link}]
    assert opened["payload"]["custom_details"]["summary"] == "It is at 95 °C."


@pytest.mark.parametrize(("severity", "theirs"), [("critical", "P1"), ("warn", "P3"), ("advice", "P4"), ("info", "P5")])
def test_opsgenie_creates_and_closes_by_the_same_alias(severity: str, theirs: str, chats: Chats) -> None:
    """By the alias, for the id of the request that created it is known to no other process."""
    assert send(OPSGENIE, telling(replace(HOT, severity=severity))).sent
    assert send(OPSGENIE, telling(replace(OVER, severity=severity))).sent
    created, closed = chats.got

    assert is_alert(created.body)
    assert created.path == "/v2/alerts"
    assert created.body["priority"] == theirs
    assert (created.body["message"], created.body["entity"]) == ("It is hot (n1 GPU 3)", "n1")
    assert created.body["details"]["link"] == HOT.link
    assert closed.path == f"/v2/alerts/{created.body['alias']}/close?identifierType=alias"
    assert set(closed.body) <= {"user", "source", "note"}
    assert created.headers["Authorization"].startswith("GenieKey ")


def test_what_the_url_says_goes_before(chats: Chats) -> None:
    """A site's own severity, source and priority."""
    assert send(f"{PAGERDUTY}/rack7/cooling?severity=error&group=mine&class=heat&+team=gpu", telling(HOT)).sent
    assert send(f"{OPSGENIE}?priority=p2&entity=rack7&+team=gpu&tags=a,b", telling(HOT)).sent
    event, alert = (got.body for got in chats.got)

    assert is_event(event)
    assert is_alert(alert)
    payload = event["payload"]
    assert (payload["severity"], payload["source"], payload["component"]) == ("error", "rack7", "cooling")
    assert (payload["group"], payload["class"], payload["custom_details"]["team"]) == ("mine", "heat", "gpu")
    assert (alert["priority"], alert["entity"], alert["details"]["team"]) == ("P2", "rack7", "gpu")


@pytest.mark.parametrize("url", [PAGERDUTY, OPSGENIE])
def test_each_alert_of_a_message_is_told_and_none_twice(url: str, chats: Chats) -> None:
    """After the one that failed the next attempt goes on; each has a key of its own."""
    several = [replace(HOT, fingerprint=f"gpu-too-hot:gpu:{number}") for number in range(4)]
    taken = answer(202, {"result": "Request will be processed", "requestId": "1"})
    chats.plays = [taken, taken, answer(429, "", Retry_After="1")]
    first = send(url, telling(*several))
    second = send(url, telling(*several), first.arrived)

    assert (first.sent, first.failure, second.sent) == (False, "limited", True)
    keys = [key(got) for got in chats.got]
    assert keys[2] == keys[3]
    assert len(set(keys)) == 4
    assert len(keys) == 5


@pytest.mark.parametrize("url", [PAGERDUTY, OPSGENIE])
def test_a_long_fingerprint_makes_a_short_key(url: str, chats: Chats) -> None:
    """And a long title is cut."""
    assert send(url, telling(replace(HOT, fingerprint="f" * 400, title="t" * 3000, summary="s" * 30_000))).sent
    (got,) = chats.got

    assert is_event(got.body) if url == PAGERDUTY else is_alert(got.body)


@pytest.mark.parametrize("url", [PAGERDUTY, OPSGENIE])
def test_what_they_do_not_take_is_kept_with_its_reason(url: str, chats: Chats) -> None:
    """A wrong key is wrong tomorrow too."""
    chats.plays = [answer(403, {"status": "invalid key", "message": "Key format is not valid!"})]
    outcome = send(url, telling(HOT))

    assert (outcome.sent, outcome.failure, outcome.status) == (False, "never", 403)
    assert "not valid" in outcome.error


@pytest.mark.django_db
@pytest.mark.parametrize("url", [PAGERDUTY, OPSGENIE])
def test_a_finding_opens_and_closes_one_incident(url: str, chats: Chats) -> None:
    """From the rows."""
    Route.objects.create(name="pager", url=url, min_severity="info")
    card = gpu(node("n1"), 3)
    lifecycle.report(timezone.now(), found(str(card.pk), "row-remap-failed", "critical"), Place(card.node_id, (card.pk,)))
    assert [sending.attempt(pk) for pk in tell()] == ["sent"]
    lifecycle.end(f"row-remap-failed:gpu:{card.pk}", timezone.now(), "The GPU is back.")
    assert [sending.attempt(pk) for pk in tell()] == ["sent"]
    opened, over = chats.got

    assert key(opened) == key(over)
    assert "The power limit takes the speed (n1 GPU 3)" in str(opened.body)


@pytest.mark.django_db
def test_a_finding_that_grows_worse_stays_one_incident(chats: Chats) -> None:
    """The same key with another severity; nothing is closed in between."""
    Route.objects.create(name="pager", url=PAGERDUTY, min_severity="info")
    card = gpu(node("n1"), 3)
    judged = Judged(frozenset(["gpu-too-hot"]), frozenset([("gpu", str(card.pk))]), frozenset(), {card.node_id}, {card.pk})
    for step, severity in enumerate(("warn", "warn", "critical")):
        seen = [found(str(card.pk), "gpu-too-hot", severity)]  # type: ignore[arg-type]
        reconcile(NOON + step * timedelta(seconds=10), seen, judged, {("gpu", str(card.pk)): Place(card.node_id, (card.pk,))})
        for pk in tell():
            assert sending.attempt(pk) == "sent"

    assert [(got.body["event_action"], got.body["payload"]["severity"]) for got in chats.got] == [
        ("trigger", "warning"),
        ("trigger", "critical"),
    ]
    assert key(chats.got[0]) == key(chats.got[1])


@pytest.mark.django_db
@pytest.mark.parametrize("url", [PAGERDUTY, OPSGENIE])
def test_a_test_message_leaves_nothing_open(url: str, chats: Chats) -> None:
    """It opens, so that people see that it arrives, and closes."""
    assert trial(Route.objects.create(name="pager", url=url)).sent
    opened, over = chats.got

    assert key(opened) == key(over)
    assert "close" in over.path or over.body["event_action"] == "resolve"


def key(got: Posted) -> str:
    """What names the incident."""
    if got.host == "events.pagerduty.com":
        return str(got.body["dedup_key"])
    return str(got.body.get("alias") or got.path.split("/")[3])
