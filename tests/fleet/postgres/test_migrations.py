"""All migrations, on PostgreSQL: a new site's, and back."""

from collections.abc import Callable

import pytest

from tests.postgres import Postgres

pytestmark = pytest.mark.slow
OURS = (
    "notify", "verdicts", "reports", "findings", "slow", "jobs", "ingest", "tuning", "profiles", "annotations", "benches", "commands",
    "inventory",
)  # fmt: skip
"""Our apps, each before those that it refers to; without accounts, which Django's own refer to."""


def test_migrations_go_from_nothing_to_all_and_back(server: Postgres, manage: Callable[..., str]) -> None:
    """What an app's migrations made is gone again, its roles' permissions with it, and all can be made once more."""
    server.create("there_and_back")
    manage("there_and_back", "migrate", "--skip-checks", "-v", "0")
    before = _made(server)
    back = f"for app in {OURS}: call_command('migrate', app, 'zero', verbosity=0)"
    manage("there_and_back", "shell", "--no-imports", "-c", f"from django.core.management import call_command\n{back}")
    left = _made(server)
    manage("there_and_back", "migrate", "--skip-checks", "-v", "0")

    assert {name.partition("_")[0] for name in left} & set(OURS) == set()
    assert {name.partition("_")[0] for name in before} >= set(OURS)
    assert _made(server) == before


def _made(server: Postgres) -> set[str]:
    """The tables, and who may do what."""
    tables = server.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", database="there_and_back")
    permissions = server.rows(
        "SELECT 'may ' || g.name || ' ' || p.codename FROM auth_group g JOIN auth_group_permissions m ON m.group_id = g.id "
        "JOIN auth_permission p ON p.id = m.permission_id",
        database="there_and_back",
    )
    return {name for (name,) in (*tables, *permissions)}
