"""`/api/v1/annotations/`: who may write, what is kept, what is refused and why."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone
from rest_framework.test import APIClient

from fleet.accounts.models import User
from fleet.annotations import telling
from fleet.annotations.models import Annotation
from tests.fleet.api.conftest import caller
from tests.fleet.rows import person, token

pytestmark = pytest.mark.django_db
PATH = "/api/v1/annotations/"
ONE: dict[str, Any] = {"scope": "job", "target": "n1/ann/train.py", "key": "job_kind", "value": "train"}


def operator() -> User:
    """Somebody of that group."""
    user = person("olga")
    user.groups.add(Group.objects.get(name="operator"))
    return user


@pytest.fixture
def olga() -> APIClient:
    """An operator's token that may write."""
    return caller(token(operator(), write=True))


def errors(answer: Any) -> dict[str, list[str]]:
    """What did not fit, by parameter."""
    assert answer.status_code == 400, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    found: dict[str, list[str]] = answer.json()["errors"]
    return found


def test_an_operator_tells_and_everybody_reads(olga: APIClient, bob: APIClient) -> None:
    """The answer is the row, with who told it."""
    told = olga.post(PATH, ONE, format="json")
    listed = bob.get(PATH + "?scope=job&key=job_kind&current=true").json()["results"]

    assert told.status_code == 201
    assert told.json() == listed
    assert {name: listed[0][name] for name in ONE} == ONE
    assert (listed[0]["by_name"], listed[0]["until"]) == ("olga", None)
    assert bob.get(f"{PATH}{listed[0]['id']}/").json() == listed[0]


def test_telling_again_replaces(olga: APIClient) -> None:
    """One row for a scope, target and key, of whatever kind its value was."""
    first = olga.post(PATH, ONE, format="json")
    again = olga.post(PATH, ONE | {"value": "eval"}, format="json")

    assert (first.status_code, again.status_code) == (201, 200)
    assert list(Annotation.objects.values_list("value", flat=True)) == ["eval"]


def test_a_list_is_kept_whole_or_not_at_all(olga: APIClient) -> None:
    """What does not fit is named by its place."""
    good = olga.post(PATH, [ONE, {"scope": "node", "target": "n*", "key": "expected_gpus", "value": 8}], format="json")
    bad = olga.post(PATH, [ONE | {"target": "n1/ann/other.py"}, ONE | {"value": "drive"}], format="json")

    assert good.status_code == 201
    assert errors(bad) == {"1.value": ["job_kind takes one of: train, eval, infer, serve, interactive, build, other."]}
    assert set(Annotation.objects.values_list("target", flat=True)) == {"n1/ann/train.py", "n*"}


def test_two_values_for_one_key_of_one_target_in_a_list_are_refused(olga: APIClient) -> None:
    """Which of the two was meant nobody can say: the second is named with the place of the first, and nothing is kept."""
    told = olga.post(PATH, [ONE, ONE | {"target": "n1/ann/other.py"}, ONE | {"value": "eval"}], format="json")

    says = "job_kind of n1/ann/train.py is told at place 0 of the list already; tell it once."
    assert errors(told) == {"2.key": [says]}
    assert not Annotation.objects.exists()


def test_it_is_deleted_by_its_id(olga: APIClient, bob: APIClient) -> None:
    """By who may write."""
    number = olga.post(PATH, ONE, format="json").json()[0]["id"]

    assert bob.delete(f"{PATH}{number}/").status_code == 403
    assert olga.delete(f"{PATH}{number}/").status_code == 204
    assert olga.delete(f"{PATH}{number}/").status_code == 404


def test_who_may_not_write_is_told_what_it_takes(bob: APIClient, stranger: APIClient) -> None:
    """A viewer with a token that may write, an operator's token that may only read, and nobody."""
    viewer = person("vera")
    viewer.groups.add(Group.objects.get(name="viewer"))

    assert "--write" in bob.post(PATH, ONE, format="json").json()["detail"]
    assert caller(token(viewer, write=True)).post(PATH, ONE, format="json").status_code == 403
    assert caller(token(operator())).post(PATH, ONE, format="json").status_code == 403
    assert stranger.post(PATH, ONE, format="json").status_code == 401
    assert stranger.get(PATH).status_code == 401
    assert not Annotation.objects.exists()


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"scope": "rack"}, "scope"),
        ({"scope": "node"}, "scope"),
        ({"scope": "fleet", "key": "energy_policy", "value": True}, "target"),
        ({"key": "secret"}, "key"),
        ({"target": ""}, "target"),
        ({"target": "x" * 301}, "target"),
        ({"target": "a\x1b[2J"}, "target"),
        ({"target": "a\nb"}, "target"),
        ({"value": None}, "value"),
        ({"value": {"a": 1}}, "value"),
        ({"value": [1]}, "value"),
        ({"value": True}, "value"),
        ({"key": "exit_code", "value": 1e9}, "value"),
        ({"key": "image", "value": "x" * 201}, "value"),
        ({"key": "image", "value": "a\x00b"}, "value"),
        ({"key": "image", "value": "\u202eabc"}, "value"),
        ({"at": "tomorrow"}, "at"),
        ({"at": "2099-01-01T00:00:00Z"}, "at"),
        ({"at": "0001-01-01T00:00:00Z"}, "at"),
        ({"until": "9999-12-31T23:59:59-12:00"}, "until"),
        ({"until": "2026-01-01T00:00:00Z"}, "until"),
        ({"key": "exit_code", "value": 1.5}, "value"),
        ({"scope": "node", "target": "n1", "key": "expected_gpus", "value": 7.5}, "value"),
        ({"target": "train"}, "target"),
        ({"target": "n1/ann"}, "target"),
        ({"target": "/ann/train.py"}, "target"),
        ({"target": "n1//train.py"}, "target"),
        ({"target": "n1/ann/"}, "target"),
        ({"target": "n1\\ann\\train.py"}, "target"),
        ({"scope": "node", "target": "n1/ann/train.py", "key": "maintenance", "value": True}, "target"),
        ({"scope": "node", "target": "n1/*", "key": "maintenance", "value": True}, "target"),
        ({"colour": "red"}, "colour"),
        ({"until_when": "2099-01-01T00:00:00Z"}, "until_when"),
    ],
)
def test_what_does_not_fit_is_named(olga: APIClient, wrong: dict[str, Any], where: str) -> None:
    """By parameter; nothing is kept."""
    assert list(errors(olga.post(PATH, ONE | wrong, format="json"))) == [where]
    assert not Annotation.objects.exists()


@pytest.mark.parametrize("body", ["[]", "3", '"x"', "[3]", "[[]]", "null", "{}"])
def test_a_body_of_another_shape_is_refused(olga: APIClient, body: str) -> None:
    """With a problem document."""
    answer = olga.generic("POST", PATH, body, content_type="application/json")

    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"


def test_numbers_that_json_has_not_are_refused(olga: APIClient) -> None:
    """Python's parser would take them."""
    body = '{"scope": "service", "target": "*", "key": "canary_share", "value": NaN}'

    assert olga.generic("POST", PATH, body, content_type="application/json").status_code == 400


def test_too_many_at_once_are_refused(olga: APIClient) -> None:
    """The request says how many it may have."""
    many = [ONE | {"target": str(number)} for number in range(501)]

    assert errors(olga.post(PATH, many, format="json")) == {"body": ["Send 1 to 500 annotations."]}


def test_a_full_site_is_a_conflict_and_keeps_what_it_has(olga: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows, and of patterns; replacing goes on."""
    monkeypatch.setattr(telling, "MAX_ROWS", 2)
    monkeypatch.setattr(telling, "MAX_PATTERNS", 1)
    olga.post(PATH, ONE | {"target": "*"}, format="json")
    pattern = olga.post(PATH, ONE | {"target": "n*"}, format="json")
    olga.post(PATH, ONE, format="json")
    row = olga.post(PATH, ONE | {"target": "n1/ann/third.py"}, format="json")

    assert (pattern.status_code, row.status_code) == (409, 409)
    assert "patterns" in pattern.json()["detail"]
    assert olga.post(PATH, ONE | {"value": "eval"}, format="json").status_code == 200
    assert set(Annotation.objects.values_list("target", flat=True)) == {"*", ONE["target"]}


def test_what_counts_no_more_can_be_asked_for(olga: APIClient) -> None:
    """`current` splits them, and what is no parameter is refused."""
    old = "n1/ann/old.py"
    olga.post(PATH, [ONE, ONE | {"target": old}], format="json")
    Annotation.objects.filter(target=old).update(until=timezone.now() - timedelta(hours=1))

    assert [one["target"] for one in olga.get(PATH + "?current=false").json()["results"]] == [old]
    assert [one["target"] for one in olga.get(PATH + "?current=true").json()["results"]] == [ONE["target"]]
    assert olga.get(PATH + "?colour=red").status_code == 400


def test_one_that_would_have_ended_already_leaves_the_present_one(olga: APIClient) -> None:
    """Whoever meant to end it is told how; a span that ends before it begins is refused too."""
    ends = (timezone.now() - timedelta(seconds=1)).isoformat()
    olga.post(PATH, ONE, format="json")
    said = errors(olga.post(PATH, ONE | {"value": "eval", "until": ends}, format="json"))
    span = {
        "at": (timezone.now() + timedelta(minutes=4)).isoformat(),
        "until": (timezone.now() + timedelta(minutes=2)).isoformat(),
    }

    assert "to end one that counts, delete it" in said["until"][0]
    assert "until must lie after at" in errors(olga.post(PATH, ONE | span, format="json"))["until"][0]
    assert list(Annotation.objects.values_list("value", flat=True)) == ["train"]


@pytest.mark.parametrize(
    ("target", "more"),
    [
        ("n1/ann/python -m train/run.py", {}),
        ("*", {}),
        ("*/ann/*", {}),
        ("n?", {"scope": "node", "key": "maintenance", "value": True}),
        ("gpu-12.example.org", {"scope": "node", "key": "maintenance", "value": True}),
        ("meta-llama/Llama-3.1-8B", {"scope": "service", "key": "precision", "value": "fp8"}),
        ("n1/http://127.0.0.1:8000", {"scope": "service", "key": "precision", "value": "fp8"}),
        ("n1/ann/train.py", {"key": "exit_code", "value": -9.0}),
    ],
)
def test_targets_of_every_shape_that_one_can_have_are_taken(olga: APIClient, target: str, more: dict[str, Any]) -> None:
    """Programs may have slashes and spaces, a service may be the name of a model; a whole number may be written as 9.0."""
    assert olga.post(PATH, ONE | {"target": target} | more, format="json").status_code == 201
