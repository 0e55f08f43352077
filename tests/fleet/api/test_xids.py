"""/xids/: what codes mean, and what the site says of them."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from rest_framework.test import APIClient

from fleet.accounts.models import User
from fleet.findings.models import Finding
from fleet.findings.tasks import event_arrived
from fleet.inventory.models import Event
from fleet.tuning.models import RuleChange, XidOverride
from tests.fleet.rows import event, gpu, node

pytestmark = pytest.mark.django_db
URL = "/api/v1/xids/"


@pytest.fixture
def olga(alice: APIClient) -> APIClient:
    """May set rules."""
    User.objects.get(username="alice").user_permissions.add(Permission.objects.get(codename="add_rulechange"))
    return alice


def one(client: APIClient, key: str) -> Any:
    """One code."""
    return client.get(f"{URL}{key}/").json()


def test_it_lists_what_is_published_and_what_came(bob: APIClient) -> None:
    """With the counts of a month; unknown codes and switches' too, whoever reads."""
    card = gpu(node())
    for code, kind in ((31, "xid"), (31, "xid"), (999, "xid"), (20034, "sxid")):
        event(card, code, kind)
    found = {row["id"]: row for row in bob.get(URL).json()}

    assert (found["xid-31"]["meaning"], found["xid-31"]["action"], found["xid-31"]["events_30d"]) == (
        "GPU memory page fault", "RESTART_APP", 2,
    )  # fmt: skip
    assert (found["xid-999"]["rule"], found["xid-999"]["fault"], found["xid-999"]["meaning"]) == ("xid-unknown", "unknown", "")
    assert found["sxid-20034"]["rule"] == "nvswitch-fault"
    assert all(row["sources"] for row in found.values() if row["meaning"])
    assert {row["id"] for row in bob.get(URL, {"fault": "unknown"}).json()} == {"xid-999"}
    assert bob.get(URL, {"colour": "red"}).status_code == 400


def test_a_code_is_set_with_its_line_in_the_audit_trail(olga: APIClient) -> None:
    """In force with the next event, and taken away again."""
    answer = olga.patch(
        f"{URL}xid-31/", {"overrides": [{"matcher": "node", "pattern": "n*", "ignored": True}], "comment": "lab"}, format="json"
    )
    assert answer.status_code == 200
    assert answer.json()["overrides"][0] | {"at": ""} == {
        "matcher": "node", "pattern": "n*", "rule": "", "severity": "", "ignored": True, "by_name": "alice", "comment": "lab", "at": "",
    }  # fmt: skip
    card = gpu(node())
    event_arrived(event(card, 31).pk)
    assert not Finding.objects.exists()
    assert Event.objects.exists()

    olga.patch(f"{URL}xid-31/", {"overrides": [{"matcher": "node", "pattern": "n*", "removed": True}]}, format="json")
    event_arrived(event(card, 31).pk)
    assert Finding.objects.exists()
    changes = olga.get("/api/v1/rule-changes/", {"what": "xid"}).json()["results"]
    assert [(row["rule"], bool(row["after"])) for row in changes] == [("xid-31", False), ("xid-31", True)]


@pytest.mark.parametrize(
    "asked",
    [
        {}, {"overrides": []}, {"overrides": [{"severity": "loud"}]}, {"overrides": [{"rule": "node-silent"}]}, {"overrides": [{}]},
        {"overrides": [{"matcher": "node", "ignored": True}]}, {"overrides": [{"ignored": True}, {"severity": "warn"}]},
        {"overrides": [{"ignored": True, "code": 3}]}, {"overrides": [{"removed": True}]},
    ],
)  # fmt: skip
def test_what_cannot_be_set_is_refused_and_changes_nothing(olga: APIClient, asked: dict[str, Any]) -> None:
    """In a sentence."""
    answer = olga.patch(f"{URL}xid-31/", asked, format="json")

    assert answer.status_code == 400
    assert not XidOverride.objects.exists()


def test_it_takes_the_right_to_set_rules(bob: APIClient, olga: APIClient) -> None:
    """Reading is for everyone."""
    asked = {"overrides": [{"ignored": True}]}

    assert bob.patch(f"{URL}xid-31/", asked, format="json").status_code == 403
    assert one(bob, "xid-31")["overrides"] == []
    assert bob.get(f"{URL}xid-77777/").status_code == 404
    assert olga.patch(f"{URL}xid-77777/", asked, format="json").status_code == 200


def test_the_admin_sets_and_takes_away_with_a_line_each(client: Client) -> None:
    """The same checks, the same audit trail."""
    client.force_login(User.objects.create_superuser("root"))
    form = {"kind": "xid", "code": 31, "matcher": "site", "pattern": "", "rule": "", "severity": "info", "comment": "why"}
    assert b"takes no pattern" in client.post("/admin/tuning/xidoverride/add/", form | {"pattern": "x"}).content
    assert client.post("/admin/tuning/xidoverride/add/", form).status_code == 302
    row = XidOverride.objects.get()

    assert (row.severity, row.by_name) == ("info", "root")
    assert client.post(f"/admin/tuning/xidoverride/{row.pk}/delete/", {"post": "yes"}).status_code == 302
    assert RuleChange.objects.filter(what="xid").count() == 2
    assert not XidOverride.objects.exists()
