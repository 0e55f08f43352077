"""What stays of a job, when it is made, and that telemetry that ages out takes nothing from it."""

from datetime import timedelta

import pytest

from fleet.jobs.models import Job
from fleet.reports.models import JobSummary
from fleet.reports.summaries import SETTLED, due, keep, report, summarise
from fleet.store.series import store
from tests.fleet.reports.played import cards, job, play
from tests.fleet.rows import NOON, minutes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]


def test_the_report_stays_when_the_telemetry_has_aged_out_and_says_so() -> None:
    """The summary answers: the same energy, quantiles and labels, from a store that is empty."""
    gpus = cards()
    play("fp32_train", gpus)
    row = job(gpus)
    keep(row, NOON + SETTLED)
    before = report(row, NOON + SETTLED)
    store.cache_clear()  # the engine in memory forgets everything
    after = report(row, NOON + timedelta(days=400))

    assert (before.final, before.aged_out) == (True, False)
    assert (after.final, after.aged_out) == (True, True)
    assert after.document == before.document
    assert after.document["energy_j"] > 9_000
    assert [one["bottleneck"] for one in after.document["bins"]] == ["compute", "compute"]


def test_a_report_that_sees_less_never_takes_the_place_of_one_that_saw_more() -> None:
    """The telemetry of an ended job is lost before its summary is final: what was made while it was there is kept."""
    gpus = cards()
    play("fp32_train", gpus)
    row = job(gpus)
    first = keep(row, NOON + minutes(1))
    store.cache_clear()
    again = keep(row, NOON + SETTLED)

    assert again.document == first.document
    assert JobSummary.objects.get().due_at is None
    assert report(row, NOON + SETTLED).document["coverage"] == 1


def test_readings_that_come_late_are_in_the_final_summary() -> None:
    """An agent that was cut off sends what it kept some minutes after the job's end."""
    gpus = cards()
    row = job(gpus)
    first = keep(row, NOON + minutes(1))
    play("fp32_train", gpus)
    again = keep(row, NOON + SETTLED)

    assert (first.coverage, first.energy_j, first.bottleneck) == (0, None, "")
    assert (again.coverage, again.bottleneck) == (1, "compute")
    assert again.energy_j is not None


def test_a_summary_is_due_at_the_end_then_once_more_and_then_never() -> None:
    """A job that runs has one every few minutes; one that ended a first one at once, and the last one when late readings are in."""
    gpus = cards()
    row = job(gpus, 600, running=True)
    assert due(NOON) == [row.pk]
    keep(row, NOON)
    assert due(NOON + minutes(4)) == []
    assert due(NOON + minutes(5)) == [row.pk]

    Job.objects.update(ended_at=NOON + minutes(2), state="completed")
    assert due(NOON + minutes(3)) == [row.pk]
    row.refresh_from_db()
    keep(row, NOON + minutes(3))
    assert due(NOON + minutes(16)) == []
    assert due(NOON + minutes(17)) == [row.pk]
    keep(row, NOON + minutes(17))
    assert due(NOON + timedelta(days=30)) == []


def test_a_job_that_never_had_a_summary_comes_before_those_that_wait_for_another() -> None:
    """Whatever the database sorts nothing as; else one that runs on would keep the others waiting."""
    old, new = (job([card], 600, running=True, job_id=str(number)) for number, card in enumerate(cards(2)))
    keep(old, NOON)

    assert due(NOON + minutes(5)) == [new.pk, old.pk]


def test_the_task_makes_what_is_due_within_its_time() -> None:
    """Of two jobs both; with no time left none, and the next run goes on."""
    gpus = cards(2)
    for number, card in enumerate(gpus):
        job([card], job_id=str(number))

    assert summarise(NOON + minutes(1), 0.0) == 0
    assert summarise(NOON + minutes(1), 30.0) == 2
    assert summarise(NOON + minutes(1), 30.0) == 0


def test_bins_of_a_job_that_runs_are_taken_over() -> None:
    """What was judged while its seconds were there stays, though only later stretches can be read now."""
    gpus = cards()
    play("loader_starved", gpus, before_s=60)
    row = job(gpus, 120, running=True)
    Job.objects.update(started_at=NOON - timedelta(seconds=120))
    row.refresh_from_db()
    keep(row, NOON - timedelta(seconds=25))
    store.cache_clear()
    play("fp32_train", gpus)
    again = keep(row, NOON)

    assert [one["bottleneck"] for one in again.document["bins"]] == ["data", "data", "compute", "compute"]
