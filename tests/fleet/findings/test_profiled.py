"""A profile that was sent joins the judgement of its job."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from fleet.findings.judge import judge
from fleet.findings.models import Finding
from fleet.inventory.models import Gpu
from fleet.profiles.keep import keep
from fleet.profiles.models import JobProfile
from tests.fleet.profiles.reports import report
from tests.fleet.recorded import fill, recording
from tests.fleet.rows import gpu, node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
NOW = timezone.now().replace(microsecond=0)
JOB = "n1/demo/launch_bound"
RULE = "launch-bound-small-kernels"
PID = int(next(iter(recording("launch_bound").samples[-30].gpus[0]["pids"])))


@pytest.fixture(autouse=True)
def short_windows(settings: Settings) -> None:
    """A minute, as long as the recordings last."""
    settings.FETTLE_ADVISOR_WINDOW_S = 60
    settings.FETTLE_ADVISOR_PATIENCE_S = 2


def playing() -> Gpu:
    """A node on which launch_bound ran until now."""
    card = gpu(node(last_seen_at=NOW, mem_total_bytes=256 << 30), compute_capability="9.0", power_limit_w=700)
    fill("launch_bound", [card], int(NOW.timestamp()))
    return card


def lines() -> dict[str, Any]:
    """The evidence of the job's finding, by name."""
    row = Finding.objects.get(rule=RULE)
    assert row.target == JOB
    return {line["name"]: line["value"] for line in row.content["evidence"]}


def test_its_numbers_stand_in_the_finding() -> None:
    """From the next judgement on; without a profile there are none."""
    card = playing()
    judge(NOW)
    assert not any(name.startswith("profile_") for name in lines())

    keep(report(card.node, job=JOB, at=(NOW - timedelta(hours=1)).timestamp()), card.node, NOW)
    judge(NOW + timedelta(seconds=1))

    assert lines()["profile_launch_gap_share"] == pytest.approx(0.5)
    assert Finding.objects.get(rule=RULE).confidence == "high"


def test_a_profile_of_a_process_finds_its_job() -> None:
    """By the pid that holds the GPU."""
    card = playing()
    keep(report(card.node, job="", pid=PID, at=(NOW - timedelta(minutes=1)).timestamp()), card.node, NOW)
    keep(report(card.node, job="", pid=PID + 1, at=NOW.timestamp()), card.node, NOW)
    judge(NOW)

    assert sorted(JobProfile.objects.values_list("pid", "job")) == [(PID, JOB), (PID + 1, "")]
    assert lines()["profile_launch_gap_share"] == pytest.approx(0.5)
