"""Runs of jobs from telemetry: where one begins, what it measures, and that no minute counts twice."""

import pytest
from django.core.management import call_command
from pytest_django import Settings

from fleet.annotations.models import Annotation
from fleet.inventory.models import Gpu, Node
from fleet.jobs.models import Job
from fleet.slow import past_runs
from fleet.slow.models import JobRun
from fleet.slow.runs import MOST_RUNS
from tests.fleet.rows import gpu, node
from tests.fleet.slow.past import NOON, merged, minute, minutes, process, run

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
JOB = "n1/ann/train.py"


@pytest.fixture(autouse=True)
def patience(settings: Settings) -> None:
    """A run may warm up for two minutes."""
    settings.FETTLE_ADVISOR_PATIENCE_S = 120


def cards(count: int = 1) -> list[Gpu]:
    """A node's GPUs."""
    home = node("n1", last_seen_at=NOON, driver_version="580.65.06")
    return [gpu(home, index) for index in range(count)]


def test_a_run_has_the_median_of_its_minutes() -> None:
    """Two GPUs, a rank each: step times by rank, samples of both together, energy of both over them; not of the warm-up."""
    held = cards(2)
    for number, step in enumerate((9.0, 9.0, 0.5, 0.5, 0.6)):
        minute(held, NOON + minutes(number), [11, 12], step_time_s=step, samples_per_s=40.0, power_w=600.0)
        merged(NOON + minutes(number + 1))
    one = JobRun.objects.get()

    assert (one.job, one.program, one.node) == (JOB, "ann/train.py", held[0].node)
    assert (one.gpus, one.gpu_ids, one.pids, one.gpu_model) == (2, [card.pk for card in held], [11, 12], "NVIDIA H200")
    assert one.minutes == 3
    assert one.step_time_s == pytest.approx(0.5, rel=0.002)
    assert one.step_time_mad_s == pytest.approx(0, abs=1e-9)
    assert one.samples_per_s == pytest.approx(80, rel=0.002)
    assert one.energy_j_per_sample == pytest.approx(1200 / 80, rel=0.002)
    assert one.busy == pytest.approx(0.9, rel=0.002)
    assert (one.first_seen, one.last_seen) == (NOON, NOON + minutes(5) - minutes(1 / 60))


def test_runs_of_one_program_are_of_one_family_whatever_their_number() -> None:
    """Each is a job of its own, as the pages name it; what they are compared by is the same."""
    held = cards()
    for number, name in enumerate(("train-81234.py", "train-81235.py")):
        minute(held, NOON + minutes(number), [11 + number], name=name)
        merged(NOON + minutes(number + 1))

    found = JobRun.objects.order_by("first_seen").values_list("job", "program")
    assert list(found) == [("n1/ann/train-81234.py", "ann/train.py"), ("n1/ann/train-81235.py", "ann/train.py")]


@pytest.mark.django_db(transaction=True)
def test_runs_of_before_take_their_family_when_the_release_comes() -> None:
    """Going back leaves them as they are: nobody needs the number."""
    home = node("rack/7")
    for name in ("train-81234.py", "eval.py"):
        run(home, NOON, NOON + minutes(9), job=f"rack/7/ann/{name}", program=f"ann/{name}")
    try:
        call_command("migrate", "slow", "0002", verbosity=0)
    finally:
        call_command("migrate", verbosity=0)

    assert sorted(JobRun.objects.values_list("program", flat=True)) == ["ann/eval.py", "ann/train.py"]


def test_a_run_keeps_the_image_that_was_annotated() -> None:
    """While it goes on, and after the annotation has ended; a job without any has none."""
    held = cards()
    for pid in (11, 12):
        process(held[0].node, pid, NOON, NOON + minutes(9), torch="2.9.1")
    Annotation.objects.create(scope="job", target=JOB, key="image", value="train:7", at=NOON, until=NOON + minutes(2))
    for number, pid in enumerate((11, 11, 11, 12)):
        minute(held, NOON + minutes(number), [pid])
        merged(NOON + minutes(number + 1))

    told = [run.told for run in JobRun.objects.order_by("first_seen", "pk")]
    assert told == [
        {"driver": "580.65.06", "torch": "2.9.1", "image": "train:7"},
        {"driver": "580.65.06", "torch": "2.9.1"},
    ]


def test_the_image_that_a_scheduler_told_counts_where_none_is_annotated() -> None:
    """As a label of its job."""
    held = cards()
    minute(held, NOON, [11])
    merged(NOON + minutes(1))
    Job.objects.update(labels={"image": "registry/train:8"})
    minute(held, NOON + minutes(1), [11])
    merged(NOON + minutes(2))

    assert JobRun.objects.get().told["image"] == "registry/train:8"


def test_a_family_keeps_only_its_newest_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever number each had; runs on more GPUs are another family's."""
    monkeypatch.setattr(past_runs, "MOST_OF_FAMILY", 3)
    held = cards()
    for number in range(5):
        run(held[0].node, NOON - minutes(60 - number), NOON - minutes(50 - number), job=f"n1/ann/train-8000{number}.py")
    run(held[0].node, NOON - minutes(90), NOON - minutes(80), gpus=2)
    minute(held, NOON, [11])
    merged(NOON + minutes(1))

    left = JobRun.objects.filter(gpus=1).order_by("first_seen").values_list("job", flat=True)
    assert list(left) == ["n1/ann/train-80003.py", "n1/ann/train-80004.py", JOB]
    assert JobRun.objects.filter(gpus=2).count() == 1


def test_looking_twice_counts_once() -> None:
    """The same minute again, and an older one: nothing changes."""
    held = cards()
    for number in range(4):
        minute(held, NOON + minutes(number), [11], step_time_s=0.5)
        merged(NOON + minutes(number + 1))
    before = JobRun.objects.values().get()
    for number in (4, 4, 3):
        merged(NOON + minutes(number))

    assert JobRun.objects.values().get() == before
    assert before["minutes"] == 2


def test_minutes_that_were_missed_are_caught_up() -> None:
    """The worker was away for five minutes; of a longer pause the last ten are counted."""
    held = cards()
    for number in range(30):
        minute(held, NOON + minutes(number), [11], step_time_s=0.5, seconds=range(0, 60, 10))
    merged(NOON + minutes(3))
    short = JobRun.objects.get()
    merged(NOON + minutes(8))
    caught = JobRun.objects.get()
    merged(NOON + minutes(29))

    assert (short.minutes, caught.minutes) == (0, 5 - 1)  # the first was found in its third minute: its warm-up ends in the fifth
    assert JobRun.objects.get().minutes == 4 + 10


def test_what_comes_late_neither_counts_nor_shifts() -> None:
    """A backlog of older minutes beside live ones."""
    held = cards()
    for number in (0, 1, 2, 5):
        minute(held, NOON + minutes(number), [11], step_time_s=0.5)
        merged(NOON + minutes(number + 1))
    minute(held, NOON + minutes(3), [11], step_time_s=99.0)
    merged(NOON + minutes(6))
    one = JobRun.objects.get()

    assert one.minutes == 2
    assert one.step_time_s == pytest.approx(0.5, rel=0.002)


def test_other_processes_begin_another_run() -> None:
    """A rank that is replaced does not: the others are still there."""
    held = cards(2)
    for number, pids in enumerate(([11, 12], [11, 13], [21, 22])):
        minute(held, NOON + minutes(number), pids)
        merged(NOON + minutes(number + 1))
    first, second = JobRun.objects.order_by("first_seen")

    assert (first.pids, second.pids) == ([11, 13], [21, 22])
    assert second.first_seen == NOON + minutes(2)


def test_a_program_that_crashes_within_a_minute_has_a_run_for_each_start() -> None:
    """Three starts in one minute; its figures are none."""
    held = cards()
    for first, pid in ((0, 11), (20, 12), (40, 13)):
        minute(held, NOON, [pid], seconds=range(first, first + 15), step_time_s=0.5)
    merged(NOON + minutes(1))
    merged(NOON + minutes(1))

    assert [one.pids for one in JobRun.objects.order_by("first_seen")] == [[11], [12], [13]]
    assert {one.minutes for one in JobRun.objects.all()} == {0}


def test_a_run_begins_when_its_process_did_and_knows_what_it_told() -> None:
    """The agent told of it an hour before the server looked; flags and versions come along."""
    held = cards()
    home = held[0].node
    labels = {"torch": "2.9.1", "flag.batch-size": "64", "env.NCCL_P2P_DISABLE": "1", "container": "abc"}
    process(home, 11, NOON - minutes(60), NOON + minutes(1), **labels)
    minute(held, NOON, [11])
    merged(NOON + minutes(1))
    one = JobRun.objects.get()

    assert one.first_seen == NOON - minutes(60)
    assert one.told == {"driver": "580.65.06", "torch": "2.9.1", "flag.batch-size": "64", "env.NCCL_P2P_DISABLE": "1"}


@pytest.mark.parametrize(("away", "listed", "runs"), [(30, False, 1), (90, False, 2), (90, True, 1)])
def test_a_pid_that_comes_back_is_the_same_process_within_the_hour_or_where_its_agent_says_so(
    away: int, listed: bool, runs: int
) -> None:
    """The kernel gives pids anew; a silent node's processes go on."""
    held = cards()
    minute(held, NOON, [11])
    merged(NOON + minutes(1))
    if listed:
        process(held[0].node, 11, NOON, NOON + minutes(away + 1))
    minute(held, NOON + minutes(away), [11])
    merged(NOON + minutes(away + 1))

    assert JobRun.objects.count() == runs


def test_a_neighbour_on_the_same_gpu_is_not_of_the_job() -> None:
    """Another user's process there neither reports for it nor keeps its run going."""
    held = cards()
    minute(held, NOON, [11], step_time_s=0.5)
    merged(NOON + minutes(1))
    minute(held, NOON + minutes(1), [99], name="other.py", seconds=range(5))
    minute(held, NOON + minutes(1), [21], seconds=range(10, 60))
    merged(NOON + minutes(2))

    assert [one.pids for one in JobRun.objects.filter(job=JOB).order_by("first_seen")] == [[11], [21]]


def test_a_node_that_is_silent_has_no_run_that_goes_on() -> None:
    """Its run stays as it was; it is not in what is returned."""
    held = cards()
    minute(held, NOON, [11])

    assert set(merged(NOON + minutes(1)).runs) == {JOB}
    assert set(merged(NOON + minutes(20)).runs) == set()
    assert JobRun.objects.get().last_seen < NOON + minutes(1)


def test_errors_of_gpu_memory_are_counted_by_the_hour_as_they_come() -> None:
    """Two in the first minute, none, one, and one that came between two looks; the same minute again adds none."""
    held = cards()
    for number, count in enumerate((2, 2, 3, 4)):
        minute(held, NOON + minutes(number), [11], ooms_total=count)
        merged(NOON + minutes(number + 1))
        merged(NOON + minutes(number + 1))

    assert JobRun.objects.get().ooms == {"hours": {str(int(NOON.timestamp())): 4}, "seen": {"11": 4}}


def test_errors_from_before_anybody_counted_are_not_of_this_hour() -> None:
    """The process is an hour old; a restarted one begins from zero."""
    held = cards()
    process(held[0].node, 11, NOON - minutes(60), NOON + minutes(2), torch="2.9")
    for number, (pid, count) in enumerate(((11, 7), (11, 8), (12, 3))):
        minute(held, NOON + minutes(number), [pid], ooms_total=count)
        merged(NOON + minutes(number + 1))
    hours = [sum(one.ooms["hours"].values()) for one in JobRun.objects.order_by("first_seen")]

    assert hours == [1, 3]


def test_a_program_that_reports_none_has_none_to_count() -> None:
    """Unknown, not zero; one that reports zero has an empty hour."""
    held = cards()
    minute(held, NOON, [11])
    merged(NOON + minutes(1))
    silent = JobRun.objects.get().ooms
    minute(held, NOON + minutes(1), [11], ooms_total=0)
    merged(NOON + minutes(2))

    assert silent == {}
    assert JobRun.objects.get().ooms == {"hours": {}, "seen": {"11": 0}}


def test_whether_the_driver_is_persistent_is_told_by_gpu() -> None:
    """Of those that said so."""
    held = cards(2)
    minute(held[:1], NOON, [11])

    assert merged(NOON + minutes(1)).persistent == {held[0].pk: True}


def test_a_job_keeps_its_newest_runs() -> None:
    """A program that crashes for weeks does not fill the table."""
    held = cards()
    home: Node = held[0].node
    for number in range(MOST_RUNS + 5):
        run(home, NOON - minutes(1000 - number), NOON - minutes(1000 - number), pids=[number])
    minute(held, NOON, [5000])
    merged(NOON + minutes(1))

    assert JobRun.objects.count() == MOST_RUNS
    assert JobRun.objects.filter(pids=[5000]).exists()
    assert not JobRun.objects.filter(pids=[0]).exists()


def test_a_row_whose_runs_were_forgotten_by_their_age_stays_when_the_job_runs_again() -> None:
    """Its report is kept for as long as the site says; a row goes here only with a run that is one too many."""
    held = cards()
    minute(held, NOON, [11])
    merged(NOON + minutes(1))
    first = Job.objects.get()
    Job.objects.update(ended_at=NOON + minutes(1), state="completed")
    JobRun.objects.all().delete()
    minute(held, NOON + minutes(20), [12])
    merged(NOON + minutes(21))

    assert Job.objects.filter(pk=first.pk).exists()
    assert Job.objects.count() == 2
