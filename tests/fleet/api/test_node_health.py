"""`/nodes/{id}/health/`, `/gpus/{id}/health/`, `/health/` and `/placements/`, as schedulers read them."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from fleet.accounts.models import ApiToken, User
from fleet.findings.lifecycle import Place, report
from fleet.inventory.models import Gpu
from fleet.jobs.holdings import Given
from fleet.jobs.telling import Told, tell
from tests.fleet.api.conftest import caller
from tests.fleet.rows import found, gpu, node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
GOOD = "2026-11-01T12:00:00Z"


@pytest.fixture
def cards() -> list[Gpu]:
    """Two GPUs of a node that reports."""
    n1 = node("n1")
    return [gpu(n1, index) for index in range(2)]


def sick(card: Gpu) -> int:
    """Its rows cannot be remapped any more."""
    return report(timezone.now(), found(str(card.pk), "row-remap-failed", "critical"), Place(card.node_id, (card.pk,))).pk


def test_a_nodes_health_is_one_word_with_reasons(bob: APIClient, cards: list[Gpu]) -> None:
    """By id and by name, with its GPUs and the finding behind each reason."""
    finding = sick(cards[1])
    answer = bob.get("/api/v1/nodes/n1/health/").json()

    assert (answer["node"], answer["name"], answer["state"]) == (cards[0].node_id, "n1", "drain")
    assert answer["age_s"] < 30
    (reason,) = answer["reasons"]
    assert (reason["rule"], reason["finding"], reason["event"], reason["since"]) == (
        "row-remap-failed",
        finding,
        None,
        answer["since"],
    )
    assert reason["text"].startswith("GPU 1: ")
    assert [(one["index"], one["state"]) for one in answer["gpus"]] == [(0, "usable"), (1, "drain")]
    by_id = bob.get(f"/api/v1/nodes/{cards[0].node_id}/health/").json()
    assert (by_id["state"], by_id["reasons"]) == (answer["state"], answer["reasons"])


def test_a_gpus_health_is_its_own(bob: APIClient, cards: list[Gpu]) -> None:
    """By id and by UUID."""
    sick(cards[1])
    for one, state in zip(cards, ("usable", "drain"), strict=True):
        for name in (one.pk, one.uuid):
            answer = bob.get(f"/api/v1/gpus/{name}/health/").json()
            assert (answer["gpu"], answer["node_name"], answer["state"]) == (one.pk, "n1", state)


@pytest.mark.parametrize("path", ["nodes/n2/health/", "nodes/99999/health/", "gpus/GPU-x/health/", "gpus/99999/health/"])
def test_what_nobody_told_of_is_not_found(bob: APIClient, path: str) -> None:
    """A problem document with a sentence."""
    answer = bob.get(f"/api/v1/{path}")
    assert answer.status_code == 404
    assert answer["Content-Type"] == "application/problem+json"


def test_of_clones_that_share_a_uuid_the_one_that_reports_is_meant(bob: APIClient) -> None:
    """Not one that was enrolled and never sent a reading."""
    silent, heard = gpu(node("never", last_seen_at=None), uuid="GPU-a"), gpu(node("heard"), uuid="GPU-a")
    answer = bob.get("/api/v1/gpus/GPU-a/health/").json()

    assert silent.uuid == heard.uuid
    assert (answer["gpu"], answer["state"]) == (heard.pk, "usable")


def test_many_nodes_are_asked_for_by_a_schedulers_list(bob: APIClient, cards: list[Gpu]) -> None:
    """One that no agent told of is unknown, and not left out; pages hold the order of the list."""
    node("n3", last_seen_at=timezone.now() - timedelta(minutes=5))
    sick(cards[0])
    answer = bob.get("/api/v1/health/?nodes=n[1-3],n1.site").json()

    assert [(one["name"], one["node"] is None, one["state"]) for one in answer["results"]] == [
        ("n1", False, "drain"), ("n2", True, "unknown"), ("n3", False, "unknown"), ("n1", False, "drain"),
    ]  # fmt: skip
    assert [one["name"] for one in bob.get("/api/v1/health/").json()["results"]] == ["n1", "n3"]
    page = bob.get("/api/v1/health/?nodes=n[1-3]&page_size=2&page=2").json()
    assert (page["count"], [one["name"] for one in page["results"]]) == (3, ["n3"])


def test_a_clusters_nodes_are_those_its_jobs_used(bob: APIClient, cards: list[Gpu]) -> None:
    """A site may have several clusters."""
    node("n2")
    tell(
        [
            Told(
                cluster="west", job_id="1", started_at=timezone.now(), allocations=[Given(node="n1", devices=["0"], shared=False)]
            )
        ],
        timezone.now(),
    )

    assert [one["name"] for one in bob.get("/api/v1/health/?cluster=west").json()["results"]] == ["n1"]
    assert [one["name"] for one in bob.get("/api/v1/health/?cluster=west&nodes=n[1-2]").json()["results"]] == ["n1"]
    assert bob.get("/api/v1/health/?cluster=east").json()["results"] == []


@pytest.mark.parametrize("query", ["nodes=n[1-", "nodes=", "cluster=", "node=n1", "page=0", "page_size=0"])
def test_a_query_that_does_not_fit_is_refused(bob: APIClient, query: str) -> None:
    """A scheduler that mistypes must not read the whole fleet as healthy."""
    assert bob.get(f"/api/v1/health/?{query}").status_code == 400


def test_health_has_an_etag_that_changes_with_the_state_alone(bob: APIClient, cards: list[Gpu]) -> None:
    """Its age grows all the time; who asks each second gets 304 meanwhile."""
    path = "/api/v1/nodes/n1/health/"
    seen = bob.get(path)["ETag"]
    assert bob.get(path, HTTP_IF_NONE_MATCH=seen).status_code == 304
    sick(cards[0])
    assert bob.get(path, HTTP_IF_NONE_MATCH=seen).status_code == 200


def test_a_node_that_falls_silent_is_unknown_to_who_has_the_last_answer(bob: APIClient, cards: list[Gpu]) -> None:
    """304 never says that what was well is well."""
    path = "/api/v1/nodes/n1/health/"
    seen = bob.get(path)
    cards[0].node.last_seen_at = timezone.now() - timedelta(minutes=1)
    cards[0].node.save()
    later = bob.get(path, HTTP_IF_NONE_MATCH=seen["ETag"])

    assert (seen.json()["state"], later.status_code, later.json()["state"]) == ("usable", 200, "unknown")


@pytest.mark.parametrize("scope", ["jobs", "health", "read"])
def test_whoever_places_jobs_reads_health_and_placements(scope: str, cards: list[Gpu]) -> None:
    """A token that tells of jobs needs no other one."""
    user = User.objects.create_user("slurm")
    client = caller(ApiToken.issue(user=user, name="slurm", scopes=[scope])[1])
    paths = ("nodes/n1/health/", f"gpus/{cards[0].pk}/health/", "health/", "placements/")

    assert [client.get(f"/api/v1/{path}").status_code for path in paths] == [200] * 4
    assert client.get("/api/v1/nodes/").status_code == (200 if scope == "read" else 403)


def test_placements_are_ranked_nodes_with_reasons(bob: APIClient, cards: list[Gpu]) -> None:
    """And each reason for which nodes were left out, in words."""
    node("n2", last_seen_at=timezone.now() - timedelta(minutes=5))
    answer: dict[str, Any] = bob.get("/api/v1/placements/?gpus=2&model=H200").json()

    (place,) = answer["places"]
    assert (place["node_name"], place["state"], place["free_total"], place["power_headroom_w"]) == ("n1", "usable", 2, None)
    assert [one["uuid"] for one in place["gpus"]] == [card.uuid for card in cards]
    assert place["reasons"][0] == "2 of its 2 GPUs of this model are free."
    assert [(one["why"], one["nodes_total"], one["nodes"]) for one in answer["left_out"]] == [("model", 1, ["n2"])]
    assert answer["left_out"][0]["text"].endswith(".")


@pytest.mark.parametrize(
    "query", ["gpus=0", "gpus=x", "gpus=1025", "healthy=maybe", "power_headroom_w=-1", "power_headroom_w=nan", "limit=101", "model=%00", "gpu=8", "gpus=1&gpus=2"],
)  # fmt: skip
def test_needs_that_do_not_fit_are_refused(bob: APIClient, query: str) -> None:
    """By name."""
    answer = bob.get(f"/api/v1/placements/?{query}")
    assert answer.status_code == 400
    assert query.partition("=")[0] in answer.json()["errors"]
