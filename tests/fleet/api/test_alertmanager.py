"""POST /alertmanager/: a site's Alertmanager tells of its alerts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.utils import timezone
from rest_framework.test import APIClient

from fleet.accounts.models import ApiToken, User
from fleet.findings.content import render
from fleet.findings.models import Finding
from fleet.inventory.models import Event, Refusal
from fleet.tuning.changes import set_state
from fleet.watch.told_alerts import moment
from tests.fleet.api.conftest import caller
from tests.fleet.rows import gpu, node, person

pytestmark = pytest.mark.django_db
URL = "/api/v1/alertmanager/"
BEGAN = "2026-11-30T12:00:00.123456789Z"


@pytest.fixture
def teller() -> APIClient:
    """A program with a token of the scope `events`."""
    user = person("otto")
    user.user_permissions.add(Permission.objects.get(codename="add_event"))
    return caller(ApiToken.issue(user=user, name="am", scopes=["events"])[1])


def alert(**labels: str) -> dict[str, Any]:
    """One alert as Alertmanager writes it, with what it has beside."""
    return {
        "status": "firing",
        "labels": {"alertname": "DiskFull", "severity": "warning", **labels},
        "annotations": {"summary": "The scratch disk is 97 % full."},
        "startsAt": BEGAN,
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus/graph",
        "fingerprint": "5ef77f1f8a3ecf8d",
    }


def body(*alerts: dict[str, Any]) -> dict[str, Any]:
    """A post of version 4."""
    return {
        "receiver": "fettle", "status": "firing", "alerts": list(alerts), "groupLabels": {}, "commonLabels": {}, "commonAnnotations": {},
        "externalURL": "http://alertmanager", "version": "4", "groupKey": "{}:{}", "truncatedAlerts": 0,
    }  # fmt: skip


def post(teller: APIClient, *alerts: dict[str, Any]) -> Any:
    """What the server answers."""
    answer = teller.post(URL, body(*alerts), format="json")
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_an_alert_is_an_event_and_a_finding_of_its_node(teller: APIClient) -> None:
    """By the label `instance` with its port; the severity is mapped, the text is Alertmanager's."""
    home = node("gpu-17")
    assert post(teller, alert(instance="gpu-17:9100")) == {"opened": 1, "ended": 0, "repeated": 0, "loops": 0}

    row = Finding.objects.get()
    assert (row.rule, row.scope, row.severity, row.condition, row.node) == (
        "told-by-alertmanager",
        "node",
        "warn",
        "firing",
        home,
    )
    assert (render(row).title, render(row).summary) == ("Alertmanager tells: DiskFull", "The scratch disk is 97 % full.")
    told = Event.objects.get()
    assert (told.kind, told.node, told.severity, told.text) == (
        "alertmanager",
        home,
        "warn",
        "DiskFull: The scratch disk is 97 % full.",
    )


def test_told_again_it_is_the_same_and_resolved_it_ends(teller: APIClient) -> None:
    """By fingerprint and start; told late, what is over stays so; a new start is a new alert."""
    node("gpu-17")
    one = alert(node="gpu-17")
    post(teller, one)
    assert post(teller, one)["repeated"] == 1
    over = one | {"status": "resolved", "endsAt": "2026-11-30T12:30:00Z"}
    assert post(teller, over)["ended"] == 1
    assert post(teller, over)["repeated"] == 1
    assert post(teller, one)["repeated"] == 1
    assert list(Finding.objects.values_list("condition", flat=True)) == ["resolved"]

    assert post(teller, one | {"startsAt": (timezone.now() + timedelta(seconds=1)).isoformat()})["opened"] == 1
    assert sorted(Finding.objects.values_list("condition", flat=True)) == ["firing", "resolved"]
    assert Event.objects.count() == 3


@pytest.mark.parametrize(
    ("labels", "scope"),
    [
        ({"UUID": "GPU-n1-1"}, "gpu"), ({"instance": "n1:9400", "gpu": "1"}, "gpu"), ({"Hostname": "n1", "device": "nvidia1"}, "gpu"),
        ({"node": "n1.example.org"}, "node"), ({"node": "n1", "gpu": "7"}, "node"), ({"instance": "10.0.0.7:9100"}, "fleet"),
        ({"node": "unknown"}, "fleet"), ({}, "fleet"),
    ],
)  # fmt: skip
def test_node_and_gpu_are_found_by_the_labels_that_exporters_write(teller: APIClient, labels: dict[str, str], scope: str) -> None:
    """As far as they are known here; what is not found is of the fleet, and never of a wrong device."""
    home = node()
    gpu(home)
    card = gpu(home, 1)
    post(teller, alert(**labels))

    row = Finding.objects.get()
    assert row.scope == scope
    assert (row.node_id is None) is (scope == "fleet")
    assert list(row.gpus.all()) == ([card] if scope == "gpu" else [])


@pytest.mark.parametrize(
    ("said", "severity"), [("page", "critical"), ("Warning", "warn"), ("info", "info"), ("P3", "warn"), ("", "warn")]
)
def test_severities_of_sites_are_mapped(teller: APIClient, said: str, severity: str) -> None:
    """What is not known is a warning."""
    post(teller, alert(severity=said))

    assert Finding.objects.get().severity == severity


def test_our_own_alerts_that_come_back_are_dropped_and_counted(teller: APIClient) -> None:
    """Else each would make the next."""
    assert post(teller, alert(source="fettle"), alert(node="x"))["loops"] == 1
    assert post(teller, alert(source="fettle"))["loops"] == 1

    assert Finding.objects.count() == 1
    assert Refusal.objects.get(code="alertmanager_loop").total == 2


def test_a_rule_that_is_off_keeps_the_event_alone(teller: APIClient) -> None:
    """The site decides."""
    set_state("told-by-alertmanager", "off", User.objects.get(username="otto"))
    node("gpu-17")
    post(teller, alert(node="gpu-17"))

    assert Event.objects.count() == 1
    assert not Finding.objects.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": "3"}, {"alerts": None}, {"alerts": [{"status": "firing"}]}, {"alerts": [alert() | {"startsAt": "yesterday"}]},
        {"alerts": [alert() | {"startsAt": "0001-01-01T00:00:00Z"}]}, {"alerts": [alert() | {"labels": {"a": {"b": "c"}}}]},
        {"alerts": [alert() | {"labels": {"a": 1}}]}, {"alerts": [alert() | {"fingerprint": "../x"}]},
        {"alerts": [alert() | {"labels": {f"l{n}": "" for n in range(101)}}]},
    ],
)  # fmt: skip
def test_what_is_no_such_post_is_refused_as_a_problem(teller: APIClient, wrong: dict[str, Any]) -> None:
    """Nothing of it is kept."""
    answer = teller.post(URL, body(alert()) | wrong, format="json")

    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert not Finding.objects.exists()


def test_hostile_text_stays_text(teller: APIClient) -> None:
    """Control and direction characters go, fields stay words, and a long text is cut."""
    post(teller, alert() | {"annotations": {"summary": "\u202e{0.__class__}" + "x" * 5000}})

    summary = render(Finding.objects.get()).summary
    assert summary.startswith("{0.__class__}x")
    assert len(summary) <= 700


def test_it_takes_the_right_and_the_scope(teller: APIClient, alice: APIClient, stranger: APIClient) -> None:
    """Neither reading nor another scope is enough; and the scope reads nothing."""
    assert alice.post(URL, body(), format="json").status_code == 403
    assert stranger.post(URL, body(), format="json").status_code == 401
    other = ApiToken.issue(user=User.objects.get(username="otto"), name="jobs", scopes=["jobs"])[1]
    assert caller(other).post(URL, body(), format="json").status_code == 403
    assert teller.get("/api/v1/findings/").status_code == 403
    assert teller.get(URL).status_code in (403, 405)


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("2026-11-30T12:00:00.123456789Z", datetime(2026, 11, 30, 12, 0, 0, 123456, UTC)),
        ("2026-11-30T20:00:00+08:00", datetime(2026, 11, 30, 12, tzinfo=UTC)),
        ("2026-11-30T20:00:00.5+08:00", datetime(2026, 11, 30, 12, 0, 0, 500_000, UTC)),
        ("2026-11-30T12:00:00", None), ("0001-01-01T00:00:00Z", None), ("", None),
    ],
)  # fmt: skip
def test_times_are_read_as_go_writes_them(text: str, when: datetime | None) -> None:
    """Nanoseconds, offsets, and no zero."""
    assert moment(text) == when
