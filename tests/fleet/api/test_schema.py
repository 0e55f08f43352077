"""The OpenAPI schema: whole, without warnings, and true."""

import json
import re
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission
from django.contrib.staticfiles import finders
from django.utils import timezone
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema
from rest_framework.test import APIClient

from fleet.accounts.models import User
from fleet.annotations.telling import tell
from fleet.benches.keep import keep
from fleet.commands.asking import ask
from fleet.findings.lifecycle import Place, report
from fleet.jobs.telling import Told
from fleet.jobs.telling import tell as tell_jobs
from fleet.notify.models import Route
from fleet.profiles.keep import keep as keep_profile
from fleet.tuning.changes import save_own, set_state
from fleet.tuning.models import RuleChange
from tests.fleet.api.alerting import RULES, alerting
from tests.fleet.api.test_verifications import verified
from tests.fleet.benches.reports import report_of
from tests.fleet.profiles import reports as profile_reports
from tests.fleet.rows import found, gpu, node
from wire.bench import decode

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
JOB: Any = {"cluster": "west", "job_id": "4711", "started_at": "2026-11-01T12:00:00Z", "nodes": "n1", "devices": "0"}
NOTED: Any = {"scope": "node", "target": "n1", "key": "maintenance", "value": True}


def generated() -> dict[str, Any]:
    """The schema as the generator makes it."""
    schema: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return schema


def test_it_is_made_without_a_warning() -> None:
    """A warning is a field that the schema guesses."""
    with GENERATOR_STATS.silence():
        GENERATOR_STATS.reset()
        schema = generated()

    assert not GENERATOR_STATS
    validate_schema(schema)  # type: ignore[no-untyped-call]


def test_every_documented_path_answers(alice: APIClient) -> None:
    """With the status that is documented for success, or for a body that is missing."""
    home = node()
    card = gpu(home)
    row = report(timezone.now(), found(), Place(home.pk, (card.pk,)))
    schema = json.loads(alice.get("/api/v1/schema/?format=json").content)
    alice_herself = User.objects.get(username="alice")
    wanted = ("add_command", "add_benchrun", "change_annotation", "add_rulechange", "add_jobprofile", "change_job", "add_event")
    alerting_rights = ("add_silence", "change_route", "change_inhibition", "add_acknowledgement")
    alice_herself.user_permissions.add(*Permission.objects.filter(codename__in=(*wanted, *alerting_rights)))
    run = keep(decode(report_of(home, at=1.79e9)), home, timezone.now()).run
    profile = keep_profile(profile_reports.report(home, at=1.79e9), home, timezone.now()).profile
    alerts = alerting(row)
    (noted,), _ = tell([NOTED | {"at": None, "until": None}], alice_herself)
    (job,) = tell_jobs([Told(cluster="west", job_id="1", started_at=timezone.now())], timezone.now())
    set_state("memory-nearly-full", "shadow", alice_herself)
    command = ask(home, "take_driver_back", None, "a test", alice_herself)
    ids: dict[str, int | str] = {
        f"/api/v1/nodes/{home.pk}/commands/": command.pk,
        "/api/v1/nodes/": home.pk,
        "/api/v1/gpus/": card.pk,
        "/api/v1/findings/": row.pk,
        **{f"/api/v1/{name}/": pk for name, pk in alerts.items()},
        "/api/v1/bench-runs/": run.pk,
        "/api/v1/profiles/": profile.pk,
        "/api/v1/verifications/": verified(row).pk,
        "/api/v1/planners/": "batch",
        "/api/v1/annotations/": noted.pk,
        "/api/v1/jobs/": job.pk,
        "/api/v1/rules/": "memory-nearly-full",
        "/api/v1/xids/": "xid-31",
        "/api/v1/rule-changes/": RuleChange.objects.get().pk,
    }
    own = {
        "scope": "gpu", "severity": "info", "group": "capacity", "opens": "busy > 1.4", "title": "Cannot be", "summary": "Busy {busy:.0%}.",
    }  # fmt: skip
    bodies: dict[str, Any] = {
        "/commands/": {"what": "resume_profiling", "reason": "a test"},
        "/transitions/": {"after": "accepted"},
        "/annotations/": [NOTED],
        "/jobs/": JOB,
        "/bench-runs/": json.loads(report_of(home)),
        "/profiles/": json.loads(profile_reports.report_of(home)),
        "/planners/batch/": {"micro_batch": 4},
        "/trials/": {},
        "/rules/memory-nearly-full/": {"state": "on"},
        "/xids/xid-31/": {"overrides": [{"severity": "warn"}]},
        "/alertmanager/": {"version": "4", "alerts": []},
        "/own-rules/": {"slug": "site-made", **own},
        "/own-rules/site-x/": own,
        "/test/": {},
        "/end/": {},
        "/send-again/": {},
        "/dry-run/": {"labels": {"severity": ["critical"]}},
        "/acknowledge/": {"comment": "Mine"},
        "/routes/": {"name": "new", "url": "json://127.0.0.1:9/"},
        f"/routes/{alerts['routes']}/": {"enabled": False},
        "/silences/": {
            "matchers": RULES,
            "ends_at": "2090-01-01T00:00:00Z",
            "starts_at": "2089-12-31T00:00:00Z",
            "comment": "Later",
        },
        "/inhibitions/": {"name": "new", "source": RULES, "target": RULES},
        f"/inhibitions/{alerts['inhibitions']}/": {"enabled": False},
    }
    asked = 0

    for path, operations in schema["paths"].items():
        real = path.replace("{node_id}", str(home.pk))
        real = real.replace("{id}", str(next((pk for start, pk in ids.items() if real.startswith(start)), "")))
        real = real.replace("{slug}", "site-x")
        assert not re.search(r"[{}]", real)
        if path == "/api/v1/series/":
            real += f"?scope=gpu&entity={card.pk}&metrics=power_w"
        for method in operations:
            if "{slug}" in path:
                save_own("site-x", own, alice_herself)  # the one before may have deleted it
            Route.objects.get_or_create(pk=alerts["routes"], defaults={"name": "again", "url": "json://127.0.0.1:9/"})
            body = None if method in ("get", "delete") else next(body for end, body in bodies.items() if real.endswith(end))
            answer = getattr(alice, method)(real, body, format=None if body is None else "json")
            assert str(answer.status_code) in operations[method]["responses"], f"{method} {real}"
            assert answer.status_code < 300
            asked += 1
    assert asked == 81


def test_it_says_how_to_sign_in() -> None:
    """A bearer token or a session."""
    assert generated()["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


def test_it_comes_as_yaml_or_json(bob: APIClient) -> None:
    """YAML unless JSON is asked for."""
    assert bob.get("/api/v1/schema/").content.startswith(b"openapi: 3")
    assert json.loads(bob.get("/api/v1/schema/?format=json").content)["info"]["title"] == "Fettle"


def test_the_page_of_the_docs_loads_nothing_from_elsewhere(bob: APIClient) -> None:
    """Swagger UI is served from here, without inline scripts, which the policy of our pages forbids."""
    page = bob.get("/api/v1/docs/").content.decode()

    sources = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert sources
    assert all(source.startswith("/") or source.startswith("data:") for source in sources)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", page))
    for source in sources:
        if source.startswith(settings.STATIC_URL):
            assert finders.find(source.removeprefix(settings.STATIC_URL)), source
        elif source.startswith("/"):
            assert bob.get(source).status_code == 200
