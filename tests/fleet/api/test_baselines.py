"""`/api/v1/jobs/{id}/baseline/` and `/api/v1/power-floors/`."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from fleet.inventory.models import Node
from fleet.jobs.models import Job
from fleet.slow.power import learn
from tests.fleet.rows import gpu, node
from tests.fleet.slow.past import run
from tests.fleet.slow.test_power import hours

pytestmark = pytest.mark.django_db
FAMILY = "west/ann/train"
DAY = timedelta(days=1)


@pytest.fixture
def home() -> Node:
    """The node of all runs."""
    return node("n1")


def job(number: int, started: Any, **more: Any) -> Job:
    """A scheduler's job."""
    return Job.objects.create(cluster="west", job_id=str(number), started_at=started, source="slurm", family=FAMILY, **more)


def runs(home: Node, slow_from: int, count: int, **more: Any) -> Job:
    """So many jobs, one a day, slower from one on, each with its run; the last of them."""
    now = timezone.now()
    card = gpu(home)
    for number in range(1, count + 1):
        slow = number >= slow_from
        begun = now - (count - number) * DAY - DAY / 24
        newest = job(number, begun, ended_at=None if number == count else begun + DAY / 48)
        run(
            home, begun, begun + DAY / 48, job=newest.target, program=FAMILY, gpu_ids=[card.pk],
            step_time_s=(0.6 if slow else 0.5) * (1 + 0.004 * (number % 3 - 1)), told={"driver": "590" if slow else "580"}, **more,
        )  # fmt: skip
    return newest


def ask(caller: APIClient, of: Job) -> dict[str, Any]:
    """The answer for a job."""
    answer = caller.get(f"/api/v1/jobs/{of.pk}/baseline/")
    assert answer.status_code == 200, answer.content
    told: dict[str, Any] = answer.json()
    return told


def test_a_regression_is_told_with_its_first_run_and_what_changed(bob: APIClient, home: Node) -> None:
    """Sixteen runs, then five slower ones: the 17th, and the driver."""
    told = ask(bob, runs(home, slow_from=17, count=21))
    step = told["measures"][0]

    assert (told["family"], told["gpu_model"], told["gpus"], told["runs"], told["reason"]) == (FAMILY, "NVIDIA H200", 1, 20, "")
    assert told["run"]["job"] == "west/21"
    assert [one["measure"] for one in told["measures"]] == ["step_time_s", "samples_per_s", "energy_j_per_sample"]
    assert (step["unit"], step["runs"], step["bad_runs"]) == ("seconds", 20, 5)
    assert (step["median"], step["value"]) == pytest.approx((0.5, 0.6), rel=0.01)
    assert step["ratio"] == pytest.approx(1.2, rel=0.01)
    assert (step["last_good"]["job"], step["first_bad"]["job"]) == ("west/16", "west/17")
    assert step["changed"] == [{"what": "driver", "before": "580", "since": "590"}]
    assert [level["first"]["job"] for level in step["levels"]] == ["west/17"]
    assert step["drift"] is None  # five runs of the newest level


def test_two_runs_are_no_baseline_and_the_answer_says_so(bob: APIClient, home: Node) -> None:
    """Nothing is compared."""
    told = ask(bob, runs(home, slow_from=9, count=3))

    assert (told["runs"], told["measures"]) == (2, [])
    assert told["reason"] == "Earlier runs that are alike: 2. A baseline takes 3, each with reported steps for five minutes."


def test_a_job_without_telemetry_has_none(bob: APIClient, home: Node) -> None:
    """Nor does one whose id ran before, at another time."""
    runs(home, slow_from=9, count=5)
    told = ask(bob, job(5, timezone.now() + DAY))

    assert (told["run"], told["gpu_model"], told["measures"]) == (None, None, [])
    assert told["reason"].startswith("No telemetry of this job was seen")


def test_scaling_is_told_beside_and_never_mixed(bob: APIClient, home: Node) -> None:
    """On one GPU it did 100 samples a second, on eight it does 600."""
    run(home, timezone.now() - 9 * DAY, timezone.now() - 8 * DAY, job="west/0", program=FAMILY, samples_per_s=100.0)
    told = ask(bob, runs(home, slow_from=9, count=4, gpus=8, samples_per_s=600.0))

    assert told["runs"] == 3
    assert (told["scaling_reference_gpus"], told["scaling_efficiency"]) == (1, pytest.approx(0.75))


def test_who_may_ask_and_for_what(bob: APIClient, stranger: APIClient, home: Node) -> None:
    """No such run: 404; nobody: 401; a parameter that nobody reads: 400."""
    of = runs(home, slow_from=9, count=1)

    assert bob.get("/api/v1/jobs/999999999999999999/baseline/").status_code == 404
    assert stranger.get(f"/api/v1/jobs/{of.pk}/baseline/").status_code == 401
    assert bob.get(f"/api/v1/jobs/{of.pk}/baseline/?x=1").status_code == 400


def test_power_floors_say_on_how_much_they_rest(bob: APIClient) -> None:
    """Three cards on three days."""
    for ago in (2, 1, 0):
        learn(timezone.now() - ago * DAY, hours({1: (75.0, 600.0), 2: (78.0, 640.0), 3: (90.0, 700.0)}))

    assert bob.get("/api/v1/power-floors/").json() == [
        {
            "gpu_model": "NVIDIA H200",
            "idle_w": 78.0,
            "idle_gpus": 3,
            "idle_days": 3,
            "busy_w": 640.0,
            "busy_gpus": 3,
            "busy_days": 3,
        }
    ]
