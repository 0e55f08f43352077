"""`/api/v1/jobs/`: who may tell, what is kept, what is refused and why."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone
from django.utils.functional import Promise
from rest_framework.test import APIClient

from fleet.accounts.models import User
from fleet.api import job_bodies
from fleet.findings.lifecycle import Place, report
from fleet.findings.models import Finding
from fleet.inventory.models import Gpu
from fleet.jobs.models import Allocation, Job, cluster_name, job_number
from tests.fleet.api.conftest import caller
from tests.fleet.rows import found, gpu, node, person, token

pytestmark = pytest.mark.django_db
PATH = "/api/v1/jobs/"
START = "2026-11-01T12:00:00Z"
KEY: dict[str, Any] = {"cluster": "west", "job_id": "4711", "started_at": START}
ONE: dict[str, Any] = KEY | {
    "source": "slurm", "state": "running", "name": "train", "user": "ada", "account": "lab", "partition": "gpu", "gpus_total": 2,
    "array_job_id": "4700", "restarts": 1, "labels": {"team": "vision"},
    "allocations": [{"node": "n1", "devices": "gpu:h200:2(IDX:0-1)"}],
}  # fmt: skip


def operator() -> User:
    """Somebody of that group."""
    user = person("olga")
    user.groups.add(Group.objects.get(name="operator"))
    return user


@pytest.fixture
def olga() -> APIClient:
    """An operator's token that may write."""
    return caller(token(operator(), write=True))


def errors(answer: Any) -> dict[str, Any]:
    """What did not fit, by field."""
    assert answer.status_code == 400, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()["errors"]
    return found


def test_a_start_is_kept_and_shown_as_it_was_told(olga: APIClient, bob: APIClient) -> None:
    """The answer is the run with its devices, found on the node; everybody who is known may read it."""
    n1 = node("n1")
    cards = [gpu(n1, index) for index in range(2)]
    told = olga.post(PATH, ONE, format="json")
    (job,) = told.json()

    assert told.status_code == 201
    assert {name: job[name] for name in ONE} == ONE | {"allocations": job["allocations"]}
    assert (job["target"], job["family"], job["ended_at"], job["exit_code"]) == ("west/4711", "west/ada/train", None, None)
    assert [(one["gpu"], one["device"], one["gpu_uuid"], one["from_at"], one["until_at"]) for one in job["allocations"]] == [
        (card.pk, str(card.index), card.uuid, START, None) for card in cards
    ]
    of_the_request = {"url": f"{PATH}{job['id']}/", "created": True, "warnings": []}
    assert {name: job.pop(name) for name in of_the_request} == of_the_request
    assert bob.get(PATH).json()["results"] == [job]
    assert bob.get(f"{PATH}{job['id']}/").json() == job


def test_told_again_nothing_changes_not_even_the_etag(olga: APIClient) -> None:
    """A reader that has the last answer gets 304 until something happens."""
    first = olga.post(PATH, ONE, format="json")
    path = f"{PATH}{first.json()[0]['id']}/"
    seen = olga.get(path)
    again = olga.post(PATH, ONE, format="json")

    assert (first.status_code, again.status_code) == (201, 200)
    assert first["ETag"] == again["ETag"]
    unchanged = olga.get(path, HTTP_IF_NONE_MATCH=seen["ETag"])
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    olga.post(PATH, KEY | {"state": "completed"}, format="json")
    changed = olga.get(path, HTTP_IF_NONE_MATCH=seen["ETag"])
    assert (changed.status_code, changed.json()["state"]) == (200, "completed")


def test_what_is_not_sent_stays(olga: APIClient) -> None:
    """An epilog tells no more than it knows."""
    olga.post(PATH, ONE, format="json")
    ended = olga.post(PATH, KEY | {"ended_at": 1793541600.5, "exit_code": 0}, format="json").json()[0]

    assert ended["ended_at"] == "2026-11-01T14:00:00.500000Z"
    assert (ended["state"], ended["name"], ended["labels"]) == ("completed", "train", {"team": "vision"})
    assert [one["until_at"] for one in ended["allocations"]] == ["2026-11-01T14:00:00.500000Z"] * 2


def test_a_form_says_as_much_as_a_script_knows(olga: APIClient) -> None:
    """`curl --data-urlencode` needs no quoting; what a shell variable leaves empty was not told."""
    form = {
        "cluster": "west", "job_id": "4711_3", "started_at": "1793534400", "name": 'train "a" & b=c %41 é', "user": "ada",
        "nodes": "gpu[01-02]", "devices": "0,1", "shared": "true", "exit_code": "", "account": "", "gpus_total": "4",
    }  # fmt: skip
    told = olga.post(PATH, urlencode(form), content_type="application/x-www-form-urlencoded")
    (job,) = told.json()

    assert told.status_code == 201
    assert (job["name"], job["gpus_total"], job["started_at"]) == (form["name"], 4, START)
    assert [(one["node_name"], one["device"], one["shared"], one["gpu"]) for one in job["allocations"]] == [
        (f"gpu0{n}", device, True, None) for n in (1, 2) for device in "01"
    ]
    twice = olga.post(PATH, "cluster=a&cluster=b&job_id=1", content_type="application/x-www-form-urlencoded")
    assert list(errors(twice)) == ["cluster"]


@pytest.mark.parametrize(
    ("body", "status"), [("a=%ff&job_id=1", 400), (b"cluster=\xff", 400), ("&".join(f"k{n}=1" for n in range(2000)), 413), ("x=" + "y" * 2_700_000, 413), ("", 400), ("job_id=1%00", 400)],
)  # fmt: skip
def test_a_form_that_cannot_be_read_is_refused(body: str | bytes, status: int, olga: APIClient) -> None:
    """As JSON is."""
    assert olga.generic("POST", PATH, body, content_type="application/x-www-form-urlencoded").status_code == status  # type: ignore[arg-type]


def test_many_are_told_at_once_all_or_none(olga: APIClient) -> None:
    """Answers come in the order sent; one that does not fit is named by its place, and none is kept."""
    many = [KEY | {"job_id": f"4711_{n}"} for n in range(3)]
    told = olga.post(PATH, many, format="json")
    assert [job["job_id"] for job in told.json()] == ["4711_0", "4711_1", "4711_2"]

    wrong = olga.post(PATH, [KEY | {"job_id": "9"}, KEY | {"job_id": "1/2"}], format="json")
    assert [name for name in errors(wrong) if name.startswith("1")]
    late = olga.post(PATH, [KEY | {"job_id": "9"}, {"cluster": "west", "job_id": "10", "state": "failed"}], format="json")
    assert late.status_code == 409
    assert "10" in late.json()["detail"]
    assert "started_at" in late.json()["detail"]
    assert Job.objects.count() == 3


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("job_id", {"job_id": "4711;rm"}),
        ("cluster", {"cluster": ""}),
        ("started_at", {"started_at": "2026-11-01T12:00:00"}),
        ("started_at", {"started_at": 0}),
        ("started_at", {"started_at": True}),
        ("started_at", {"started_at": "Unknown"}),
        ("started_at", {"started_at": 1e30}),
        ("started_at", {"started_at": "²"}),
        ("ended_at", {"ended_at": "2026-11-01T11:59:59Z"}),
        ("state", {"state": "running", "ended_at": "2026-11-01T13:00:00Z"}),
        ("state", {"state": "COMPLETING"}),
        ("source", {"source": "processes"}),
        ("exit_code", {"exit_code": "0:9"}),
        ("name", {"name": "a\nb"}),
        ("user", {"user": "u" * 101}),
        ("labels", {"labels": {str(n): "" for n in range(33)}}),
        ("labels", {"labels": {"a\x00": "b"}}),
        ("labels", {"labels": "team"}),
        ("nodes", {"devices": "0"}),
        ("nodes", {"nodes": "n[1-", "devices": "0"}),
        ("devices", {"nodes": "n1", "devices": "cuda:0"}),
        ("devices", {"nodes": "n1", "devices": {"0": 1}}),
        ("devices", {"nodes": "n1", "devices": [True]}),
        ("allocations", {"allocations": [{"devices": "0"}]}),
        ("allocations", {"allocations": [{"node": "n[1-2]", "devices": "0"}]}),
        ("allocations", {"allocations": [{"node": "n1", "gpus": "0"}]}),
        ("allocations", {"allocations": "n1"}),
        ("stat", {"stat": "running"}),
        ("ended_at", {"started_at": None, "started_about": START, "ended_at": "2026-11-01T11:59:59Z"}),
        ("gpus_total", {"gpus_total": 4, "nodes": "n[1-2]", "devices": "0-3"}),
        ("state", {"state": "pending", "nodes": "n1", "devices": "0"}),
        ("state", {"state": "pending", "allocations": [{"node": "n1", "devices": "0"}]}),
        ("body", []),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(name: str, more: Any, olga: APIClient) -> None:
    """A wrong field keeps the whole request out."""
    body = {key: value for key, value in (KEY | more).items() if value is not None} if isinstance(more, dict) else more
    refused = olga.post(PATH, body, format="json")

    assert [field.partition(".")[0] for field in errors(refused)] == [name]
    assert not Job.objects.exists()


@pytest.mark.parametrize("body", ["1", '"x"', "null", "[1]", "[[]]"])
def test_what_is_no_object_is_refused(body: str, olga: APIClient) -> None:
    """JSON of another kind is an answer 400, not a failure."""
    assert olga.post(PATH, body, content_type="application/json").status_code == 400


def test_a_request_holds_so_many_jobs_and_devices(olga: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short text can name thousands of devices."""
    assert list(errors(olga.post(PATH, [KEY] * 501, format="json"))) == ["body"]
    monkeypatch.setattr(job_bodies, "MOST_HELD", 63)
    most = KEY | {"nodes": "n[1-8]", "devices": "0-7"}
    assert "63" in errors(olga.post(PATH, most, format="json"))["body"][0]
    assert not Allocation.objects.exists()


def test_only_who_may_change_jobs_tells(olga: APIClient, bob: APIClient, stranger: APIClient) -> None:
    """Viewers read; a token without --write reads too."""
    reader = caller(token(User.objects.get(username="olga")))
    assert [who.post(PATH, ONE, format="json").status_code for who in (bob, reader, stranger)] == [403, 403, 401]
    assert [who.get(PATH).status_code for who in (bob, reader, stranger)] == [200, 200, 401]


def test_lists_are_narrowed(olga: APIClient) -> None:
    """By who, where, when and whether they go on."""
    card = gpu(node("n1"), 0)
    olga.post(
        PATH,
        [
            KEY | {"job_id": "1", "user": "ada", "name": "train", "nodes": "n1", "devices": "0", "source": "slurm"},
            KEY
            | {"job_id": "2", "user": "bob", "ended_at": "2026-11-01T13:00:00Z", "exit_code": 0, "nodes": "n2", "devices": "0"},
            KEY | {"cluster": "east", "job_id": "3", "started_at": "2026-11-02T12:00:00Z"},
        ],
        format="json",
    )
    wanted = {
        "": ["3", "2", "1"], "open=true": ["3", "1"], "open=false": ["2"], "state=running": ["3", "1"], "user=ada": ["1"],
        "state=running&state=completed": ["3", "2", "1"], "cluster=east": ["3"], "job_id=2": ["2"], "family=west/ada/train": ["1"],
        "source=slurm": ["1"], "node=n1": ["1"], "node=N1": ["1"], f"node={card.node_id}": ["1"], "node=n2": ["2"], f"gpu={card.pk}": ["1"],
        "since=2026-11-01T14:00:00Z": ["3", "1"], "until=2026-11-02T00:00:00Z": ["2", "1"],
        "since=2026-11-01T14:00:00Z&until=2026-11-02T00:00:00Z": ["1"],
    }  # fmt: skip
    found = {query: [job["job_id"] for job in olga.get(f"{PATH}?{query}").json()["results"]] for query in wanted}

    assert found == wanted
    assert olga.get(f"{PATH}?usr=ada").status_code == 400


def test_findings_of_a_run_are_those_of_the_job_and_of_its_gpus_while_it_ran(olga: APIClient, bob: APIClient) -> None:
    """Not those of another run of the same id, nor of other GPUs, nor of before and after."""
    n1 = node("n1")
    cards = [gpu(n1, index) for index in range(3)]
    olga.post(PATH, KEY | {"nodes": "n1", "devices": "0-1", "ended_at": "2026-11-01T14:00:00Z"}, format="json")
    run = Job.objects.get()
    at = run.started_at

    def opened(target: str, rule: str, scope: str, hours: float, gpus: tuple[int, ...] = ()) -> Finding:
        return report(at + timedelta(hours=hours), found(target, rule, scope=scope), Place(n1.pk, gpus))

    own = opened("west/4711", "low-mfu", "job", 0.5)
    card = opened(str(cards[1].pk), "power-cap-limited", "gpu", -1, (cards[1].pk,))
    opened("west/4711", "step-time-regression", "job", 2)
    opened("west/4712", "low-mfu", "job", 0.5)
    opened(str(cards[2].pk), "power-cap-limited", "gpu", 0.5, (cards[2].pk,))
    over = opened(str(cards[0].pk), "power-cap-limited", "gpu", -2, (cards[0].pk,))
    Finding.objects.filter(pk=over.pk).update(resolved_at=at - timedelta(hours=1))

    answer = bob.get(f"{PATH}{run.pk}/findings/")
    assert {one["id"] for one in answer.json()["results"]} == {own.pk, card.pk}
    assert bob.get(f"{PATH}{run.pk}/findings/?rule=x").status_code == 400
    assert bob.get(f"{PATH}{run.pk + 1}/findings/").status_code == 404


def test_a_job_on_more_gpus_than_sqlite_takes_by_name_is_answered(olga: APIClient) -> None:
    """1,100 GPUs, to who told and to who reads."""
    n1 = node("n1")
    Gpu.objects.bulk_create(Gpu(node=n1, uuid=f"GPU-{index}", index=index, model="NVIDIA H200") for index in range(1024))
    n2 = node("n2")
    Gpu.objects.bulk_create(Gpu(node=n2, uuid=f"GPU-{index}", index=index, model="NVIDIA H200") for index in range(76))
    told = olga.post(
        PATH, KEY | {"allocations": [{"node": "n1", "devices": "0-1023"}, {"node": "n2", "devices": "0-75"}]}, format="json"
    )
    (job,) = olga.get(PATH).json()["results"]

    assert told.status_code == 201
    for one in (told.json()[0], job):
        assert (one["held_total"], one["held_nodes_total"], one["held_unknown_total"], one["nodes_total"]) == (1100, 2, 0, 2)
        assert (one["allocations_total"], len(one["allocations"])) == (1100, 16)
    assert olga.get(job["allocations_url"], {"node": "N2", "page_size": "1000"}).json()["count"] == 76


def test_devices_of_played_gpus_are_found_by_their_uuids(olga: APIClient) -> None:
    """Recordings' GPUs have letters of their own."""
    card = gpu(node("n1"), 0, uuid="GPU-REPLAY-9f86d081884c7d65")
    (job,) = olga.post(PATH, KEY | {"nodes": "n1", "devices": card.uuid}, format="json").json()

    assert [(one["gpu"], one["device"]) for one in job["allocations"]] == [(card.pk, card.uuid)]


def test_a_start_about_then_is_told_by_nodes_that_do_not_know_it(olga: APIClient) -> None:
    """As a form; by its own answer the second node sees the first's start. Beside an exact start it says nothing."""
    body = {"cluster": "west", "job_id": "4711", "state": "running", "devices": "0"}
    first, second = (
        olga.post(PATH, urlencode(body | {"nodes": node, "started_about": at}), content_type="application/x-www-form-urlencoded")
        for node, at in (("n1", 1796067476), ("n2", 1796067478))
    )

    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json()[0]["started_at"] == first.json()[0]["started_at"]
    assert {one["node_name"] for one in second.json()[0]["allocations"]} == {"n1", "n2"}
    assert "started_about" in errors(olga.post(PATH, KEY | {"started_about": START}, format="json"))


@pytest.mark.parametrize("name", ["started_at", "started_about", "ended_at"])
def test_a_time_far_ahead_is_refused(name: str, olga: APIClient) -> None:
    """By this server's clock; a caller's may be ahead by a little."""
    olga.post(PATH, KEY, format="json")
    body = {"cluster": "west", "job_id": "4711"}

    ahead = olga.post(PATH, body | {name: (timezone.now() + timedelta(minutes=6)).isoformat()}, format="json")
    assert "5 minutes" in errors(ahead)[name][0]
    little = olga.post(PATH, body | {name: (timezone.now() + timedelta(minutes=4)).isoformat()}, format="json")
    assert little.status_code in (200, 201)


def test_a_pending_job_without_devices_is_kept(olga: APIClient) -> None:
    """It waits, and holds nothing."""
    told = olga.post(PATH, KEY | {"state": "pending", "allocations": [{"node": "n1", "devices": []}]}, format="json")

    assert (told.status_code, told.json()[0]["state"], told.json()[0]["allocations"]) == (201, "pending", [])


def test_why_a_name_is_refused_is_said_in_the_readers_language() -> None:
    """The validators' sentences are looked up when they are said."""
    assert isinstance(cluster_name.message, Promise)
    assert isinstance(job_number.message, Promise)


def test_tasks_of_an_array_are_listed_by_the_array_and_found_as_squeue_shows_them(olga: APIClient) -> None:
    """Slurm gives each a number of its own."""
    for number, task in (("4711", "4700_1"), ("4712", "4700_2")):
        olga.post(PATH, KEY | {"job_id": number, "array_job_id": "4700", "labels": {"slurm_id": task}}, format="json")
    olga.post(PATH, KEY | {"job_id": "4713"}, format="json")

    assert {one["job_id"] for one in olga.get(f"{PATH}?array_job_id=4700").json()["results"]} == {"4711", "4712"}
    assert [one["job_id"] for one in olga.get(f"{PATH}?job_id=4700_2").json()["results"]] == ["4712"]
