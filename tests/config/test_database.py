"""The database as it is opened."""

from contextlib import closing
from pathlib import Path

import pytest
from django.db.utils import ConnectionHandler
from pytest_django import DjangoDbBlocker

from config import env, settings


def test_what_is_committed_is_on_the_disk(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> None:
    """Events are acked once committed, and their agents forget them: a loss of power must not take a commit back."""
    database = settings._database(f"sqlite:///{tmp_path / 'fettle.sqlite3'}")
    with django_db_blocker.unblock(), closing(ConnectionHandler({"default": database})["default"]) as connection:
        (level,) = connection.cursor().execute("PRAGMA synchronous").fetchone()

    assert level == 2  # FULL


def test_a_server_of_a_name_that_none_can_have_is_refused() -> None:
    """At the start, without the URL; a URL without a server is that of the local one."""
    with pytest.raises(env.SettingError, match=r"^DATABASE_URL cannot be used") as raised:
        settings._database("postgresql://fettle:s3cret@d b/fettle")

    assert "s3cret" not in str(raised.value)
    assert settings._database("postgresql:///fettle")["HOST"] == ""
