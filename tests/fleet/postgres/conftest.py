"""A PostgreSQL for the tests of this folder, and a database with every table."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.postgres import Postgres, postgres
from tests.serving import ROOT

_numbers = count()


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """One server for all tests."""
    with postgres() as running:
        yield running


@pytest.fixture(scope="session")
def manage(server: Postgres) -> Callable[..., str]:
    """Runs `manage.py` on a database."""

    def run(database: str, *words: str) -> str:
        env = environment(server.url(database)) | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
        done = subprocess.run(
            [sys.executable, "manage.py", *words], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def template(server: Postgres, manage: Callable[..., str]) -> str:
    """The name of a database with every table."""
    server.create("migrated")
    manage("migrated", "migrate", "--skip-checks", "-v", "0")
    return "migrated"


@pytest.fixture
def database(server: Postgres, template: str) -> str:
    """The name of a new database with every table."""
    name = f"test{next(_numbers)}"
    server.create(name, template)
    return name


def environment(url: str) -> dict[str, str]:
    """Our own, with this database."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("FETTLE_", "PYTEST_"))} | {
        "DATABASE_URL": url
    }
