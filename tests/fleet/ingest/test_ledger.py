"""The ledger counts everything and speaks seldom."""

import pytest

from fleet.ingest.ledger import Ledger


def test_a_stranger_is_logged_once_a_minute_and_counted_each_time(caplog: pytest.LogCaptureFixture) -> None:
    """A wrong token that knocks all the time is one line; another peer's is its own."""
    ledger = Ledger()
    for _ in range(50):
        ledger.stranger("10.0.0.1")
    ledger.stranger("10.0.0.2")

    assert len(caplog.records) == 2
    assert ledger.refused["", "wrong_token"].total == 51
