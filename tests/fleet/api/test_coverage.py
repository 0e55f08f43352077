"""How much of the work is known to be whose, over REST."""

from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from fleet.slow.models import Coverage

pytestmark = pytest.mark.django_db
PATH = "/api/v1/coverage/"


def minute(ago_min: int, **more: float) -> None:
    """One minute of the fleet: four GPUs, three of them at work."""
    told = {
        "present": 4,
        "scheduled": 2,
        "processes": 1,
        "unknown": 0,
        "busy_scheduled_s": 90,
        "busy_processes_s": 30,
        "busy_unknown_s": 0,
    }
    start = int((timezone.now() - timedelta(minutes=ago_min)).timestamp())
    Coverage.objects.create(start=start, **{**told, **more})


def test_shares_of_the_last_hour_are_in_per_cent(bob: APIClient) -> None:
    """Of the time at work, and of the GPUs that reported; what is older does not count unless asked for."""
    minute(5)
    minute(10)
    minute(90, busy_unknown_s=240)
    answer = bob.get(PATH)

    assert answer.status_code == 200
    told = answer.json()
    assert told["minutes"] == 2
    assert told["busy_gpu_hours"] == pytest.approx(240 / 3600)
    assert told["busy_pct"] == {"scheduled": 75.0, "processes": 25.0, "unknown": 0.0}
    assert told["gpus_pct"] == {"scheduled": 50.0, "processes": 25.0, "unknown": 0.0}
    assert bob.get(PATH, {"hours": 2}).json()["busy_pct"]["unknown"] == 40.0


def test_where_nothing_was_measured_nothing_is_said(bob: APIClient) -> None:
    """Null, not 0."""
    told = bob.get(PATH).json()
    assert (told["minutes"], told["busy_gpu_hours"]) == (0, None)
    assert told["busy_pct"] == {"scheduled": None, "processes": None, "unknown": None}


@pytest.mark.parametrize("hours", ["0", "721", "x"])
def test_a_span_that_cannot_be_is_refused(bob: APIClient, hours: str) -> None:
    """From one hour to thirty days."""
    answer = bob.get(PATH, {"hours": hours})
    assert answer.status_code == 400
    assert "hours" in answer.json()["errors"]


def test_a_stranger_reads_nothing(stranger: APIClient) -> None:
    """As everywhere under /api/v1/."""
    assert stranger.get(PATH).status_code == 401
