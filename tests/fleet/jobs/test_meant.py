"""Which run is meant where a prolog tells no count of restarts: a run that was put back is never folded into the one before."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleet.jobs.holdings import Given
from fleet.jobs.models import Job
from fleet.jobs.telling import Told, tell

pytestmark = pytest.mark.django_db
START = datetime(2026, 11, 1, 12, tzinfo=UTC)
AT = START + timedelta(hours=2)


def after(s: float) -> datetime:
    """So many seconds after the first start."""
    return START + timedelta(seconds=s)


def told(**more: Any) -> Told:
    """Something of the job 4711."""
    return Told(**{"cluster": "west", "job_id": "4711", **more})  # type: ignore[typeddict-item] # checked by its readers


def prolog(s: float, on: str = "n1", **more: Any) -> Told:
    """A start by the clock of a node, whose Slurm tells no count of restarts unless it is given."""
    return told(started_about=after(s), state="running", allocations=[Given(node=on, devices=["0"], shared=False)], **more)


def rows() -> list[tuple[float, int | None, str, float | None]]:
    """Start, count, state and end of each run, in seconds after START."""
    return [
        (_s(job.started_at), job.restarts, job.state, None if job.ended_at is None else _s(job.ended_at))
        for job in Job.objects.order_by("started_at")
    ]


def _s(at: datetime) -> float:
    return (at - START).total_seconds()


def test_a_count_that_nobody_told_is_empty() -> None:
    """Absent is not 0."""
    tell([prolog(2)], AT)

    assert rows() == [(2, None, "running", None)]


def test_the_schedulers_start_joins_the_run_whose_prolog_told_no_count() -> None:
    """It is then called by that start and has the count; what it held, it held from then."""
    tell([prolog(2)], AT)
    tell([told(started_at=START, restarts=0)], AT)
    tell([prolog(4, "n2"), told(started_at=START, restarts=0)], AT)

    assert rows() == [(0, 0, "running", None)]
    assert set(Job.objects.get().allocations.values_list("node_name", "from_at")) == {("n1", START), ("n2", START)}


def test_a_run_that_was_put_back_does_not_join_its_first() -> None:
    """Its own prolog was missed, and so was the first one's epilog: the first began too early to be it."""
    tell([prolog(2)], AT)
    tell([told(started_at=after(40), restarts=1, state="running")], AT)

    assert rows() == [(2, None, "lost", 40), (40, 1, "running", None)]


def test_each_start_joins_the_run_that_began_nearest_to_it() -> None:
    """Whichever is told first."""
    tell([prolog(2), told(ended_at=after(30)), prolog(41)], AT)
    tell([told(started_at=after(40), restarts=1), told(started_at=START, restarts=0)], AT)

    assert rows() == [(0, 0, "ended", 30), (40, 1, "running", None)]


def test_an_end_before_the_second_prolog_keeps_the_first_start_from_it() -> None:
    """The first prolog was missed; accounting has the first run's end."""
    tell([prolog(400)], AT)
    tell([told(started_at=START, ended_at=after(200), state="requeued", restarts=0)], AT)

    assert rows() == [(0, 0, "requeued", 200), (400, None, "running", None)]


def test_a_nodes_second_start_is_another_run() -> None:
    """A prolog runs once on each node of a run: the end of the first was missed. Told again at once it is the same."""
    tell([prolog(0), prolog(3, "n2"), prolog(3, "n2"), prolog(20, "n3")], AT)
    assert rows() == [(0, None, "running", None)]

    tell([prolog(300, "N2")], AT)

    assert rows() == [(0, None, "lost", 300), (300, None, "running", None)]


def test_an_epilog_that_counts_one_restart_more_tells_that_the_run_was_put_back() -> None:
    """Slurm's own word at the first epilog of a requeued job: the count is the next run's, and its exit code 0 is nobody's."""
    tell([prolog(0, restarts=0), prolog(1, "n2", restarts=0)], AT)
    tell([told(ended_at=after(50), exit_code=0, restarts=1)], AT)
    tell([told(ended_at=after(51), exit_code=0, restarts=1), prolog(180, restarts=1)], AT)
    first = Job.objects.get(restarts=0)

    assert rows() == [(0, 0, "requeued", 50), (180, 1, "running", None)]
    assert first.exit_code is None
    tell([told(ended_at=after(400), exit_code=0, restarts=1)], AT)
    assert rows()[1] == (180, 1, "completed", 400)


def test_an_end_of_which_nobody_tells_how_is_no_success() -> None:
    """Whoever knows puts it right: another node's exit code, or the scheduler."""
    tell([prolog(0), told(ended_at=after(50))], AT)
    assert rows() == [(0, None, "ended", 50)]
    tell([prolog(0), told(state="lost")], AT)
    assert rows() == [(0, None, "ended", 50)]

    tell([told(ended_at=after(51), exit_code=0)], AT)
    assert rows() == [(0, None, "completed", 50)]
    tell([told(started_at=START, state="cancelled")], AT)
    assert rows() == [(0, None, "cancelled", 50)]
