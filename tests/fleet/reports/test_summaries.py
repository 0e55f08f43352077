"""What stays of a job, when it is made, and that telemetry that ages out takes nothing from it."""

from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from fleet.inventory.models import Gpu
from fleet.jobs.holdings import Given
from fleet.jobs.models import Job
from fleet.jobs.telling import Told, tell
from fleet.reports.models import JobSummary
from fleet.reports.outdated import held_otherwise
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


def _final(seconds: int = 120) -> Job:
    """A job that ended, as its scheduler told, and whose summary is final."""
    (card,) = cards()
    told: Told = {"cluster": "west", "job_id": "4711", "started_at": NOON - timedelta(seconds=seconds), "ended_at": NOON, "state": "completed",
                  "allocations": [{"node": "n1", "devices": [card.uuid], "shared": False}]}  # fmt: skip
    (row,) = tell([told], NOON)
    play("loader_starved", [card], before_s=60)
    play("fp32_train", [card])
    keep(row, NOON + SETTLED)
    return row


LATER = NOON + timedelta(hours=2)


def _told_late(*, from_s: int, to_s: int, job_id: str = "4712") -> None:
    """Two hours later: another job held the card as well, so many seconds before noon."""
    told: Told = {"cluster": "west", "job_id": job_id, "started_at": NOON - timedelta(seconds=from_s), "ended_at": NOON - timedelta(seconds=to_s),
                  "allocations": [{"node": "n1", "devices": [Gpu.objects.get().uuid], "shared": False}]}  # fmt: skip
    tell([told], LATER)


def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.utils.timezone.now", lambda: LATER)


def test_a_final_summary_is_made_anew_when_another_job_turns_out_to_have_held_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last minute, in which it computed, was shared: its hours halve, and the verdict is of the first minute."""
    _now(monkeypatch)
    row = _final()
    before = JobSummary.objects.get()
    _told_late(from_s=60, to_s=0)
    assert row.pk in due(LATER)
    summarise(LATER, 30.0)
    after = JobSummary.objects.get(job=row)

    assert before.gpu_hours == pytest.approx(120 / 3600)
    assert after.gpu_hours == pytest.approx(60 / 3600)
    assert after.document["shared_gpu_hours"] == pytest.approx(60 / 3600)
    assert (after.bottleneck, after.due_at, after.outdated_since) == ("data", None, None)
    assert [one["bottleneck"] for one in after.document["bins"]] == ["data", "data", "", ""]
    assert after.energy_j is not None
    assert before.energy_j is not None
    assert after.energy_j < 0.5 * before.energy_j
    assert due(LATER) == []


def test_a_summary_whose_job_is_told_to_have_ended_earlier_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler's own end takes the place of the guess: half the time, and another bottleneck."""
    _now(monkeypatch)
    row = _final()
    tell([{"cluster": "west", "job_id": "4711", "started_at": row.started_at, "ended_at": NOON - timedelta(seconds=60)}], LATER)
    summarise(LATER, 30.0)
    after = JobSummary.objects.get()

    assert after.gpu_hours == pytest.approx(60 / 3600)
    assert (after.bottleneck, after.document["until"]) == ("data", int(NOON.timestamp()) - 60)


def test_a_summary_whose_allocation_is_told_to_be_shared_has_no_figure_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scheduler said so later: all hours are shared ones."""
    _now(monkeypatch)
    row = _final()
    given: list[Given] = [{"node": "n1", "devices": [Gpu.objects.get().uuid], "shared": True}]
    tell([{"cluster": "west", "job_id": "4711", "started_at": row.started_at, "allocations": given}], LATER)
    summarise(LATER, 30.0)
    after = JobSummary.objects.get()

    assert (after.gpu_hours, after.document["shared_gpu_hours"], after.energy_j) == (0, pytest.approx(120 / 3600), None)
    assert after.document["absent"]["energy_j"] == "shared"


def test_a_summary_whose_telemetry_has_aged_out_stays_and_says_since_when_it_is_outdated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing could be made of an empty store; told the same again changes nothing more."""
    _now(monkeypatch)
    row = _final()
    before = JobSummary.objects.get()
    store.cache_clear()
    _told_late(from_s=60, to_s=0)
    summarise(LATER, 30.0)
    after = JobSummary.objects.get(job=row)

    assert after.document == before.document
    assert (after.outdated_since, after.due_at) == (LATER, None)
    assert report(row, LATER).outdated_since == LATER
    _told_late(from_s=60, to_s=0)
    assert row.pk not in due(LATER)


def test_what_is_told_of_other_times_or_of_now_leaves_final_summaries_alone(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """A job before it on the same card, the same told again, and one that begins now, for which nothing is even asked."""
    _now(monkeypatch)
    row = _final()
    _told_late(from_s=600, to_s=120)
    tell([{"cluster": "west", "job_id": "4711", "started_at": row.started_at, "ended_at": NOON, "state": "completed"}], LATER)
    assert row.pk not in due(LATER)
    with django_assert_num_queries(0):
        held_otherwise(row.pk, LATER, None, ())


def test_a_correction_that_takes_an_overlap_back_gives_the_time_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other job had ended before, it turns out: the summary is as it was first."""
    _now(monkeypatch)
    row = _final()
    first = JobSummary.objects.get().document
    _told_late(from_s=90, to_s=0)
    summarise(LATER, 30.0)
    between = JobSummary.objects.get(job=row).gpu_hours
    _told_late(from_s=90, to_s=90)
    summarise(LATER, 30.0)
    again = JobSummary.objects.get(job=row).document

    assert between == pytest.approx(30 / 3600)
    assert again["gpu_hours"] == first["gpu_hours"]
    assert [one["bottleneck"] for one in again["bins"]] == [one["bottleneck"] for one in first["bins"]]


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
