"""/api/v1/nodes/"""

import time
from datetime import timedelta

import polars as pl
import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from fleet.api.views import NodeViewSet
from fleet.findings.lifecycle import Place, report
from fleet.inventory.models import Engine, Node, Process
from fleet.store.series import store
from tests.fleet.rows import found, gpu, node

pytestmark = pytest.mark.django_db
LONG_AGO = timezone.now() - timedelta(minutes=5)


def test_it_lists_nodes_by_name_with_their_counts(bob: APIClient) -> None:
    """GPUs that are there and findings that fire are counted, each once."""
    second, first = node("n2"), node("n1")
    cards = [gpu(second, 0), gpu(second, 1), gpu(second, 2, present=False)]
    for rule in ("a-rule", "b-rule"):
        report(timezone.now(), found(rule=rule), Place(second.pk, (cards[0].pk,)))
    answer = bob.get("/api/v1/nodes/").json()

    assert [(row["name"], row["gpus_total"], row["findings_open"]) for row in answer["results"]] == [("n1", 0, 0), ("n2", 2, 2)]
    assert answer["results"][0]["id"] == first.pk


@pytest.mark.parametrize(("seen", "state"), [(timezone.now(), "ok"), (LONG_AGO, "stale"), (None, "unknown")])
def test_it_says_whether_a_node_still_reports(bob: APIClient, seen: object, state: str) -> None:
    """Neither healthy nor idle can be said of one that does not."""
    node("n1", last_seen_at=seen and (timezone.now() if state == "ok" else seen))

    assert bob.get("/api/v1/nodes/").json()["results"][0]["state"] == state
    for asked in ("ok", "stale", "unknown"):
        assert bob.get(f"/api/v1/nodes/?state={asked}").json()["count"] == int(asked == state)


def test_recordings_can_be_told_from_machines(bob: APIClient) -> None:
    """The field names the recording, and the filter keeps either kind."""
    node("n1")
    node("n2", recording="fp32_train")

    assert [row["name"] for row in bob.get("/api/v1/nodes/?is_recording=true").json()["results"]] == ["n2"]
    assert [row["name"] for row in bob.get("/api/v1/nodes/?is_recording=false").json()["results"]] == ["n1"]
    assert bob.get("/api/v1/nodes/?name=n2").json()["results"][0]["recording"] == "fp32_train"


def test_one_node_can_be_asked_for(bob: APIClient) -> None:
    """By its id; an unknown one is 404."""
    one = node("n1", cores=32)

    assert bob.get(f"/api/v1/nodes/{one.pk}/").json()["cores"] == 32
    assert bob.get("/api/v1/nodes/999/").status_code == 404


def test_pages_can_be_sized(bob: APIClient) -> None:
    """In a stable order, without gaps or repeats."""
    for number in range(5):
        node(f"n{number}")
    names = [row["name"] for page in (1, 2, 3) for row in bob.get(f"/api/v1/nodes/?page_size=2&page={page}").json()["results"]]

    assert names == [f"n{number}" for number in range(5)]
    assert bob.get("/api/v1/nodes/?page=99").status_code == 404


@pytest.mark.parametrize("query", ["state=lost", "state=%00"])
def test_a_filter_that_makes_no_sense_is_bad_input(bob: APIClient, query: str) -> None:
    """400 with the parameter's name."""
    answer = bob.get(f"/api/v1/nodes/?{query}")

    assert answer.status_code == 400
    assert "state" in answer.json()["errors"]


def test_the_number_of_queries_does_not_grow(bob: APIClient, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Token, count, page."""
    bob.get("/api/v1/nodes/")
    for number in range(20):
        gpu(node(f"n{number}"))

    with django_assert_num_queries(4):
        assert len(bob.get("/api/v1/nodes/").json()["results"]) == 20


def test_gpus_and_findings_are_counted_apart() -> None:
    """One join of both makes 8 x 100 rows of a node with 8 GPUs and 100 findings."""
    assert " JOIN " not in str(NodeViewSet.queryset.query)


def engine(of: Node, name: str, seen: float = 0, **more: object) -> Engine:
    """A serving engine of the node, seen so many seconds ago."""
    at = timezone.now() - timedelta(seconds=seen)
    words: dict[str, object] = {"kind": "vllm", "model": "Qwen3-8B", "pid": 4711, **more}
    return Engine.objects.create(node=of, name=name, first_seen_at=at, last_seen_at=at, **words)


@pytest.mark.usefixtures("memory_store")
def test_one_node_tells_of_its_engines(bob: APIClient) -> None:
    """With their newest readings, null where one does not say; none is zero. An engine of last week is no part of it."""
    home = node("n1")
    old = engine(home, "http://h:9", seen=7 * 86_400)
    told, silent = engine(home, "http://h:1"), engine(home, "http://h:2", seen=600)
    now = int(time.time())
    rows = {"entity": [told.pk, old.pk], "ts": [now, now - 300], "requests_running": [3, 1], "kv_cache_used": [0.25, 0.5]}
    store().write("engine", pl.DataFrame(rows))
    first, second = bob.get(f"/api/v1/nodes/{home.pk}/").json()["engines"]

    assert {key: first[key] for key in ("id", "name", "kind", "model", "pid")} == {
        "id": told.pk, "name": "http://h:1", "kind": "vllm", "model": "Qwen3-8B", "pid": 4711,
    }  # fmt: skip
    assert first["latest"]["ts"] == now
    values = first["latest"]["values"]
    assert (values["requests_running"], values["kv_cache_used"], values["requests_waiting"]) == (3, 0.25, None)
    assert (second["id"], second["latest"]) == (silent.pk, None)


@pytest.mark.usefixtures("memory_store")
def test_one_node_tells_what_its_processes_are_called(bob: APIClient) -> None:
    """Those that are there, each pid once: not the one that had the pid before, and not those that ended."""
    home = node("n1")
    for pid, job, seen in ((7, "old", 90), (7, "new", 0), (8, "over", 600)):
        at = timezone.now() - timedelta(seconds=seen)
        times = {"told_at": at, "first_seen_at": at, "last_seen_at": at}
        Process.objects.create(node=home, pid=pid, name="python", labels={"slurm_job": job}, **times)
    (process,) = bob.get(f"/api/v1/nodes/{home.pk}/").json()["processes"]

    assert (process["pid"], process["name"], process["labels"]) == (7, "python", {"slurm_job": "new"})


@pytest.mark.usefixtures("memory_store")
def test_one_node_costs_the_same_for_any_number_of_engines(
    bob: APIClient, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """Token, node, engines, processes, and whose clock is off."""
    home = node("n1")
    bob.get("/api/v1/nodes/")
    for number in range(20):
        engine(home, f"http://h:{number}")

    with django_assert_num_queries(6):
        assert len(bob.get(f"/api/v1/nodes/{home.pk}/").json()["engines"]) == 20


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_nodes_cannot_be_written(alice: APIClient, method: str) -> None:
    """They come from agents."""
    assert getattr(alice, method)("/api/v1/nodes/", {}, format="json").status_code == 405


def test_a_node_tells_what_it_is_and_why_a_fact_is_missing(bob: APIClient) -> None:
    """Short facts stand in the list too; an engine without values says why."""
    one = node("n1", cpu_governor="powersave", nvidia_module_version="580.159.04", numa_distances={"0": [10, 21]},
               nvidia_parameters={"EnableMSI": "1"}, facts_absent={"mem_total_bytes": "not_permitted"})  # fmt: skip
    now = timezone.now()
    Engine.objects.create(node=one, name="http://h", kind="vllm", why_silent="timeout", first_seen_at=now, last_seen_at=now)
    listed = bob.get("/api/v1/nodes/").json()["results"][0]
    detail = bob.get(f"/api/v1/nodes/{one.pk}/").json()

    assert (listed["cpu_governor"], listed["nvidia_module_version"]) == ("powersave", "580.159.04")
    assert detail["numa_distances"] == {"0": [10, 21]}
    assert detail["nvidia_parameters"] == {"EnableMSI": "1"}
    assert detail["facts_absent"] == {"mem_total_bytes": "not_permitted"}
    assert (detail["engines"][0]["why_silent"], detail["engines"][0]["absent"]) == ("timeout", {})
