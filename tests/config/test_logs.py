"""Strangers cannot fill the log."""

import logging

import pytest
from django.test import Client

from config.logs import OnceAMinute


def test_one_record_a_minute_passes_and_counts_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a traceback; the next one that passes says how many did not."""
    times = iter((100.0, 101.0, 159.0, 160.0))
    monkeypatch.setattr("config.logs.time.monotonic", lambda: next(times))
    filtering = OnceAMinute()
    passed = []
    for _ in range(4):
        record = logging.LogRecord("x", logging.ERROR, "", 0, "Invalid %s", ("host",), (ValueError, ValueError("x"), None))
        if filtering.filter(record):
            passed.append((record.getMessage(), record.exc_info))

    assert passed == [("Invalid host", None), ("Invalid host (2 more in the minutes before)", None)]


@pytest.mark.django_db
def test_a_foreign_host_is_refused_and_logged_through_it() -> None:
    """The logger that Django names has the filter."""
    assert Client().get("/login/", headers={"host": "evil.example"}).status_code == 400
    assert any(isinstance(one, OnceAMinute) for one in logging.getLogger("django.security.DisallowedHost").filters)
