"""`/api/v1/jobs/{id}/report/`: what it says, in which language, and its ETag."""

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from tests.fleet.reports.played import cards, job, play
from tests.fleet.rows import NOON, event

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]


def path(pk: int) -> str:
    """The address of a report."""
    return f"/api/v1/jobs/{pk}/report/"


def test_a_report_says_what_was_measured_and_why_the_rest_is_absent(bob: APIClient, settings: Settings) -> None:
    """Figures with their units, the timeline with its labels, events in a line."""
    settings.FETTLE_GPU_HOUR_PRICE = 3.0
    gpus = cards()
    play("fp32_train", gpus)
    event(gpus[0], 31, at=NOON)
    row = job(gpus)
    answer = bob.get(path(row.pk))
    told = answer.json()

    assert answer.status_code == 200
    assert told["job"]["target"] == "west/4711"
    assert told["bottleneck"] == "compute"
    assert [one["bottleneck"] for one in told["timeline"]] == ["compute", "compute"]
    assert told["timeline"][0]["at"] == "2026-11-30T11:59:00Z"
    assert told["cost"] == pytest.approx(told["gpu_hours"] * 3, abs=1e-4)
    assert told["events"][0]["text"] == "XID 31, n1 GPU 0"
    assert told["absent"]["ranks"] == "it held a single GPU"
    assert told["is_final"] is True
    assert bob.get(path(row.pk), HTTP_ACCEPT_LANGUAGE="zh-hans").json()["absent"]["ranks"] == "它只占用一块 GPU"


def test_it_has_an_etag_and_strangers_and_odd_questions_are_refused(bob: APIClient, stranger: APIClient) -> None:
    """The same again is 304."""
    row = job(cards())
    answer = bob.get(path(row.pk))

    assert bob.get(path(row.pk), HTTP_IF_NONE_MATCH=answer["ETag"]).status_code == 304
    assert bob.get(path(row.pk) + "?x=1").status_code == 400
    assert bob.get(path(row.pk + 1)).status_code == 404
    assert stranger.get(path(row.pk)).status_code == 401
