"""The database as it is opened."""

import pytest
from django.db import connection


@pytest.mark.django_db
def test_what_is_committed_is_on_the_disk() -> None:
    """Events are acked once committed, and their agents forget them: a loss of power must not take a commit back."""
    with connection.cursor() as cursor:
        (level,) = cursor.execute("PRAGMA synchronous").fetchone()

    assert level == 2  # FULL
