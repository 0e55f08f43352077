"""One server for the tests of this directory that do not break it; each test speaks for a node of its own."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import Server, serve

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server, shared."""
    with serve(tmp_path_factory.mktemp("server") / "data") as running:
        yield running


@pytest.fixture
def own_data(tmp_path: Path) -> Path:
    """A directory for a server of the test's own."""
    return tmp_path / "data"


@pytest.fixture
def node() -> str:
    """The name of a node that no other test speaks for."""
    return f"node-{next(_numbers)}"
