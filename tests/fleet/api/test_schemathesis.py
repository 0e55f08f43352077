"""What schemathesis makes of the schema: requests that fit it and requests that do not, through the whole server.

Every answer has a status, a type and a body that the schema lists; what the schema allows is not refused as malformed without a reason that
a schema cannot say, and nothing fails. Examples are few and always the same.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.contrib.auth.models import Group
from django.core.wsgi import get_wsgi_application
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, seed
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok
from schemathesis.generation.modes import GenerationMode
from schemathesis.specs.openapi import checks

from fleet.findings.lifecycle import Place, report
from fleet.jobs.holdings import Given
from fleet.jobs.telling import Told, tell
from fleet.tuning.changes import save_own
from tests.fleet.rows import found, gpu, node, person, token

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
OWN = {"scope": "gpu", "severity": "info", "group": "capacity", "opens": "busy > 1.4", "title": "Cannot be", "summary": "Busy."}
EXAMPLES = 15
CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


REFUSES = [checks.negative_data_rejection]
STRICT = ("POST /api/v1/jobs/", "GET /api/v1/health/", "GET /api/v1/placements/")
"""What the schema forbids is always refused there; the library that filters lists reads an empty value as none."""


def operations() -> Iterator[Any]:
    """Each operation of the schema, with the server behind it."""
    schema: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    loaded = schemathesis.openapi.from_dict(schema)
    loaded.app = get_wsgi_application()
    for result in loaded.get_all_operations():
        assert isinstance(result, Ok)
        yield result.ok()


def ask(cases: Any, wanted: list[Any], headers: dict[str, str], failures: list[str]) -> int:
    """How many requests were made; what is wrong with their answers is added to `failures`."""
    asked = 0

    @seed(1)
    @hypothesis_settings(
        max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(case=cases)
    def one(case: Any) -> None:
        nonlocal asked
        asked += 1
        try:
            case.call_and_validate(headers=headers, checks=wanted)
        except BaseExceptionGroup as group:
            failures.append(f"{case.method} {case.formatted_path}: {group.exceptions!r}"[:1500])

    one()
    return asked


def test_no_request_gets_an_answer_that_the_schema_does_not_list() -> None:
    """By an operator's token, of things that are there and of things that are not."""
    olga = person("olga")
    olga.groups.add(Group.objects.get(name="operator"))
    headers = {"Authorization": f"Bearer {token(olga, write=True)}"}
    home = node("n1")
    card = gpu(home)
    row = report(timezone.now(), found(str(card.pk)), Place(home.pk, (card.pk,)))
    save_own("site-x", OWN, olga)
    given_to = Given(node="n1", devices=["0"], shared=False)
    (job,) = tell([Told(cluster="west", job_id="1", started_at=timezone.now(), allocations=[given_to])], timezone.now())
    ids = {
        "nodes": home.pk, "gpus": card.pk, "findings": row.pk, "jobs": job.pk, "rules": "memory-nearly-full", "planners": "batch",
    }  # fmt: skip
    failures: list[str] = []
    asked = 0

    for operation in operations():
        kind = operation.path.removeprefix("/api/v1/").partition("/")[0]
        there = {"id": ids.get(kind, 1), "node_id": home.pk, "slug": "site-x"}
        path = {name: value for name, value in there.items() if f"{{{name}}}" in operation.path}
        cases = st.one_of(
            operation.as_strategy(GenerationMode.POSITIVE),
            operation.as_strategy(GenerationMode.NEGATIVE),
            *([operation.as_strategy(GenerationMode.POSITIVE, path_parameters=path)] if path else []),
        )
        asked += ask(cases, [*CHECKS, *REFUSES] if operation.label in STRICT else CHECKS, headers, failures)
    assert not failures, "\n\n".join(failures[:20])
    assert asked > 47 * EXAMPLES / 2
