"""Migrations go back as well as forth."""

import pytest
from django.core.management import call_command
from django.db import connection


@pytest.mark.django_db(transaction=True)
def test_engines_and_processes_can_be_undone() -> None:
    """An operator who goes back to the version before loses these two tables, what came after them, and nothing else."""
    call_command("migrate", "inventory", "0003", verbosity=0)
    try:
        before = set(connection.introspection.table_names())
    finally:
        call_command("migrate", verbosity=0)  # what stands on it went with it
    after = set(connection.introspection.table_names())

    assert after - before == {
        "inventory_engine", "inventory_process", "commands_command", "benches_benchrun", "benches_benchscore", "slow_jobrun",
        "slow_slowframe", "slow_coverage", "profiles_jobprofile", "jobs_job", "jobs_allocation", "reports_jobsummary",
        "inventory_gpulisting",
    }  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_facts_can_be_undone() -> None:
    """An operator who goes back loses these columns, and nothing else."""

    def columns() -> set[tuple[str, str]]:
        with connection.cursor() as cursor:
            return {
                (table, column.name)
                for table in ("inventory_node", "inventory_gpu", "inventory_engine", "inventory_event")
                for column in connection.introspection.get_table_description(cursor, table)
            }

    after = columns()
    call_command("migrate", "inventory", "0005", verbosity=0)
    try:
        before = columns()
    finally:
        call_command("migrate", verbosity=0)  # what stands on it went with it

    assert columns() == after
    assert after - before == {
        *(("inventory_node", name) for name in
          ("nvidia_module_version", "nvidia_parameters", "cpu_governor", "numa_distances", "facts_absent", "served_by", "source", "rdma_ready",
           "last_received_at", "said_bye_at", "booted_at")),
        *(("inventory_gpu", name) for name in
          ("numa_node", "labels", "labels_told_at", "memory_kind", "accounting_mode", "power_scope", "power_average_s")),
        *(("inventory_engine", name) for name in ("why_silent", "absent")),
        ("inventory_event", "severity"),
        ("inventory_event", "details"),
    }  # fmt: skip
