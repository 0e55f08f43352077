"""Routes, silences, acknowledgements, the delivery log and the noise report over REST."""

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.utils import timezone
from rest_framework.test import APIClient

from fleet.accounts.models import ApiToken, User
from fleet.findings.lifecycle import Place, advise_transition, end, report
from fleet.findings.models import Finding, Transition
from fleet.notify import sayings
from fleet.notify.models import Delivery, Inhibition, Route, Silence
from tests.fleet.api.conftest import caller
from tests.fleet.rows import found, node, person, token

pytestmark = pytest.mark.django_db
SECRET = "T0kenThatNobodyMaySee"
URL = f"jsons://hooks.example.org/services/{SECRET}/x"


def role(name: str) -> APIClient:
    """A person of that role, by a token that may write."""
    user = person(name)
    user.groups.add(Group.objects.get(name=name))
    return caller(token(user, write=True))


@pytest.fixture
def admin(db: None) -> APIClient:
    """Decides where alerts go."""
    return role("admin")


@pytest.fixture
def operator(db: None) -> APIClient:
    """Silences and acknowledges."""
    return role("operator")


def firing(**more: Any) -> Finding:
    """An alert."""
    return report(timezone.now(), found(**{"severity": "critical", **more}), Place(None))


def one(label: str, *values: str, op: str = "in") -> dict[str, Any]:
    """A matcher."""
    return {"label": label, "op": op, "values": list(values)}


def test_a_routes_url_goes_in_and_never_comes_out(admin: APIClient) -> None:
    """Not by any answer, nor in the log of changes."""
    made = admin.post("/api/v1/routes/", {"name": "chat", "url": URL, "matchers": [one("team", "ml*")]}, format="json")
    assert made.status_code == 201, made.content
    path = f"/api/v1/routes/{made.json()['id']}/"
    changed = admin.patch(path, {"max_per_minute": 3}, format="json")
    refused = admin.patch(path, {"url": f"nonsense://{SECRET}"}, format="json")
    answers = [made, changed, refused, admin.get(path), admin.get("/api/v1/routes/")]

    assert (made.json()["service"], changed.json()["max_per_minute"], refused.status_code) == ("jsons", 3, 400)
    assert not any(SECRET in answer.content.decode() for answer in answers)
    assert Route.objects.get().url == URL
    assert [(entry.action_flag, entry.change_message) for entry in LogEntry.objects.order_by("pk")] == [
        (1, "matchers, name, url"), (2, "max_per_minute"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"matchers": [{"label": "node"}]}, "matchers"),
        ({"matchers": "rule=x"}, "matchers"),
        ({"active_times": [{"days": [0], "from": "09:00", "to": "18:00", "timezone": "Mars"}]}, "active_times"),
        ({"group_by": ["rule", "rule"]}, "group_by"),
        ({"group_by": [{"rule": 1}]}, "group_by"),
        ({"group_wait_s": -1}, "group_wait_s"),
        ({"group_wait_s": True}, "group_wait_s"),
        ({"repeat_every_s": 1}, "repeat_every_s"),
        ({"max_per_minute": 0}, "max_per_minute"),
        ({"language": "fr"}, "language"),
        ({"escalate_after_s": 60}, "escalate_to"),
        ({"escalate_to": 999}, "escalate_to"),
        ({"name": "old"}, "name"),
        ({"name": "two\nlines"}, "name"),
        ({"url": "slack:// a"}, "url"),
        ({"min_severity": "fatal"}, "min_severity"),
        ({"next": 1}, "next"),
    ],
)
def test_a_route_that_cannot_work_is_refused_where_it_is_wrong(admin: APIClient, wrong: dict[str, Any], where: str) -> None:
    """In a sentence, by field."""
    Route.objects.create(name="old", url="json://a/")
    answer = admin.post("/api/v1/routes/", {"name": "new", "url": URL, **wrong}, format="json")

    assert answer.status_code == 400
    assert where in answer.json()["errors"] or where in answer.json()["detail"]
    assert Route.objects.count() == 1


def test_nobody_escalates_to_themselves_by_whatever_way(admin: APIClient) -> None:
    """Three routes in a circle."""
    a, b, c = (Route.objects.create(name=name, url="json://a/") for name in "abc")
    ask = {"escalate_after_s": 60}
    assert admin.patch(f"/api/v1/routes/{a.pk}/", ask | {"escalate_to": b.pk}, format="json").status_code == 200
    assert admin.patch(f"/api/v1/routes/{b.pk}/", ask | {"escalate_to": c.pk}, format="json").status_code == 200
    assert admin.patch(f"/api/v1/routes/{c.pk}/", ask | {"escalate_to": a.pk}, format="json").status_code == 400
    assert admin.patch(f"/api/v1/routes/{a.pk}/", ask | {"escalate_to": a.pk}, format="json").status_code == 400
    assert admin.patch(f"/api/v1/routes/{a.pk}/", {"escalate_to": None}, format="json").status_code == 400
    assert (
        admin.patch(f"/api/v1/routes/{a.pk}/", {"escalate_to": None, "escalate_after_s": None}, format="json").status_code == 200
    )


def test_operators_silence_and_acknowledge_and_only_admins_route() -> None:
    """A viewer reads; so does whoever has no token that may write."""
    finding = firing()
    silence = {
        "matchers": [one("rule", "x")],
        "ends_at": "2090-01-01T00:00:00Z",
        "starts_at": "2089-12-31T00:00:00Z",
        "comment": "c",
    }
    ways = {
        "routes": {"name": "n", "url": URL},
        "inhibitions": {"name": "n", "source": [one("rule", "x")], "target": [one("rule", "y")]},
    }
    allowed = {}
    for name in ("viewer", "operator", "admin"):
        caller_ = role(name)
        asked = {"silences": silence, f"findings/{finding.pk}/acknowledge": {}, **ways}
        allowed[name] = [
            kind.rpartition("/")[2] for kind, body in asked.items()
            if caller_.post(f"/api/v1/{kind}/", body, format="json").status_code == 201
        ]  # fmt: skip
        assert all(
            caller_.get(f"/api/v1/{kind}/").status_code == 200
            for kind in ("silences", "routes", "inhibitions", "deliveries", "noise")
        )

    assert allowed == {
        "viewer": [], "operator": ["silences", "acknowledge"], "admin": ["silences", "acknowledge", "routes", "inhibitions"],
    }  # fmt: skip


def test_a_token_of_the_scope_alerts_silences_and_reads_nothing_else() -> None:
    """A chat bot needs no more."""
    olga = person("olga")
    olga.groups.add(Group.objects.get(name="operator"))
    bot = caller(ApiToken.issue(user=olga, name="bot", scopes=["alerts"])[1])
    finding = firing()

    assert bot.post(f"/api/v1/findings/{finding.pk}/acknowledge/", {}, format="json").status_code == 201
    assert bot.get("/api/v1/nodes/").status_code == 403
    assert bot.post(f"/api/v1/findings/{finding.pk}/transitions/", {"after": "accepted"}, format="json").status_code == 403


def test_a_silence_is_made_and_ended_and_stays_as_a_row(operator: APIClient) -> None:
    """With who made it, and who ended it before its time; ending it twice is refused."""
    ends = (timezone.now() + timedelta(hours=2)).isoformat()
    made = operator.post(
        "/api/v1/silences/", {"matchers": [one("node", "n1")], "ends_at": ends, "comment": "New PDU"}, format="json"
    )
    path = f"/api/v1/silences/{made.json()['id']}/"
    assert made.json()["by_name"] == "operator"
    assert operator.get("/api/v1/silences/?current=true").json()["count"] == 1

    ended = operator.post(f"{path}end/")
    assert ended.json()["ended_by_name"] == "operator"
    assert datetime.fromisoformat(ended.json()["ends_at"]) <= timezone.now()
    assert operator.post(f"{path}end/").status_code == 409
    assert operator.get("/api/v1/silences/?current=false").json()["count"] == 1
    assert operator.delete(path).status_code == 405


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"matchers": []}, "matchers"),
        ({"comment": " "}, "comment"),
        ({"ends_at": "2020-01-01T00:00:00Z"}, "ends_at"),
        ({"ends_at": "2099-01-01T00:00:00Z"}, "ends_at"),
        ({"starts_at": "2026-12-31T00:00:00Z", "ends_at": "2026-12-30T00:00:00Z"}, "ends_at"),
        ({"ends_at": "soon"}, "ends_at"),
    ],
)
def test_a_silence_that_holds_nothing_or_everything_is_refused(operator: APIClient, wrong: dict[str, Any], where: str) -> None:
    """Nor one for ever, nor one without a reason."""
    body = {
        "matchers": [one("node", "n1")],
        "ends_at": (timezone.now() + timedelta(hours=1)).isoformat(),
        "comment": "c",
        **wrong,
    }
    answer = operator.post("/api/v1/silences/", body, format="json")

    assert answer.status_code == 400
    assert where in str(answer.json())
    assert not Silence.objects.exists()


def test_an_inhibition_is_kept_changed_and_deleted(admin: APIClient) -> None:
    """Its matchers are checked as a route's are."""
    body = {"name": "node down", "source": [one("rule", "node-silent")], "target": [one("scope", "gpu")], "equal": ["node"]}
    made = admin.post("/api/v1/inhibitions/", body, format="json")
    path = f"/api/v1/inhibitions/{made.json()['id']}/"
    assert admin.post("/api/v1/inhibitions/", body, format="json").status_code == 400
    assert admin.patch(path, {"target": []}, format="json").status_code == 400
    assert admin.patch(path, {"enabled": False}, format="json").json()["enabled"] is False
    assert admin.delete(path).status_code == 204
    assert not Inhibition.objects.exists()


def test_an_acknowledgement_is_shown_until_the_alert_grows_worse(operator: APIClient) -> None:
    """And can be taken back; what does not fire cannot be acknowledged."""
    finding = firing(severity="warn")
    path = f"/api/v1/findings/{finding.pk}/"
    operator.post(f"{path}acknowledge/", {"comment": "Mine"}, format="json")
    held = operator.get(path).json()["acknowledged"]
    assert (held["by_name"], held["via"], held["comment"]) == ("operator", "api", "Mine")

    Finding.objects.update(severity="critical", severity_rank=3)
    assert operator.get(path).json()["acknowledged"] is None
    assert operator.delete(f"{path}acknowledge/").status_code == 204
    end(finding.fingerprint, timezone.now(), "over")
    assert operator.post(f"{path}acknowledge/", {}, format="json").status_code == 409


def test_the_dry_run_answers_for_a_finding_and_for_labels(operator: APIClient, admin: APIClient) -> None:
    """Route by route, with the reason; asking needs the right to route."""
    Route.objects.create(name="ml", url=URL, matchers=[one("team", "ml")], position=1)
    Route.objects.create(name="all", url=URL, position=2)
    home = node("n1")
    finding = report(timezone.now(), found(severity="critical"), Place(home.pk))
    answer = admin.post("/api/v1/routes/dry-run/", {"finding": finding.pk}, format="json").json()

    assert answer["labels"]["node"] == ["n1"]
    assert [(way["name"], way["what"], way["why"]) for way in answer["routes"]] == [
        ("ml", "not_taken", "The route's matcher on team does not fit: the alert has –."), ("all", "told", ""),
    ]  # fmt: skip
    assert answer["routes"][0]["leaves_at"] is None
    assert answer["routes"][1]["leaves_at"] is not None
    labels = {"severity": ["critical"], "team": ["ml"]}
    assert [way["what"] for way in admin.post("/api/v1/routes/dry-run/", {"labels": labels}, format="json").json()["routes"]] == [
        "told"
    ] * 2
    refused: list[dict[str, Any]] = [
        {},
        {"finding": finding.pk, "labels": labels},
        {"labels": {"colour": ["red"]}},
        {"labels": {"severity": ["bad"]}},
        {"labels": {"node": []}},
    ]
    for wrong in refused:
        assert admin.post("/api/v1/routes/dry-run/", wrong, format="json").status_code == 400
    assert not Delivery.objects.exists()


def test_a_dead_letter_is_sent_again_with_those_that_it_tells_of(operator: APIClient) -> None:
    """By the same key; one that is not dead is refused."""
    route = Route.objects.create(name="a", url="json://127.0.0.1:9/")
    transition = firing().transitions.order_by("-pk")[0]
    other = firing(target="2").transitions.order_by("-pk")[0]
    more = {"route": route, "attempts": 16, "error": "gone"}
    lead = Delivery.objects.create(**more, transition=transition, state="dead", key=uuid4().hex)
    share = Delivery.objects.create(**more, transition=other, state="dead", lead=lead, key=uuid4().hex)

    answer = operator.post(f"/api/v1/deliveries/{share.pk}/send-again/")
    assert answer.status_code == 200
    assert set(Delivery.objects.values_list("state", "attempts", "error")) == {("pending", 0, "")}
    assert {lead.key, share.key} == set(Delivery.objects.values_list("key", flat=True))
    assert operator.post(f"/api/v1/deliveries/{lead.pk}/send-again/").status_code == 409


def test_the_log_says_why_nobody_was_told(operator: APIClient) -> None:
    """In the reader's words."""
    route = Route.objects.create(name="a", url="json://127.0.0.1:9/")
    transition = firing().transitions.order_by("-pk")[0]
    why = sayings.said("silence", comment="New PDU").kept()
    Delivery.objects.create(route=route, transition=transition, state="muted", why_muted=why, key=uuid4().hex)

    (row,) = operator.get("/api/v1/deliveries/?state=muted").json()["results"]
    assert (row["why_muted"], row["route_name"], row["after"]) == ("It is silenced: New PDU", "a", "firing")
    assert operator.get("/api/v1/deliveries/?state=pending").json()["count"] == 0
    assert operator.get(f"/api/v1/deliveries/?finding={transition.finding_id}").json()["count"] == 1


def test_the_noise_report_counts_alerts_by_rule_and_week(operator: APIClient) -> None:
    """What fired, what flapped, what somebody acted on, what a rule in shadow would have said."""
    acted, left, shadow = firing(target="1"), firing(target="2"), firing(target="3", rule="site-new")
    Finding.objects.filter(pk=shadow.pk).update(shadow=True)
    advise_transition(acted, "accepted", User.objects.get(username="operator"))
    end(left.fingerprint, timezone.now(), "over")
    old = firing(target="4")
    Transition.objects.filter(finding=old).update(at=timezone.now() - timedelta(weeks=10))

    rows = {row["rule"]: row for row in operator.get("/api/v1/noise/?weeks=2").json()}
    counts = {name: rows["power-cap-limited"][name] for name in ("alerts", "noisy", "acknowledged", "acted_on", "in_shadow")}
    assert counts == {"alerts": 2, "noisy": 0, "acknowledged": 0, "acted_on": 1, "in_shadow": 0}
    assert rows["power-cap-limited"]["median_s"] >= 0
    assert (rows["site-new"]["alerts"], rows["site-new"]["in_shadow"], rows["site-new"]["median_s"]) == (0, 1, None)
    assert operator.get("/api/v1/noise/?weeks=0").status_code == 400
