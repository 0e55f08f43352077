"""/api/v1/verifications/, /api/v1/verification-records/, and telling when advice was applied."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from fleet.findings.models import Finding, Transition
from fleet.inventory.models import Engine
from fleet.verdicts.models import Verification
from tests.fleet.api.test_findings import make
from tests.fleet.rows import gpu, node

pytestmark = pytest.mark.django_db


def verified(finding: Finding | None = None, **more: Any) -> Verification:
    """Advice that helped 1.8 times."""
    now = timezone.now()
    defaults: dict[str, Any] = {
        "finding": finding, "rule": "power-cap-limited", "scope": "gpu", "target": "1", "applied_at": now, "due_at": now,
        "verdict": "helped", "measure": "sm_clock_mhz", "before": 1000.0, "after": 1800.0, "ratio": 1.8, "ratio_low": 1.7,
        "ratio_high": 1.9, "p": 0.001, "recovered_gpu_hours": 40.0, "rollback": {"id": "Set the limit back.", "params": {}},
        "reason": {"id": "By {measure}: {ratio:.2f} times", "params": {"measure": "SM clock", "ratio": 1.8}},
    }  # fmt: skip
    return Verification.objects.create(**defaults | more)


def test_a_verdict_has_its_numbers_and_its_reason(bob: APIClient, settings: Settings) -> None:
    """With what it recovered at the site's price; the samples themselves stay where they are."""
    settings.FETTLE_GPU_HOUR_PRICE, settings.FETTLE_CURRENCY = 2.5, "EUR"
    row = verified(make())
    got = bob.get(f"/api/v1/verifications/{row.pk}/").json()

    assert (got["verdict"], got["ratio"], got["ratio_low"], got["ratio_high"], got["p"]) == ("helped", 1.8, 1.7, 1.9, 0.001)
    assert got["reason"] == "By SM clock: 1.80 times"
    assert got["is_estimate"] is True
    assert (got["recovered_gpu_hours"], got["recovered_cost"], got["currency"]) == (40.0, 100.0, "EUR")
    assert got["rollback"] == ""
    assert "before_samples" not in got


def test_targets_have_their_names_beside_their_ids(bob: APIClient) -> None:
    """Of nodes, GPUs and services; a job is called what it is called, and what is gone by its id."""
    n1 = node("n1")
    card = gpu(n1, 3)
    now = timezone.now()
    engine = Engine.objects.create(node=n1, name="http://127.0.0.1:8000", kind="vllm", first_seen_at=now, last_seen_at=now)
    called = {
        ("node", str(n1.pk)): "n1", ("gpu", str(card.pk)): "n1 GPU 3", ("service", str(engine.pk)): str(engine),
        ("gpu", "987654"): "987654", ("job", "west/4711"): "west/4711",
    }  # fmt: skip
    rows = [verified(scope=scope, target=target) for scope, target in called]
    told = bob.get("/api/v1/verifications/").json()["results"]

    assert {(one["scope"], one["target"]): one["target_name"] for one in told} == called
    assert bob.get(f"/api/v1/verifications/{rows[0].pk}/").json()["target_name"] == "n1"


def test_worse_comes_with_the_rollback(bob: APIClient) -> None:
    """In the reader's language."""
    row = verified(verdict="worse")

    assert bob.get(f"/api/v1/verifications/{row.pk}/").json()["rollback"] == "Set the limit back."


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", 3),
        ("?verdict=helped", 1),
        ("?verdict=helped&verdict=worse", 2),
        ("?waiting=true", 1),
        ("?waiting=false", 2),
        ("?rule=other", 1),
        ("?target=1", 3),
        ("?by_advisor=true", 0),
    ],
)
def test_lists_are_narrowed(bob: APIClient, query: str, found: int) -> None:
    """By verdict, rule and whether they wait."""
    verified()
    verified(verdict="worse", rule="other")
    verified(verdict="", ratio=None)

    assert bob.get(f"/api/v1/verifications/{query}").json()["count"] == found


@pytest.mark.parametrize("query", ["?verdict=bogus", "?finding=x", "?bogus=1"])
def test_filters_that_are_none_are_refused(bob: APIClient, query: str) -> None:
    """400 with the parameter's name."""
    answer = bob.get(f"/api/v1/verifications/{query}")

    assert answer.status_code == 400


def test_the_record_of_each_rule_is_the_sites_own(bob: APIClient) -> None:
    """Counts, the median ratio of what could be told, and what was recovered."""
    verified()
    verified(ratio=1.2, recovered_gpu_hours=2.0)
    verified(verdict="no_effect", ratio=1.0, recovered_gpu_hours=None)
    verified(verdict="cannot_tell", ratio=None, recovered_gpu_hours=None)
    (got,) = bob.get("/api/v1/verification-records/").json()

    assert {name: got[name] for name in ("helped", "no_effect", "worse", "cannot_tell", "waiting")} == {
        "helped": 2, "no_effect": 1, "worse": 0, "cannot_tell": 1, "waiting": 0,
    }  # fmt: skip
    assert (got["ratio"], got["recovered_gpu_hours"], got["recovered_cost"]) == (1.2, 42.0, None)


def test_applied_may_be_told_with_its_time(alice: APIClient) -> None:
    """The transition has it."""
    row = make()
    Finding.objects.update(opened_at=timezone.now() - timedelta(hours=2))
    at = timezone.now() - timedelta(hours=1)
    answer = alice.post(
        f"/api/v1/findings/{row.pk}/transitions/", {"after": "applied", "applied_at": at.isoformat()}, format="json"
    )

    assert answer.status_code == 201
    assert Transition.objects.get(axis="advice").at == at


@pytest.mark.parametrize(
    ("after", "hours", "says"),
    [("accepted", -1, "goes with applied alone"), ("applied", 1, "still to come"), ("applied", -48, "before the finding opened")],
)
def test_a_time_that_cannot_be_is_refused(alice: APIClient, after: str, hours: int, says: str) -> None:
    """400 with the reason."""
    row = make()
    at = timezone.now() + timedelta(hours=hours)
    answer = alice.post(f"/api/v1/findings/{row.pk}/transitions/", {"after": after, "applied_at": at.isoformat()}, format="json")

    assert answer.status_code == 400
    assert says in str(answer.json())


def test_a_stranger_sees_none(stranger: APIClient) -> None:
    """401."""
    assert stranger.get("/api/v1/verifications/").status_code == 401
    assert stranger.get("/api/v1/verification-records/").status_code == 401
