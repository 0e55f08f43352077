"""Every error of every path under /api/v1/ is a problem document with a sentence; what nobody reads is refused by name."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from fleet.accounts.models import User
from fleet.api.bodies import Json
from fleet.findings.lifecycle import Place, report
from fleet.tuning.changes import save_own
from tests.fleet.api.alerting import alerting
from tests.fleet.api.conftest import caller
from tests.fleet.rows import found, node, person, token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
OWN = {"scope": "gpu", "severity": "info", "group": "capacity", "opens": "busy > 1.4", "title": "Cannot be", "summary": "Busy."}
METHODS = ("get", "post", "put", "patch", "delete")


@cache
def operations() -> dict[str, dict[str, Any]]:
    """What the schema lists, by path and method."""
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    listed: dict[str, dict[str, Any]] = schema["paths"]
    return listed


@pytest.fixture
def root(db: None) -> APIClient:
    """May do everything."""
    somebody: User = person("root")
    User.objects.filter(pk=somebody.pk).update(is_superuser=True)
    return caller(token(somebody, write=True))


@pytest.fixture
def site(root: APIClient) -> Any:
    """A path of the schema with the names and numbers of what is there."""
    home = node()
    row = report(timezone.now(), found(), Place(home.pk, ()))
    save_own("site-x", OWN, User.objects.get(username="root"))
    dead = alerting(row)
    own = {"rules": "memory-nearly-full", "planners": "batch", "xids": "xid-31", "findings": row.pk, "nodes": home.pk, **dead}

    def real(path: str) -> str:
        kind = path.removeprefix("/api/v1/").partition("/")[0]
        made = path.replace("{node_id}", str(home.pk)).replace("{slug}", "site-x").replace("{id}", str(own.get(kind, 1)))
        assert "{" not in made
        return made

    return real


def problem(answer: Any, status: int) -> dict[str, Any]:
    """The problem document of an answer of that status: with a sentence, and errors that are sentences by parameter."""
    assert answer.status_code == status, (answer.request["PATH_INFO"], answer.content[:200])
    assert answer["Content-Type"] == "application/problem+json", answer.request["PATH_INFO"]
    said: dict[str, Any] = answer.json()
    assert set(said) <= {"type", "title", "status", "detail", "errors"}
    assert said["status"] == status
    assert re.search(r"\w \w.*[.:?/]\Z", said["detail"], re.DOTALL), said["detail"]
    assert all(isinstance(one, str) and one for several in said.get("errors", {}).values() for one in several)
    return said


def with_body() -> Iterator[tuple[str, str]]:
    """Path and method of every operation that takes a body."""
    for path, listed in operations().items():
        yield from ((path, method) for method in listed if method in ("post", "put", "patch"))


def test_a_parameter_that_is_not_known_is_refused_by_every_operation(root: APIClient, site: Any) -> None:
    """Left out in silence, it would answer another question."""
    asked = 0
    for path, listed in operations().items():
        for method in listed:
            answer = getattr(root, method)(f"{site(path)}?no_such_parameter=1&limit=-3")
            said = problem(answer, 400)
            assert "no_such_parameter" in json.dumps(said), (method, path)
            asked += 1
    assert asked == 81


def test_a_key_that_is_not_known_is_refused_by_every_body(root: APIClient, site: Any) -> None:
    """By name, and with those that there are where there are any."""
    asked = 0
    for path, method in with_body():
        if path.endswith("/alertmanager/"):
            continue  # its next version may say more, and must be heard all the same
        said = problem(getattr(root, method)(site(path), {"no_such_key": 1}, format="json"), 400)
        assert "no_such_key" in json.dumps(said), (method, path)
        if not path.endswith(("/trials/", "/planners/{id}/", "/test/", "/end/", "/send-again/")):
            assert re.search("there are: .*[a-z]", json.dumps(said)), (method, path)
        asked += 1
    assert asked == 22


def test_a_body_that_cannot_be_read_is_a_problem_everywhere(root: APIClient, site: Any) -> None:
    """No JSON, no object, another type, too large."""
    for path, method in with_body():
        where = site(path)
        for body in (
            "{",
            "[[[[",
            '"x"',
            "3",
            "\x00",
            '{"a": 1, "a": 2}' if "-runs" not in path and "profiles" not in path else "{",
            '{"\\ud800": 1}',
        ):
            problem(root.generic(method.upper(), where, body, content_type="application/json"), 400)
        takes_forms = path == "/api/v1/jobs/"
        form = root.generic(method.upper(), where, "a=1", content_type="application/x-www-form-urlencoded")
        problem(form, 400 if takes_forms else 415)
        large = b'{"x": "' + b"x" * 2_700_000 + b'"}'
        problem(root.generic(method.upper(), where, large, content_type="application/json"), 413)  # type: ignore[arg-type]


def test_what_is_not_there_is_a_problem_everywhere(root: APIClient) -> None:
    """An object by its number or its name, whatever is asked of it."""
    asked = 0
    for path, listed in operations().items():
        if "{" in path:
            where = path.replace("{node_id}", "987654").replace("{slug}", "site-nothing")
            where = where.replace("{id}", "no-such" if "/rules/" in path or "planners" in path else "987654")
            for method in listed:
                problem(getattr(root, method)(where, {} if method in ("post", "put", "patch") else None, format="json"), 404)
                asked += 1
    assert asked == 45


@pytest.mark.parametrize(
    "path", ["", "nope/", "nodes/1.5/", "a%0Ab/", "%00/", "rules/x/y/", "nodes/%2e%2e/", "planners/No!/", "é/", "x" * 3000 + "/"]
)
def test_a_path_that_nothing_answers_is_a_problem(path: str, root: APIClient) -> None:
    """Whatever the method and the signs in it."""
    for method in METHODS:
        problem(getattr(root, method)(f"/api/v1/{path}"), 404)


def test_a_method_that_is_not_there_is_a_problem_everywhere(root: APIClient, site: Any) -> None:
    """405 on every path of the schema."""
    for path, listed in operations().items():
        for method in set(METHODS) - set(listed):
            problem(getattr(root, method)(site(path), format="json"), 405)
    for path in ("/api/v1/schema/", "/api/v1/docs/"):
        problem(root.post(path, {}, format="json"), 405)
        problem(root.get(f"{path}?no_such_parameter=1"), 400)


def test_who_is_not_known_gets_a_problem_everywhere(stranger: APIClient, site: Any) -> None:
    """401, of paths that nothing answers too."""
    for path, listed in operations().items():
        for method in listed:
            problem(getattr(stranger, method)(site(path), format="json"), 401)
    problem(stranger.get("/api/v1/nope/"), 401)
    problem(stranger.get("/api/v1/schema/"), 401)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("nodes/?limit=x", "limit"),
        ("nodes/?page=0", "page"),
        ("nodes/?page=x", "page"),
        ("nodes/?a%25s=1", "a%s"),
        ("nodes/?state=ok&state=stale", "state"),
        ("findings/?opened_after=yesterday", "opened_after"),
        ("findings/?opened_after=2026-13-01T00:00:00Z", "opened_after"),
        ("findings/?gpu=x", "gpu"),
        ("findings/?gpu=1e400", "gpu"),
        ("findings/?condition=firing&condition=x", "condition"),
        ("findings/1/?open=true", "open"),
        ("bench-runs/?after=x", "after"),
        ("bench-scores/?kind=x", "kind"),
        ("profiles/?before=x", "before"),
        ("annotations/?current=maybe", "current"),
        ("rules/?state=broken", "state"),
        ("rules/?group=%00", "group"),
        ("rule-changes/?what=x", "what"),
        ("own-rules/?page_size=0", "page_size"),
        ("own-rules/?page=-1", "page"),
        ("own-rules/features/?scope=fleet", "scope"),
        ("nodes/1/commands/?state=lost", "state"),
    ],
)
def test_a_value_that_cannot_be_is_refused_at_its_parameter(path: str, name: str, root: APIClient, site: Any) -> None:
    """As problem documents do it."""
    where = site("/api/v1/nodes/{node_id}/commands/") + "?state=lost" if "commands" in path else f"/api/v1/{path}"

    assert list(problem(root.get(where), 400)["errors"]) == [name]


def test_several_values_of_what_takes_several_stay(root: APIClient) -> None:
    """Each narrows by itself."""
    assert root.get("/api/v1/findings/?condition=firing&condition=pending&page=last&page_size=5").status_code == 200


def test_a_page_behind_the_last_is_not_found(root: APIClient) -> None:
    """The number is one; there is no such page."""
    problem(root.get("/api/v1/nodes/?page=9"), 404)


def test_a_path_without_its_slash_leads_on_or_says_so(root: APIClient) -> None:
    """Whoever reads is led to it, with the query; a body would get lost on the way."""
    read = root.get("/api/v1/nodes?state=ok")

    assert (read.status_code, read["Location"]) == (301, "/api/v1/nodes/?state=ok")
    for method in ("post", "put", "patch", "delete"):
        assert "/api/v1/annotations/" in problem(getattr(root, method)("/api/v1/annotations", {}, format="json"), 404)["detail"]


def test_what_fails_within_is_a_problem_too(root: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 without a word of what it was; pages get their page."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(Json, "parse", broken)
    root.raise_request_exception = False
    answer = root.post("/api/v1/annotations/", {}, format="json")

    assert "secret" not in json.dumps(problem(answer, 500))


def test_a_host_that_is_not_ours_is_a_problem() -> None:
    """Django refuses it before any view."""
    problem(Client(headers={"host": "evil example"}).get("/api/v1/nodes/"), 400)


def test_a_number_of_very_many_digits_is_refused_in_our_own_words(root: APIClient) -> None:
    """Python's limit is its own affair."""
    body = '{"cluster": "west", "job_id": "1", "gpus_total": ' + "9" * 5000 + "}"
    said = problem(root.generic("POST", "/api/v1/jobs/", body, content_type="application/json"), 400)

    assert said["detail"] == "A number of the body has too many digits."
