"""What a program learns of a job by telling of it: little, where it may not read."""

from typing import Any

import pytest
from django.contrib.auth.models import Group
from rest_framework.test import APIClient

from fleet.accounts.models import ApiToken, User
from tests.fleet.api.conftest import caller
from tests.fleet.rows import gpu, node, person, token

pytestmark = pytest.mark.django_db
PATH = "/api/v1/jobs/"
KEY: dict[str, Any] = {"cluster": "west", "job_id": "4711", "started_at": "2026-11-01T12:00:00Z"}
BRIEF = {"id", "cluster", "job_id", "started_at", "state", "url", "created", "warnings"}


@pytest.fixture
def olga(db: None) -> User:
    """An operator."""
    user = person("olga")
    user.groups.add(Group.objects.get(name="operator"))
    return user


def narrowed(user: User, *scopes: str) -> APIClient:
    """A program with a token of these scopes."""
    return caller(ApiToken.issue(user=user, name="test", scopes=list(scopes))[1])


def test_a_token_that_only_tells_reads_no_row_by_telling_it_again(olga: User) -> None:
    """Who told of the name, the user, the labels and the devices keeps them from who may not read."""
    whole = caller(token(olga, write=True))
    secret = {
        "name": "secret-project",
        "user": "ada",
        "account": "lab",
        "labels": {"team": "vision"},
        "nodes": "n1",
        "devices": "0-1",
    }
    (job,) = whole.post(PATH, KEY | secret, format="json").json()
    again = narrowed(olga, "jobs").post(PATH, KEY, format="json")

    assert again.status_code == 200
    assert again.json() == [
        KEY | {"id": job["id"], "state": "running", "url": f"{PATH}{job['id']}/", "created": False, "warnings": []}
    ]
    for word in (b"secret-project", b"ada", b"vision", b"lab", b"n1"):
        assert word not in again.content


@pytest.mark.parametrize("scopes", [("jobs", "read"), ()])
def test_who_may_read_gets_the_run_with_what_was_made_of_it(scopes: tuple[str, ...], olga: User) -> None:
    """As GET shows it."""
    client = narrowed(olga, *scopes) if scopes else caller(token(olga, write=True))
    (job,) = client.post(PATH, KEY | {"name": "train"}, format="json").json()

    assert {*job} > BRIEF
    assert client.get(job["url"]).json() == {
        name: value for name, value in job.items() if name not in ("url", "created", "warnings")
    }


def test_a_short_answer_says_what_is_new_in_the_order_sent(olga: User) -> None:
    """A reconciler tells many at once; the same told again has the same ETag."""
    client = narrowed(olga, "jobs")
    first = client.post(PATH, KEY, format="json")
    many = client.post(PATH, [KEY | {"job_id": "4712"}, KEY | {"state": "completed"}], format="json")
    again = client.post(PATH, [KEY | {"job_id": "4712"}, KEY], format="json")

    assert first.status_code == 201
    assert {frozenset(one) for one in many.json()} == {frozenset(BRIEF)}
    assert [(one["job_id"], one["created"], one["state"]) for one in many.json()] == [
        ("4712", True, "running"),
        ("4711", False, "completed"),
    ]
    assert (again.status_code, again["ETag"]) == (200, many["ETag"])


def test_a_prologs_form_is_answered_in_a_line(olga: User) -> None:
    """A script on a node reads no more."""
    node("n1")
    form = "cluster=west&job_id=4711&started_at=1793534400&nodes=n[1-4]&devices=0-7&gpus_total=32"
    answer = narrowed(olga, "jobs").post(PATH, form, content_type="application/x-www-form-urlencoded")

    assert answer.status_code == 201
    assert len(answer.content) < 500


def test_what_is_odd_about_the_devices_is_said(olga: User) -> None:
    """A device that its node does not list, a node that nobody knows, more devices than the job was given; none of them is refused."""
    n1 = node("n1")
    gpu(n1, 0)
    client = narrowed(olga, "jobs")
    held = [{"node": "n1", "devices": "0,9"}, {"nodes": "x[1-7]", "devices": "0"}]
    (first,) = client.post(PATH, KEY | {"gpus_total": 9, "allocations": held}, format="json").json()
    (more,) = client.post(PATH, KEY | {"nodes": "y1", "devices": "gpu:h200:1"}, format="json").json()
    (fits,) = client.post(PATH, KEY | {"job_id": "2", "nodes": "n1", "devices": "0", "gpus_total": 1}, format="json").json()

    assert first["warnings"] == [
        "No agent has told of these nodes: x1, x2, x3, x4, x5 and 2 more. Check their names.",
        "Its node lists no such device: n1 9. Check its name.",
    ]
    assert more["warnings"] == ["The job holds 10 devices, and gpus_total is 9: devices that it has no more, or another count."]
    assert fits["warnings"] == []
