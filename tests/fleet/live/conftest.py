"""One server, one node that speaks, one person who may look."""

from collections.abc import Iterator

import pytest

from tests.serving import Server, serve


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server."""
    with serve(tmp_path_factory.mktemp("live") / "data") as running:
        yield running
