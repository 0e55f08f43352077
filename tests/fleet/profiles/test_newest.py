"""Which profile speaks for a job."""

from datetime import datetime, timedelta

import polars as pl
import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from advisor.profiles.joined import FEATURES
from advisor.slow_columns import columns
from fleet.inventory.models import Node, Process
from fleet.profiles.keep import keep
from fleet.profiles.models import JobProfile
from fleet.profiles.newest import assign, of_job, profile_features
from tests.fleet.profiles.reports import report
from tests.fleet.rows import node

pytestmark = pytest.mark.django_db
NOW = timezone.now()
JOB = "n1/alice/python"


def sent(home: Node, days_ago: float, idle_s: float = 0.64, **more: object) -> JobProfile:
    """A profile that was written so many days ago."""
    at = (NOW - timedelta(days=days_ago)).timestamp()
    return keep(report(home, at=at, idle_s=idle_s, **more), home, NOW).profile


def running(home: Node, since: datetime, name: str = "python") -> None:
    """A process of the program that is there."""
    Process.objects.create(node=home, pid=7, name=name, told_at=NOW, first_seen_at=since, last_seen_at=NOW)


def idle(at: datetime = NOW) -> dict[str, float]:
    """The idle share by job."""
    return dict(profile_features(at).select("job", "profile_idle_share").iter_rows())


def test_the_newest_speaks() -> None:
    """By the time of the trace, not of its arrival; each job has its own."""
    home = node()
    sent(home, 1, 0.2)
    sent(home, 3, 0.6)
    sent(home, 2, 0.4, job="n1/bob/train")

    assert idle() == pytest.approx({JOB: 0.2, "n1/bob/train": 0.4})
    assert idle(NOW - timedelta(days=2.5)) == pytest.approx({JOB: 0.6})


def test_two_of_one_moment_are_one() -> None:
    """Two ranks write at once: a job has one row, and the later to come speaks."""
    home = node()
    sent(home, 1, 0.2, rank=0)
    sent(home, 1, 0.3, rank=1)

    assert idle() == pytest.approx({JOB: 0.3})


def test_after_a_week_only_a_run_that_goes_on_keeps_its_profile() -> None:
    """One that was written before the run began is another run's; another program's process keeps nothing."""
    home = node()
    sent(home, 9)
    assert idle() == {}
    running(home, NOW - timedelta(days=12), name="jupyter")
    assert idle() == {}
    Process.objects.update(name="python")
    assert idle() == pytest.approx({JOB: 0.64})
    Process.objects.update(first_seen_at=NOW - timedelta(days=8))
    assert idle() == {}
    Process.objects.update(first_seen_at=NOW - timedelta(days=12), last_seen_at=NOW - timedelta(hours=1))
    assert idle() == {}


def test_a_process_gives_its_profile_to_its_job() -> None:
    """The pid on that node, whichever of its GPUs; another node's process of the same number does not."""
    home, other = node(), node("n2")
    row, strange = sent(home, 0.01, job="", pid=50), sent(home, 0.02, job="", pid=60)
    held = pl.DataFrame({"gpu": [1, 2, 3, 1], "pid": [50, 50, 51, 50]})
    cards = pl.DataFrame({"gpu": [1, 2, 3], "node": [home.pk, other.pk, home.pk], "job": [JOB, "n2/bob/train", "n1/carol/eval"]})
    assert idle() == {}

    assert assign(NOW, held, cards) == 1
    row.refresh_from_db()
    strange.refresh_from_db()
    assert (row.job, strange.job) == (JOB, "")
    assert idle() == pytest.approx({JOB: 0.64})
    assert of_job(JOB, NOW) == row


def test_a_number_that_another_process_may_have_by_now_is_not_looked_for() -> None:
    """An hour after the profile came it stays nobody's."""
    home = node()
    sent(home, 0.01, job="", pid=50)
    held = pl.DataFrame({"gpu": [1], "pid": [50]})
    cards = pl.DataFrame({"gpu": [1], "node": [home.pk], "job": [JOB]})

    assert assign(NOW + timedelta(minutes=61), held, cards) == 0
    assert assign(NOW + timedelta(minutes=59), held, cards) == 1


def test_without_profiles_there_are_columns_and_no_rows(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Those that the rules read, of the types that they have; a cycle costs one query for each of the two."""
    with django_assert_num_queries(2):
        assign(NOW, pl.DataFrame(), pl.DataFrame())
        found = profile_features(NOW)

    assert found.is_empty()
    assert found.columns == ["job", *FEATURES]
    assert found.schema.items() <= pl.DataFrame(schema=columns("job")).schema.items()
    assert of_job(JOB, NOW) is None


def test_many_jobs_cost_no_more_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """One for all, one more where one is older than a week."""
    for number in range(5):
        sent(node(f"n{number}"), 1, job=f"n{number}/alice/python")
    sent(node("old"), 9)
    with django_assert_num_queries(2):
        assert profile_features(NOW).height == 5
