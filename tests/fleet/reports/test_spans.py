"""What of a job's time was its own, and what others held too."""

from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from fleet.jobs.models import Job
from fleet.reports.spans import held
from tests.fleet.reports.played import cards, give, job
from tests.fleet.rows import NOON

pytestmark = pytest.mark.django_db


def _times(row: Job) -> tuple[list[tuple[int, int]], int]:
    """Its own spans in seconds before noon, and its shared seconds."""
    found, noon = held(row, NOON), int(NOON.timestamp())
    return [(noon - span.start, noon - span.end) for span in found.spans], found.shared_s


def test_jobs_that_hold_a_gpu_at_the_same_time_share_it() -> None:
    """Neither's allocation says so."""
    (card,) = cards()
    rows = [job([card]), job([card], job_id="4712")]

    for row in rows:
        found = held(row, NOON)
        assert _times(row) == ([], 60)
        assert (found.shared, found.own_s, list(found.cards)) == ((("n1", "0"),), 0, [])


def test_only_the_part_that_others_held_too_is_shared() -> None:
    """What lies before and after it stays the job's own."""
    (card,) = cards()
    mine = job([card], 100)
    for number, (first, last) in enumerate([(20, 40), (30, 50)]):
        other = job([], 100, job_id=f"short{number}")
        one = give(other, card, from_s=first)
        one.until_at = other.started_at + timedelta(seconds=last)
        one.save()

    assert _times(mine) == ([(100, 80), (50, 0)], 30)
    assert held(mine, NOON).shared == (("n1", "0"),)
    assert list(held(mine, NOON).cards) == [card]


def test_one_side_that_says_shared_is_shared_whole_and_the_other_in_part() -> None:
    """The side that does not say so shares while both are there."""
    (card,) = cards()
    says, silent = job([card], 40, shared=True), job([card], 100, job_id="4712")

    assert _times(says) == ([], 40)
    assert _times(silent) == ([(100, 40)], 40)


def test_a_run_without_an_end_has_ended_where_the_next_run_of_its_id_begins() -> None:
    """A job id runs once at a time: no second counts twice, and none is lost."""
    (card,) = cards()
    first, second = job([card], 100, running=True), job([card], 40)

    assert _times(first) == ([(100, 40)], 0)
    assert _times(second) == ([(40, 0)], 0)


def test_an_allocation_that_nobody_closed_ends_with_its_job() -> None:
    """As it does in that job's own report."""
    (card,) = cards()
    gone = job([], 100)
    gone.ended_at = NOON - timedelta(seconds=60)
    gone.save()
    one = give(gone, card)
    one.until_at = None
    one.save()

    assert _times(job([card], 40, job_id="4712")) == ([(40, 0)], 0)


def test_jobs_that_follow_each_other_share_nothing() -> None:
    """The second begins in the second in which the first ended."""
    (card,) = cards()
    first, second = job([], 100), job([card], 40, job_id="4712")
    one = give(first, card)
    one.until_at = second.started_at
    one.save()

    assert _times(first) == ([(100, 40)], 0)
    assert _times(second) == ([(40, 0)], 0)


def test_what_processes_show_takes_nothing_from_a_schedulers_job() -> None:
    """The seconds count once: for the job that the scheduler told of."""
    (card,) = cards()
    told = job([card], 40)
    seen = job([card], 100, source="processes", cluster="", job_id="n1/ada/python")

    assert _times(told) == ([(40, 0)], 0)
    assert _times(seen) == ([(100, 40)], 40)


def test_two_runs_of_processes_share() -> None:
    """Where no scheduler told of any."""
    (card,) = cards()
    rows = [job([card], source="processes", cluster="", job_id=f"n1/{user}/python") for user in ("ada", "bob")]

    assert [_times(row) for row in rows] == [([], 60), ([], 60)]


def test_the_others_of_all_gpus_are_asked_for_at_once(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """One query for its allocations, one for all of their GPUs, and one for the jobs."""
    gpus = cards(8)
    mine = job(gpus)
    job(gpus[:4], job_id="4712")

    with django_assert_num_queries(3):
        found = held(mine, NOON)
    assert (len(found.spans), found.shared_s, len(found.shared)) == (4, 240, 4)
