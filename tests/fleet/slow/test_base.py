"""What a run is compared with: right values, only what is comparable, nothing where there is too little."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from fleet.inventory.models import Node
from fleet.jobs.models import END_STATES, Job
from fleet.slow.base import figures
from fleet.slow.families import run_of
from fleet.slow.models import JobRun
from fleet.slow.past_runs import NEWEST
from tests.fleet.rows import gpu, node
from tests.fleet.slow.past import NOON, run

pytestmark = pytest.mark.django_db
JOB = "n1/ann/train.py"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def home() -> Node:
    """The job's node."""
    return Node.objects.filter(name="n1").first() or node("n1")


def earlier(days: float, **more: Any) -> JobRun:
    """A run of an hour that ended so many days ago."""
    return run(home(), NOON - days * DAY - HOUR, NOON - days * DAY, **more)


def of(now: JobRun) -> dict[str, Any]:
    """The features of the run that goes on."""
    return figures(NOON, {now.job: now})[now.job]


def going(hours: float = 2, **more: Any) -> JobRun:
    """The run that goes on."""
    return run(home(), NOON - hours * HOUR, NOON, **more)


def test_the_baseline_is_the_median_of_earlier_runs() -> None:
    """Of 0.50, 0.52, 0.54, 0.60: 0.53; the deviations from it are 0.03, 0.01, 0.01, 0.07, their median 0.02."""
    for days, step in ((2, 0.50), (3, 0.52), (4, 0.54), (5, 0.60)):
        earlier(days, step_time_s=step)
    told = of(going(step_time_s=0.7))

    assert told["base_runs"] == 4
    assert told["base_age_days"] == pytest.approx(2)
    assert told["base_step_time_s"] == pytest.approx(0.53)
    assert told["base_step_time_mad_s"] == pytest.approx(1.4826 * 0.02)


def test_runs_that_are_alike_to_a_hair_have_the_spread_within_them() -> None:
    """Else a run's own noise would count as a regression."""
    for days in (1, 2, 3):
        earlier(days, step_time_s=0.5, step_time_mad_s=0.004)

    assert of(going())["base_step_time_mad_s"] == pytest.approx(0.004)


def test_two_runs_are_no_baseline() -> None:
    """How many there are is known, no more."""
    earlier(1)
    earlier(2)
    told = of(going())

    assert told["base_runs"] == 2
    assert "base_step_time_s" not in told
    assert "base_changes" not in told


@pytest.mark.parametrize(
    "other",
    [
        {"gpus": 2},
        {"gpu_model": "NVIDIA H100"},
        {"minutes": 4},
        {"step_time_s": None},
        {"job": "n1/bob/train.py", "program": "bob/train.py"},
    ],
)
def test_what_is_not_comparable_does_not_count(other: dict[str, Any]) -> None:
    """Another size, card or job, and runs that were over before they were warm."""
    for days in (1, 2, 3):
        earlier(days, **other)

    assert of(going())["base_runs"] == 0


def scheduled(start: datetime, state: str, **more: Any) -> Job:
    """The row of a scheduler's job of an hour."""
    defaults: dict[str, Any] = {
        "ended_at": start + HOUR if state in END_STATES else None,
        "cluster": "west",
        "job_id": "4711",
        "source": "slurm",
        "family": "ann/train.py",
    }
    return Job.objects.create(started_at=start, state=state, **{**defaults, **more})


@pytest.mark.parametrize("state", [name for name in END_STATES if name != "completed"])
def test_a_run_that_did_not_come_to_its_end_is_no_baseline(state: str) -> None:
    """Three runs of 0.5 s that ended well, and one of 0.9 s that its scheduler put back, killed or lost: 0.5 s, of three."""
    for days in (2, 3, 4):
        earlier(days, job_row=scheduled(NOON - days * DAY - HOUR, "completed"))
    earlier(1, step_time_s=0.9, job_row=scheduled(NOON - DAY - HOUR, state))
    told = of(going(step_time_s=0.7))

    assert (told["base_runs"], told["base_step_time_s"]) == (3, pytest.approx(0.5))


def test_a_run_that_goes_on_beside_it_counts() -> None:
    """It has no end yet that could be a bad one."""
    for days in (2, 3):
        earlier(days)
    run(home(), NOON - 5 * HOUR, NOON, job_row=scheduled(NOON - 5 * HOUR, "running"))

    assert of(going())["base_runs"] == 3


def test_a_killed_run_on_fewer_gpus_is_no_reference_of_scaling() -> None:
    """It ran at a tenth of the speed of the others on one GPU."""
    killed = scheduled(NOON - DAY - HOUR, "node_fail")
    earlier(1, samples_per_s=10.0, job_row=killed)
    for days in (2, 3):
        earlier(days, samples_per_s=100.0)

    assert of(going(gpus=2, samples_per_s=180.0))["scaling_efficiency"] == pytest.approx(0.9)


def test_each_run_of_a_job_that_was_put_back_has_its_own_program() -> None:
    """The same number on the same node, started again four minutes after its start: the second has no run before its processes are seen."""
    first = scheduled(NOON - HOUR, "requeued", ended_at=NOON - HOUR + timedelta(minutes=4))
    second = scheduled(NOON - HOUR + timedelta(minutes=4), "running", restarts=1)
    one = run(home(), first.started_at, NOON - HOUR + timedelta(minutes=3), job="west/4711", job_row=first)
    before = run_of(first), run_of(second)
    two = run(home(), second.started_at + timedelta(minutes=1), NOON, job="west/4711", job_row=second)

    assert before == (one, None)
    assert (run_of(first), run_of(second)) == (one, two)


def test_only_the_newest_runs_make_the_baseline() -> None:
    """A year ago says little of today."""
    for days in range(1, 16):
        earlier(days, step_time_s=0.5 if days <= 10 else 5.0)
    told = of(going())

    assert told["base_runs"] == 15
    assert told["base_step_time_s"] == pytest.approx(0.5)


def test_energy_has_a_baseline_of_four_weeks() -> None:
    """Older runs count for step times alone."""
    for days, joules in ((1, 4.0), (2, 5.0), (3, 9.0), (29, 900.0)):
        earlier(days, energy_j_per_sample=joules)
    told = of(going(energy_j_per_sample=6.5))

    assert (told["base_energy_j_per_sample"], told["energy_j_per_sample"]) == (5.0, 6.5)
    assert told["base_energy_mad"] == pytest.approx(1.4826 * 1.0)
    JobRun.objects.filter(energy_j_per_sample=9.0).delete()
    assert of(going(energy_j_per_sample=6.5)).get("base_energy_j_per_sample") is None


def test_age_and_gpu_hours_are_the_runs_own() -> None:
    """Two hours on eight GPUs."""
    told = of(going(2, gpus=8))

    assert told["run_s"] == pytest.approx(7200)
    assert told["run_gpu_hours"] == pytest.approx(16)


def test_restarts_are_the_runs_of_two_hours_but_for_the_first_ever() -> None:
    """Three began, one of them as the first that is known; older ones count for that."""
    for minutes in (100, 60):
        run(home(), NOON - timedelta(minutes=minutes), NOON - timedelta(minutes=minutes - 1))
    now = run(home(), NOON - timedelta(minutes=10), NOON)
    first = of(now)["restarts_2h"]
    earlier(1)

    assert (first, of(now)["restarts_2h"]) == (2, 3)


def test_errors_of_gpu_memory_are_those_of_its_runs_of_a_day() -> None:
    """Hours that are older do not count; of a job that reports none nothing is known."""
    hour = int(NOON.timestamp())
    silent = of(going())["ooms_24h"]
    earlier(0.5, ooms={"hours": {str(hour - 14 * 3600): 2}, "seen": {}})
    earlier(2, ooms={"hours": {str(hour - 48 * 3600): 50}, "seen": {}})
    now = going(30, ooms={"hours": {str(hour - 25 * 3600): 9, str(hour - 3600): 1}, "seen": {"1": 1}})

    assert (silent, of(now)["ooms_24h"]) == (None, 3)


def test_a_first_run_has_no_restart() -> None:
    """Zero is known here."""
    assert of(going(1))["restarts_2h"] == 0


def test_scaling_is_measured_by_the_programs_runs_on_the_fewest_gpus() -> None:
    """On any node: 1 GPU did 100 samples a second, 8 do 600: 75 %."""
    far = node("n2")
    run(far, NOON - DAY, NOON - DAY + HOUR, job="n2/ann/train.py", samples_per_s=100.0)
    earlier(3, gpus=4, samples_per_s=390.0)
    told = of(going(gpus=8, samples_per_s=600.0))

    assert told["scaling_reference_gpus"] == 1
    assert told["base_samples_per_s_1gpu"] == pytest.approx(100)
    assert told["scaling_efficiency"] == pytest.approx(0.75)


def test_where_it_never_ran_on_one_gpu_the_smallest_run_counts() -> None:
    """Four GPUs did 400, eight do 600."""
    earlier(3, gpus=4, samples_per_s=400.0)
    told = of(going(gpus=8, samples_per_s=600.0))

    assert told["scaling_reference_gpus"] == 4
    assert told["base_samples_per_s_1gpu"] is None
    assert told["scaling_efficiency"] == pytest.approx(0.75)


def test_without_a_smaller_run_scaling_is_unknown() -> None:
    """Nor with one on another card."""
    earlier(3, gpus=1, gpu_model="NVIDIA A100", samples_per_s=100.0)
    told = of(going(gpus=8, samples_per_s=600.0))

    assert "scaling_efficiency" not in told


def test_what_changed_is_said_against_the_newest_comparable_run() -> None:
    """Versions first, then variables and flags by name."""
    old = {"driver": "570.86.15", "torch": "2.8.0", "cuda": "12.8", "flag.num-workers": "32"}
    new = {"driver": "580.65.06", "torch": "2.9.1", "cuda": "12.8", "env.NCCL_P2P_DISABLE": "1"}
    earlier(1, told=old)
    for days in (2, 3):
        earlier(days, told={"driver": "1"})

    assert of(going(told=new))["base_changes"] == (
        "driver 570.86.15 -> 580.65.06; torch 2.8.0 -> 2.9.1; NCCL_P2P_DISABLE (none) -> 1; --num-workers 32 -> (none)"
    )


def test_runs_of_the_family_count_on_whatever_node_and_with_whatever_number() -> None:
    """Three numbers of one program on another node make the baseline of a fourth on this one."""
    far = node("n2")
    for days in (1, 2, 3):
        run(far, NOON - days * DAY - HOUR, NOON - days * DAY, job=f"n2/ann/train-8123{days}.py", step_time_s=0.4)

    assert of(going(job="n1/ann/train-81239.py"))["base_step_time_s"] == pytest.approx(0.4)


def test_the_first_slow_run_is_named_with_what_changed_there() -> None:
    """Sixteen runs, then four slower ones with another image on another node: the 17th, not the newest, is compared."""
    card, far = gpu(home(), 0), gpu(node("n2"), 0)
    for number in range(1, 21):
        slow = number >= 17
        earlier(
            25 - number,
            job=f"n1/ann/train-8{number:04}.py",
            step_time_s=(0.6 if slow else 0.5) * (1 + 0.004 * (number % 3 - 1)),
            told={"driver": "580", "image": "train:2" if slow else "train:1", "env.SEED": str(number)},
            gpu_ids=[far.pk if slow else card.pk],
        )
    told = of(going(job="n1/ann/train-89999.py", step_time_s=0.6, told={"driver": "590"}, gpu_ids=[far.pk]))

    assert told["base_step_time_s"] == pytest.approx(0.5, rel=0.005)
    assert told["base_first_bad_run"] == "n1/ann/train-80017.py"
    assert told["base_first_bad_at"] == "2026-11-22 11:00 UTC"
    assert told["base_bad_runs"] == 5
    assert told["base_changes"] == "image train:1 -> train:2; SEED 16 -> 17; nodes n1 -> n2"
    assert told["base_other_work"] is False


def test_another_batch_is_no_regression() -> None:
    """Runs with another batch are none to compare with; where it is told by a flag alone, the rule is told that the work is another."""
    for days in (1, 2, 3):
        earlier(days, told={"flag.batch-size": "32"}, samples_per_s=None)
    now = going(step_time_s=1.0, samples_per_s=None, told={"flag.batch-size": "64"})
    by_flag = of(now)
    JobRun.objects.exclude(pk=now.pk).update(samples_per_s=100.0)
    now.samples_per_s = 100.0

    assert (by_flag["base_runs"], by_flag["base_other_work"]) == (3, True)
    assert of(now)["base_runs"] == 0


def test_a_slow_change_from_run_to_run_is_a_drift() -> None:
    """One percent a day over twenty days."""
    for days in range(1, 21):
        earlier(days, step_time_s=0.5 * 1.01 ** (20 - days))
    told = of(going(step_time_s=0.5 * 1.01**20))

    assert told["base_drift_ratio"] == pytest.approx(1.01**20, rel=0.01)
    assert told["base_drift_low_ratio"] > 1.15
    assert told["base_drift_days"] == pytest.approx(20, abs=0.1)


def test_energy_names_its_own_first_run() -> None:
    """Steps as long as ever, samples dearer since the fifth run."""
    for number in range(1, 9):
        dear = number >= 5
        earlier(
            10 - number,
            job=f"n1/ann/train-8{number:04}.py",
            energy_j_per_sample=7.0 if dear else 5.0,
            told={"driver": "2" if dear else "1"},
        )
    told = of(going(energy_j_per_sample=7.0, told={"driver": "2"}))

    assert told["base_energy_j_per_sample"] == 5.0
    assert told["base_energy_first_bad_run"] == "n1/ann/train-80005.py"
    assert told["base_energy_changes"] == "driver 1 -> 2"
    assert told.get("base_first_bad_run") is None


def test_a_family_of_thousands_is_read_by_its_newest_alone(django_assert_max_num_queries: Any) -> None:
    """As many queries as for one run, and no more rows than are looked at."""
    before = [
        JobRun(node=home(), job=f"n1/ann/train-{90000 + number}.py", program="ann/train.py", gpus=1, gpu_model="NVIDIA H200", minutes=60,
               step_time_s=0.5, first_seen=NOON - (3000 - number) * HOUR, last_seen=NOON - (3000 - number) * HOUR + HOUR / 2, merged_to=0)
        for number in range(2999)
    ]  # fmt: skip
    JobRun.objects.bulk_create(before, batch_size=500)
    now = going(hours=0.5)
    with django_assert_max_num_queries(8):
        told = of(now)

    assert told["base_runs"] == NEWEST - 1  # the run itself is one of them
