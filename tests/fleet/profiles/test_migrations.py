"""Migrations go back as well as forth."""

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection


def may(role: str) -> set[str]:
    """What the role may do with profiles."""
    permissions = Group.objects.get(name=role).permissions.filter(content_type__app_label="profiles")
    return set(permissions.values_list("codename", flat=True))


@pytest.mark.django_db(transaction=True)
def test_profiles_and_their_permissions_can_be_undone() -> None:
    """The roles lose what they held of them, then the table goes."""
    assert may("viewer") == {"view_jobprofile"}
    assert may("operator") == {"view_jobprofile", "add_jobprofile"}
    assert may("admin") == {"view_jobprofile", "add_jobprofile", "delete_jobprofile"}
    try:
        call_command("migrate", "profiles", "0001", verbosity=0)
        held = may("operator")
        call_command("migrate", "profiles", "zero", verbosity=0)
        tables = connection.introspection.table_names()
    finally:
        call_command("migrate", verbosity=0)

    assert held == set()
    assert "profiles_jobprofile" not in tables
    assert may("operator") == {"view_jobprofile", "add_jobprofile"}
