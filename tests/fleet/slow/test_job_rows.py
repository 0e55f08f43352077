"""The rows of jobs that runs belong to: a scheduler's, or one of its processes; and how much of the work is known to be whose."""

from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from pytest_django import Settings

from fleet.inventory.models import Gpu
from fleet.jobs.holding import holders
from fleet.jobs.models import Allocation, Job
from fleet.slow import base
from fleet.slow.coverage import covered
from fleet.slow.models import Coverage, JobRun
from fleet.slow.runs import merge
from fleet.store.series import store
from tests.fleet.jobs.given import give, job
from tests.fleet.rows import gpu, node
from tests.fleet.slow.past import LATE, NOON, merged, minute, minutes, process
from tests.fleet.slow.past import run as past

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
JOB = "n1/ann/train.py"


@pytest.fixture(autouse=True)
def patience(settings: Settings) -> None:
    """No warm-up: every minute counts."""
    settings.FETTLE_ADVISOR_PATIENCE_S = 0


def cards(count: int = 1, name: str = "n1") -> list[Gpu]:
    """A node's GPUs."""
    home = node(name, last_seen_at=NOON)
    return [gpu(home, index) for index in range(count)]


def played(held: list[Gpu], *numbers: int, pids: list[int], step_time_s: float | None = None) -> None:
    """These minutes after noon, each looked at in its turn."""
    for number in numbers:
        told: dict[str, Any] = {} if step_time_s is None else {"step_time_s": step_time_s}
        minute(held, NOON + minutes(number), pids, **told)
        merged(NOON + minutes(number + 1))


def silent(number: int) -> None:
    """A minute that nobody was in."""
    merged(NOON + minutes(number + 1))


def test_a_run_that_no_scheduler_told_of_has_a_row_and_holds_its_gpus() -> None:
    """From its first minute on; one that it takes later is held from then, one that it lets go until then."""
    held = cards(3)
    played(held[:2], 0, pids=[11, 12])
    played([held[0], held[2]], 1, pids=[11, 12])
    row = Job.objects.get()

    assert (row.cluster, row.job_id, row.source, row.state) == ("", JOB, "processes", "running")
    assert (row.user, row.name, row.family, row.started_at) == ("ann", "train.py", "ann/train.py", NOON)
    assert JobRun.objects.get().job_row == row
    spans = Allocation.objects.order_by("gpu").values_list("gpu", "from_at", "until_at")
    assert list(spans) == [
        (held[0].pk, NOON, None),
        (held[1].pk, NOON, NOON + minutes(1)),
        (held[2].pk, NOON + minutes(1), None),
    ]
    assert [one.target for one in holders(NOON + minutes(2))[held[2].pk]] == [JOB]


def test_it_ends_when_it_stays_away_at_the_time_it_was_seen_last() -> None:
    """Not within five minutes, and not while its node is silent: nobody knows of it then."""
    held = cards()
    played(held, 0, 1, pids=[11])
    last = NOON + timedelta(seconds=119)
    silent(4)
    assert Job.objects.get().ended_at is None
    held[0].node.last_seen_at = NOON
    held[0].node.save()
    merge(NOON + minutes(20) + LATE)
    assert Job.objects.get().ended_at is None

    silent(21)
    row = Job.objects.get()
    assert (row.ended_at, row.state) == (last, "ended")  # nobody saw how
    assert Allocation.objects.get().until_at == last


def test_one_that_was_taken_for_ended_goes_on() -> None:
    """Its processes are the same: its list could not be read for a while."""
    held = cards()
    process(held[0].node, 11, NOON, NOON + minutes(30))
    played(held, 0, pids=[11])
    silent(7)
    assert Job.objects.get().ended_at is not None
    played(held, 9, pids=[11])
    row = Job.objects.get()
    assert (row.ended_at, row.state) == (None, "running")
    assert [one.target for one in holders(NOON + minutes(10))[held[0].pk]] == [JOB]


def test_a_program_that_starts_anew_is_another_row() -> None:
    """The one before ends with its last process, so that the GPU is not shared with itself."""
    held = cards()
    played(held, 0, pids=[11])
    played(held, 1, pids=[12])
    first, second = Job.objects.order_by("started_at")
    assert (first.ended_at, second.ended_at) == (NOON + timedelta(seconds=59), None)
    (now,) = holders(NOON + minutes(2))[held[0].pk]
    assert (now.job, now.shared) == (second.pk, False)


def test_looking_twice_makes_no_second_row() -> None:
    """The same minute again."""
    held = cards()
    played(held, 0, 1, pids=[11])
    before = list(Job.objects.values()), list(Allocation.objects.values())
    merged(NOON + minutes(2))
    assert (list(Job.objects.values()), list(Allocation.objects.values())) == before


def test_runs_of_a_schedulers_job_are_its_own_on_all_its_nodes() -> None:
    """Pids are those of the first node; steps, samples and GPUs are of both. No row is made beside its own."""
    held = cards(1, "n1") + cards(1, "n2")
    mine = job("4711", NOON - minutes(1), user="ann")
    give(mine, *held)
    played(held, 0, 1, pids=[11, 12], step_time_s=0.5)
    one = JobRun.objects.get()

    assert (one.job, one.job_row, one.program) == ("west/4711", mine, "west/ada/train")
    assert (one.gpus, one.gpu_ids, one.node, one.pids) == (2, [card.pk for card in held], held[0].node, [11])
    assert one.step_time_s == pytest.approx(0.5, rel=0.002)
    assert list(Job.objects.all()) == [mine]


def test_a_job_that_its_scheduler_starts_again_begins_another_run() -> None:
    """Put back into the queue with the same number; even if the same pid comes again."""
    held = cards()
    first = job("4711", NOON, user="ann")
    give(first, *held, until=NOON + minutes(1.5))
    second = job("4711", NOON + minutes(1.5), user="ann")
    give(second, *held)
    played(held, 0, 1, pids=[11])
    assert list(JobRun.objects.order_by("first_seen").values_list("job_row", flat=True)) == [first.pk, second.pk]


def test_the_last_minute_of_a_job_is_its_own() -> None:
    """It ended within the minute, and so did its processes: no job of their name comes of it. One that stays longer is none of its."""
    held = cards()
    give(job("4711", NOON, user="ann"), *held, until=NOON + minutes(0.5))
    minute(held, NOON, [11], seconds=range(32), step_time_s=0.5)
    merged(NOON + minutes(1))
    assert list(JobRun.objects.values_list("job", flat=True)) == ["west/4711"]
    assert Job.objects.count() == 1

    played(held, 1, pids=[11])
    assert Job.objects.filter(source="processes", job_id=JOB, ended_at=None).count() == 1


def test_the_row_made_of_processes_goes_when_its_scheduler_tells_of_the_job() -> None:
    """The prolog failed, the reconciler came later: one job, with its scheduler's row."""
    held = cards()
    give(job("4000", NOON - minutes(99), ended_at=NOON - minutes(9)), *held, until=NOON - minutes(9))
    process(held[0].node, 11, NOON, NOON + minutes(9), slurm_job="4711")
    played(held, 0, pids=[11])
    made = Job.objects.get(job_id="4711")
    assert (made.cluster, made.source, made.target) == ("west", "processes", "west/4711")
    assert JobRun.objects.get().job == "west/4711"

    told = job("4711", NOON - minutes(1), user="ann")
    give(told, *held)
    played(held, 1, pids=[11])
    assert JobRun.objects.get().job_row == told
    assert Job.objects.filter(job_id="4711").count() == 1


def test_a_strangers_steps_are_not_the_jobs() -> None:
    """Two processes on the GPU: the one with another job's number does not count."""
    held = cards()
    give(job("4711", NOON, user="ann"), *held)
    for pid, number in ((11, "4711"), (12, "4712")):
        process(held[0].node, pid, NOON, NOON + minutes(9), slurm_job=number)
    minute(held, NOON, [11], step_time_s=0.5)
    minute(held, NOON, [12], step_time_s=9.0)
    merged(NOON + minutes(1))
    one = JobRun.objects.get()
    assert one.pids == [11]
    assert one.step_time_s == pytest.approx(0.5, rel=0.002)


def test_the_work_of_the_fleet_is_told_apart_by_who_is_known_to_do_it() -> None:
    """A scheduler's (shared), one of processes, one of nobody known, one idle; seen twice it counts once."""
    given, seen, unknown, free = cards(4)
    for number in ("1", "2"):
        give(job(number, NOON - minutes(9)), given, shared=True)
    minute([given, seen], NOON, [11, 12], busy=0.9)
    t = int(NOON.timestamp())
    rows = [
        {"entity": card.pk, "ts": t + s, "gr_engine_active": busy}
        for card, busy in ((unknown, 0.6), (free, 0.0))
        for s in range(60)
    ]
    store().write("gpu", pl.DataFrame(rows))
    merged(NOON + minutes(1))
    merged(NOON + minutes(1))
    found = covered(NOON + minutes(1))

    assert found is not None
    assert (found.minutes, found.present_gpu_minutes) == (1, 4)
    assert found.busy_s == pytest.approx((0.9 + 0.9 + 0.6) * 60)
    assert found.busy_pct("scheduled") == pytest.approx(100 * 0.9 / 2.4)
    assert found.busy_pct("processes") == pytest.approx(100 * 0.9 / 2.4)
    assert found.busy_pct("unknown") == pytest.approx(100 * 0.6 / 2.4)
    assert [found.gpus_pct(whose) for whose in ("scheduled", "processes", "unknown")] == [25.0, 25.0, 25.0]


def test_of_time_in_which_nothing_was_measured_nothing_is_said() -> None:
    """Absent is not zero, and work of none has no parts."""
    assert covered(NOON) is None
    Coverage.objects.create(
        start=int(NOON.timestamp()), present=2, scheduled=1, processes=0, unknown=0,
        busy_scheduled_s=0, busy_processes_s=0, busy_unknown_s=0,
    )  # fmt: skip
    found = covered(NOON + minutes(1))
    assert found is not None
    assert (found.busy_pct("scheduled"), found.gpus_pct("scheduled")) == (None, 50.0)


def test_minutes_of_attribution_go_after_a_month() -> None:
    """The newest stay."""
    Coverage.objects.create(
        start=int((NOON - timedelta(days=31)).timestamp()), present=2, scheduled=1, processes=0, unknown=0,
        busy_scheduled_s=0, busy_processes_s=0, busy_unknown_s=0,
    )  # fmt: skip
    played(cards(), 0, pids=[11])
    assert list(Coverage.objects.values_list("start", flat=True)) == [int(NOON.timestamp())]


def test_past_runs_of_a_family_are_alike_whatever_their_number_and_node() -> None:
    """Four array tasks on four nodes, of one GPU each: the fourth has a baseline of three. Another model or count is not alike."""
    for number in range(3):
        home = node(f"n{number}", last_seen_at=NOON)
        past(
            home,
            NOON - minutes(600 - 100 * number),
            NOON - minutes(520 - 100 * number),
            job=f"west/471{number}",
            program="west/ada/train",
        )
    past(home, NOON - minutes(300), NOON - minutes(200), job="west/4800", program="west/ada/train", gpus=8)
    here = cards(1, "n9")
    give(job("4713", NOON - minutes(1), user="ann"), *here)
    played(here, 0, pids=[11], step_time_s=0.6)
    run = JobRun.objects.get(job="west/4713")
    row = base.figures(NOON + minutes(1), {"west/4713": run})["west/4713"]

    assert (row["base_runs"], row["base_step_time_s"]) == (3, pytest.approx(0.5, rel=0.002))
