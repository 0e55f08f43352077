"""What the workers of a run share."""

import os

import pytest

from tests.made_once import share


@pytest.fixture(scope="session", autouse=True)
def _shared(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The run's own folder: that of the workers, or that above each worker's."""
    folder = tmp_path_factory.getbasetemp()
    share(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder)
