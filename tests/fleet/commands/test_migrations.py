"""Migrations go back as well as forth."""

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection


def may(role: str) -> set[str]:
    """What the role may do with commands."""
    permissions = Group.objects.get(name=role).permissions.filter(content_type__app_label="commands")
    return set(permissions.values_list("codename", flat=True))


@pytest.mark.django_db(transaction=True)
def test_the_log_and_its_permissions_can_be_undone() -> None:
    """The roles lose what they held of it, then the table goes."""
    assert may("viewer") == {"view_command"}
    assert may("operator") == may("admin") == {"view_command", "add_command"}
    try:
        call_command("migrate", "commands", "0001", verbosity=0)
        held = may("operator")
        call_command("migrate", "commands", "zero", verbosity=0)
        tables = connection.introspection.table_names()
    finally:
        call_command("migrate", verbosity=0)

    assert held == set()
    assert "commands_command" not in tables
    assert may("operator") == {"view_command", "add_command"}
