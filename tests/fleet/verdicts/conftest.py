"""Fixtures of the tests of verdicts."""

import pytest
from pytest_django import Settings


@pytest.fixture(autouse=True)
def short_spans(settings: Settings) -> None:
    """A minute of everything, as long as the recordings last."""
    settings.FETTLE_ADVISOR_WINDOW_S = 60
    settings.FETTLE_ADVISOR_PATIENCE_S = 20
    settings.FETTLE_VERIFY_SPAN_S = 60
