"""Migrations go back as well as forth."""

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection

LOOK = {"view_rulestate", "view_override", "view_ownrule", "view_trial", "view_rulechange", "view_xidoverride"}


def may(role: str) -> set[str]:
    """What the role may do with what is set of rules."""
    permissions = Group.objects.get(name=role).permissions.filter(content_type__app_label="tuning")
    return set(permissions.values_list("codename", flat=True))


@pytest.mark.django_db(transaction=True)
def test_what_is_set_of_rules_and_its_permissions_can_be_undone() -> None:
    """The roles lose what they held of it, then the tables go, and findings forget shadow."""
    assert may("viewer") == LOOK
    assert may("operator") == may("admin") == LOOK | {"add_rulechange"}
    try:
        call_command("migrate", "tuning", "0001", verbosity=0)
        held = may("operator")
        call_command("migrate", "tuning", "zero", verbosity=0)
        call_command("migrate", "findings", "0004", verbosity=0)
        tables = connection.introspection.table_names()
        with connection.cursor() as cursor:
            columns = {column.name for column in connection.introspection.get_table_description(cursor, "findings_finding")}
    finally:
        call_command("migrate", verbosity=0)

    assert held == set()
    assert not {name for name in tables if name.startswith("tuning_")}
    assert "shadow" not in columns
    assert may("operator") == LOOK | {"add_rulechange"}
