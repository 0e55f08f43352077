"""Migrations go back as well as forth."""

import pytest
from django.core.management import call_command
from django.db import connection


@pytest.mark.django_db(transaction=True)
def test_engines_and_processes_can_be_undone() -> None:
    """An operator who goes back to the version before loses these two tables, and nothing else."""
    call_command("migrate", "inventory", "0003", verbosity=0)
    try:
        before = set(connection.introspection.table_names())
    finally:
        call_command("migrate", "inventory", verbosity=0)
    after = set(connection.introspection.table_names())

    assert after - before == {"inventory_engine", "inventory_process"}
