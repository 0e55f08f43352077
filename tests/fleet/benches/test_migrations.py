"""Migrations go back as well as forth."""

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection


def may(role: str) -> set[str]:
    """What the role may do with bench runs."""
    permissions = Group.objects.get(name=role).permissions.filter(content_type__app_label="benches", codename__endswith="run")
    return set(permissions.values_list("codename", flat=True))


@pytest.mark.django_db(transaction=True)
def test_runs_and_their_permissions_can_be_undone() -> None:
    """The roles lose what they held of them, then the tables go."""
    assert may("viewer") == {"view_benchrun"}
    assert may("operator") == {"view_benchrun", "add_benchrun"}
    assert may("admin") == {"view_benchrun", "add_benchrun", "delete_benchrun"}
    try:
        call_command("migrate", "benches", "0001", verbosity=0)
        held = may("operator")
        call_command("migrate", "benches", "zero", verbosity=0)
        tables = connection.introspection.table_names()
    finally:
        call_command("migrate", verbosity=0)

    assert held == set()
    assert "benches_benchrun" not in tables
    assert may("operator") == {"view_benchrun", "add_benchrun"}
