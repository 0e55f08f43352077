"""Jobs and what they hold, as rows."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import IntegrityError, connection

from fleet.jobs.models import Job, cluster_name, job_number

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


def test_a_job_is_called_by_its_cluster_and_id_or_as_its_processes() -> None:
    """What findings call a job of a scheduler, and one that only processes tell of."""
    assert Job(cluster="west", job_id="4714", started_at=AT).target == "west/4714"
    assert Job(job_id="n1/ada/train.py", started_at=AT).target == "n1/ada/train.py"


@pytest.mark.django_db
def test_a_job_id_that_is_used_again_is_another_row() -> None:
    """The key is cluster, id and start together."""
    for at in (AT, AT.replace(hour=13)):
        Job.objects.create(cluster="west", job_id="4711", started_at=at, source="slurm", family="ada/train")
    with pytest.raises(IntegrityError):
        Job.objects.create(cluster="west", job_id="4711", started_at=AT, source="slurm", family="ada/train")


@pytest.mark.parametrize("name", ["", "a/b", "-a", "a b", "a\n", "ä", "a" * 101])
def test_a_clusters_name_is_plain(name: str) -> None:
    """It stands in addresses and in targets, before a slash."""
    with pytest.raises(ValidationError):
        cluster_name(name)


@pytest.mark.parametrize("number", ["4711", "4711_3", "4711+1", "team-a.train-0", "s1ABCD"])
def test_ids_of_known_schedulers_are_taken(number: str) -> None:
    """Slurm's jobs, tasks of arrays, components, SLUIDs; Kubernetes' pods with their namespace."""
    job_number(number)


@pytest.mark.django_db(transaction=True)
def test_the_tables_and_what_roles_may_can_be_undone() -> None:
    """Migrations go back as well as forth."""
    held = Group.objects.get(name="operator").permissions.filter(content_type__app_label="jobs")
    assert set(held.values_list("codename", flat=True)) == {"view_job", "add_job", "change_job", "delete_job"}
    try:
        call_command("migrate", "jobs", "0001", verbosity=0)
        after = held.count()
        call_command("migrate", "jobs", "zero", verbosity=0)
        tables = set(connection.introspection.table_names())
    finally:
        call_command("migrate", verbosity=0)
    assert after == 0
    assert tables.isdisjoint({"jobs_job", "jobs_allocation"})
