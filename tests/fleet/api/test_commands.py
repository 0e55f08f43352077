"""`/api/v1/nodes/<id>/commands/`: who may ask, what is answered, and problems as problem documents."""

from typing import Any

import pytest
from django.contrib.auth.models import Group
from rest_framework.test import APIClient

from fleet.accounts.models import User
from fleet.commands.models import Command
from tests.fleet.api.conftest import caller
from tests.fleet.rows import node, person, token

pytestmark = pytest.mark.django_db
PAUSE = {"what": "pause_profiling", "seconds": 600, "reason": "Nsight"}


def operator() -> User:
    """Somebody of that group."""
    user = person("olga")
    user.groups.add(Group.objects.get(name="operator"))
    return user


@pytest.fixture
def olga() -> APIClient:
    """An operator's token that may write."""
    return caller(token(operator(), write=True))


def path(of: int, command: int | None = None) -> str:
    """Where commands are asked for."""
    return f"/api/v1/nodes/{of}/commands/" + ("" if command is None else f"{command}/")


def problem(answer: Any) -> dict[str, Any]:
    """The problem document of an answer."""
    assert answer["Content-Type"] == "application/problem+json"
    said: dict[str, Any] = answer.json()
    assert said["status"] == answer.status_code
    assert said["type"] == "about:blank"
    assert said["title"]
    return said


def test_an_operator_asks_and_reads_what_came_of_it(olga: APIClient, bob: APIClient) -> None:
    """Everyone who is known may read."""
    home = node()
    asked = olga.post(path(home.pk), PAUSE, format="json")
    one = bob.get(path(home.pk, asked.json()["id"])).json()
    listed = bob.get(path(home.pk)).json()

    assert asked.status_code == 201
    assert one == asked.json() == listed["results"][0]
    assert (one["node_name"], one["what"], one["seconds"], one["state"]) == ("n1", "pause_profiling", 600, "waiting")
    assert (one["asked_by_name"], one["reason"]) == ("olga", "Nsight")
    assert bob.get(path(node("n2").pk)).json()["results"] == []
    assert bob.get(path(home.pk) + "?state=done&state=refused").json()["results"] == []


def test_who_may_not_ask_is_told_what_it_takes(bob: APIClient, stranger: APIClient) -> None:
    """A reader's token, an operator's token that may only read, and nobody's."""
    home = node()
    reads = caller(token(operator()))

    assert "--write" in problem(bob.post(path(home.pk), PAUSE, format="json"))["detail"]
    assert "--write" in problem(reads.post(path(home.pk), PAUSE, format="json"))["detail"]
    assert problem(stranger.post(path(home.pk), PAUSE, format="json"))["status"] == 401
    assert not Command.objects.exists()


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"what": "reboot"}, "what"),
        ({"seconds": 0}, "seconds"),
        ({"seconds": 86_401}, "seconds"),
        ({"what": "resume_profiling"}, "seconds"),
        ({"reason": ""}, "reason"),
        ({"reason": "a\x00b"}, "reason"),
        ({"reason": "a\nb"}, "reason"),
        ({"reason": "a\x1b[2J"}, "reason"),
        ({"reason": "x" * 301}, "reason"),
    ],
)
def test_what_does_not_fit_is_named(olga: APIClient, wrong: dict[str, Any], where: str) -> None:
    """By parameter."""
    said = problem(olga.post(path(node().pk), PAUSE | wrong, format="json"))

    assert said["status"] == 400
    assert list(said["errors"]) == [where]


def test_a_time_must_be_given_for_what_lasts(olga: APIClient) -> None:
    """There is no default for how long a node goes unread."""
    said = problem(olga.post(path(node().pk), {"what": "release_driver", "reason": "x"}, format="json"))

    assert said["errors"] == {"seconds": ["Say for how many seconds."]}


def test_a_second_command_of_a_kind_is_a_conflict_and_a_missing_node_is_missing(olga: APIClient) -> None:
    """With sentences."""
    home = node()
    olga.post(path(home.pk), PAUSE, format="json")

    assert problem(olga.post(path(home.pk), PAUSE, format="json"))["detail"].startswith("A command of this kind is under way")
    assert problem(olga.post(path(404), PAUSE, format="json"))["status"] == 404
    assert problem(olga.get(path(404)))["status"] == 404
    assert problem(olga.get(path(home.pk) + "?colour=red"))["status"] == 400


def test_rows_are_not_changed_over_the_api(olga: APIClient) -> None:
    """Neither replaced nor deleted."""
    home = node()
    number = olga.post(path(home.pk), PAUSE, format="json").json()["id"]

    assert olga.delete(path(home.pk, number)).status_code == 405
    assert olga.patch(path(home.pk, number), {"state": "done"}, format="json").status_code == 405


@pytest.mark.parametrize(("body", "status"), [("x" * 3_000_000, 413), ("{", 400), ("[" * 100_000, 400), ("3", 400), ("", 400)])
def test_a_body_that_cannot_be_read_is_a_problem_without_a_traceback(
    olga: APIClient, caplog: pytest.LogCaptureFixture, body: str, status: int
) -> None:
    """Too large, no JSON, too deep, no text: the answer is a document like any other, and the log holds no stack."""
    answer = olga.generic("POST", path(node().pk), body, content_type="application/json")

    assert problem(answer)["status"] == status
    assert [record for record in caplog.records if record.exc_info] == []
