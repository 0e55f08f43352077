"""Tokens that are narrowed to scopes, and tokens that expire."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from fleet.accounts.models import SCOPES, ApiToken, User
from fleet.api.urls import router
from tests.fleet.api.conftest import caller
from tests.fleet.rows import person

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
JOB = {"cluster": "west", "job_id": "4711", "started_at": "2026-11-01T12:00:00Z"}
READS = tuple(
    f"/api/v1/{path}/"
    for path in ("nodes", "gpus", "findings", "jobs", "rules", "annotations", "bench-runs", "planners", "schema")
)
WRITES: dict[str, tuple[str, str, Any]] = {
    "jobs": ("post", "/api/v1/jobs/", JOB),
    "findings": ("post", "/api/v1/findings/1/transitions/", {"after": "accepted"}),
    "annotations": ("post", "/api/v1/annotations/", {"scope": "node", "target": "n1", "key": "maintenance", "value": True}),
    "reports": ("post", "/api/v1/bench-runs/", {}),
    "rules": ("patch", "/api/v1/rules/memory-nearly-full/", {"state": "on"}),
    "alerts": ("post", "/api/v1/findings/1/acknowledge/", {}),
    "events": ("post", "/api/v1/alertmanager/", {"version": "4", "alerts": []}),
    "commands": ("post", "/api/v1/nodes/1/commands/", {"what": "resume_profiling", "reason": "a test"}),
}  # fmt: skip


@pytest.fixture
def olga(db: None) -> User:
    """An operator."""
    user = person("olga")
    user.groups.add(Group.objects.get(name="operator"))
    return user


def narrowed(user: User, *scopes: str, **more: Any) -> APIClient:
    """A program with a token of these scopes."""
    return caller(ApiToken.issue(user=user, name="test", scopes=list(scopes), **more)[1])


@pytest.mark.parametrize("scope", WRITES)
def test_a_scope_writes_what_is_its_own_and_reads_nothing_else(scope: str, olga: User) -> None:
    """What its person may do beyond it, it may not."""
    client = narrowed(olga, scope)
    wrote = {name: getattr(client, how)(path, body, format="json").status_code for name, (how, path, body) in WRITES.items()}

    assert [name for name, status in wrote.items() if status != 403] == [scope]
    assert {client.get(path).status_code for path in READS} == {403}
    assert client.get("/metrics").status_code == 403


def test_reading_is_a_scope_that_writes_nothing(olga: User) -> None:
    """A plan computes and keeps nothing: reading allows it."""
    client = narrowed(olga, "read")

    assert {client.get(path).status_code for path in READS} == {200}
    assert {getattr(client, how)(path, body, format="json").status_code for how, path, body in WRITES.values()} == {403}
    assert client.post("/api/v1/planners/batch/", {"micro_batch": 4}, format="json").status_code == 200


def test_scopes_add_up_and_never_exceed_the_person(olga: User) -> None:
    """Two scopes do both; a viewer's token with a scope does not write."""
    both = narrowed(olga, "read", "jobs")
    assert (both.get("/api/v1/jobs/").status_code, both.post("/api/v1/jobs/", JOB, format="json").status_code) == (200, 201)
    assert narrowed(person("bob"), "jobs").post("/api/v1/jobs/", JOB, format="json").status_code == 403


def test_the_refusal_says_which_scope_is_missing(olga: User) -> None:
    """As a problem document."""
    refused = narrowed(olga, "jobs").get("/api/v1/findings/")

    assert (refused.status_code, refused["Content-Type"]) == (403, "application/problem+json")
    assert "(jobs)" in refused.json()["detail"]
    assert refused.json()["detail"].endswith("read.")


def test_the_metrics_pages_have_a_scope_of_their_own(olga: User, settings: Settings) -> None:
    """For a Prometheus that should read nothing else."""
    settings.FETTLE_METRICS_GPUS = True
    client = narrowed(olga, "metrics")
    assert [client.get(path).status_code for path in ("/metrics", "/metrics/gpus", "/api/v1/nodes/")] == [200, 200, 403]


def test_no_path_is_open_to_a_token_without_its_scope(olga: User) -> None:
    """Whatever is added to the API is closed to narrow tokens until it says otherwise."""
    client = narrowed(olga, "findings")
    for prefix, _view, _name in router.registry:
        path = f"/api/v1/{prefix.replace('(?P<node_id>[0-9]{1,18})', '1')}/"
        assert client.get(path).status_code == 403, path


def test_a_token_expires(olga: User) -> None:
    """From that moment it is unknown."""
    now = timezone.now()
    assert narrowed(olga, "read", expires_at=now + timedelta(minutes=1)).get("/api/v1/nodes/").status_code == 200
    late = narrowed(olga, "read", expires_at=now).get("/api/v1/nodes/")
    assert late.status_code == 401
    assert "expired" in late.json()["detail"]


def test_the_command_makes_narrow_tokens(olga: User, capsys: pytest.CaptureFixture[str]) -> None:
    """With several scopes and a last day; not with --write too, nor with a scope that is none."""
    call_command("api_token", "olga", "slurm", "--scope", "jobs", "--scope", "health", "--days", "30")
    row = ApiToken.of(capsys.readouterr().out.strip())

    assert row is not None
    assert row.scopes == ["health", "jobs"]
    assert row.expires_at is not None
    assert timedelta(days=29) < row.expires_at - timezone.now() <= timedelta(days=30)
    for wrong in (["--scope", "jobs", "--write"], ["--scope", "all"], ["--days", "0"], ["--days", "nan"]):
        with pytest.raises(CommandError):
            call_command("api_token", "olga", "slurm", *wrong)


def test_every_scope_is_used_by_some_view(olga: User) -> None:
    """A scope that allows nothing would mislead."""
    assert {*WRITES, "read", "metrics", "health"} == {*SCOPES}


@pytest.mark.django_db(transaction=True)
def test_going_back_revokes_what_was_narrowed() -> None:
    """Without scopes such a token would read everything."""
    user = person("olga")
    kept, narrow = ApiToken.issue(user=user, name="kept")[0], ApiToken.issue(user=user, name="narrow", scopes=["jobs"])[0]
    try:
        call_command("migrate", "accounts", "0004", verbosity=0)
    finally:
        call_command("migrate", verbosity=0)
    stands = {row.pk: row.revoked_at is None for row in ApiToken.objects.all()}
    assert stands == {kept.pk: True, narrow.pk: False}
