"""The database as it is opened."""

import pytest
from django.db import connection

from config import env, settings


@pytest.mark.django_db
def test_what_is_committed_is_on_the_disk() -> None:
    """Events are acked once committed, and their agents forget them: a loss of power must not take a commit back."""
    with connection.cursor() as cursor:
        (level,) = cursor.execute("PRAGMA synchronous").fetchone()

    assert level == 2  # FULL


def test_a_server_of_a_name_that_none_can_have_is_refused() -> None:
    """At the start, without the URL; a URL without a server is that of the local one."""
    with pytest.raises(env.SettingError, match=r"^DATABASE_URL cannot be used") as raised:
        settings._database("postgresql://fettle:s3cret@d b/fettle")

    assert "s3cret" not in str(raised.value)
    assert settings._database("postgresql:///fettle")["HOST"] == ""
