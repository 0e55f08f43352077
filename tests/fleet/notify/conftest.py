"""Fixtures of notify's tests."""

from collections.abc import Iterator

import pytest

from tests.fleet.notify.receiver import Receiver, receiving


@pytest.fixture
def chat() -> Iterator[Receiver]:
    """A chat service that answers."""
    with receiving() as server:
        yield server
