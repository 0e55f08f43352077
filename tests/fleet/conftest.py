"""Fixtures of the server's tests."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from fleet.store.series import store


@pytest.fixture
def memory_store(settings: Settings) -> Iterator[None]:
    """An empty store in memory for this test."""
    settings.FETTLE_STORE = "memory"
    store.cache_clear()
    yield
    store.cache_clear()
