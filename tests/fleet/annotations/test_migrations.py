"""Migrations go back as well as forth."""

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection

WRITE = {"view_annotation", "add_annotation", "change_annotation", "delete_annotation"}


def may(role: str) -> set[str]:
    """What the role may do with annotations."""
    permissions = Group.objects.get(name=role).permissions.filter(content_type__app_label="annotations")
    return set(permissions.values_list("codename", flat=True))


@pytest.mark.django_db(transaction=True)
def test_annotations_runs_and_frames_can_be_undone() -> None:
    """The roles lose what they held, then the tables go."""
    assert may("viewer") == {"view_annotation"}
    assert may("operator") == may("admin") == WRITE
    try:
        call_command("migrate", "annotations", "0001", verbosity=0)
        held = may("operator")
        call_command("migrate", "annotations", "zero", verbosity=0)
        call_command("migrate", "slow", "zero", verbosity=0)
        tables = set(connection.introspection.table_names())
    finally:
        call_command("migrate", verbosity=0)

    assert held == set()
    assert tables.isdisjoint({"annotations_annotation", "slow_jobrun", "slow_slowframe"})
    assert may("operator") == WRITE
