"""Jobs by the id that a person knows."""

from datetime import UTC, datetime
from typing import Literal

import pytest

from fleet.jobs.called import called
from fleet.jobs.models import Job

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("wanted", "by", "found"),
    [
        ("4714", "exact", {"4714"}), ("4711_3", "exact", {"4714"}), ("4711+1", "exact", {"4712"}), ("4711_4", "exact", {"4715", "4711_4"}),
        ("4711", "exact", set()), ("711_3", "exact", set()), ("4711_3", "icontains", {"4714"}), ("471", "icontains", {"4712", "4714", "4715", "4711_4"}),
        ("x", "icontains", set()),
    ],
)  # fmt: skip
def test_a_task_and_a_component_are_found_by_both_of_their_names(
    wanted: str, by: Literal["exact", "icontains"], found: set[str]
) -> None:
    """Slurm's own number, which is the id, and the one that squeue shows, which is a label; an id that was told so is one, too."""
    for number, shown in (("4714", "4711_3"), ("4715", "4711_4"), ("4712", "4711+1"), ("4711_4", "")):
        labels = {"slurm_id": shown} if shown else {}
        Job.objects.create(cluster="west", job_id=number, started_at=AT, array_job_id="4711" if shown else "", labels=labels)

    assert {job.job_id for job in Job.objects.filter(called(wanted, by))} == found
