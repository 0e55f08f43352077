"""The order of the files, and what the workers of a run share.

Most of the run is spent in tests that wait for real processes, most of the processors' time in tests that compute. Side by side they
take the time of the longer kind, one after the other that of both.
"""

import os
from pathlib import Path
from typing import Final

import pytest

from tests.made_once import share

os.environ["LANGUAGE"] = "en"  # the command line speaks the reader's language; tests read English unless they ask for another
HERE: Final = Path(__file__).parent
WAITING: Final = (
    "agents", "bench", "browser", "config", "deploy", "fleet/commands", "fleet/faults", "fleet/ingest", "fleet/live", "fleet/store",
)  # fmt: skip
"""Folders whose files mostly wait."""
WAITING_BY: Final = 0.8
"""The part of the computing files beside which all waiting ones have begun: what comes last is short, so that all workers end together."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files that wait among those that compute; the tests of a file stay together and in their order."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    kinds: tuple[list[Path], list[Path]] = ([], [])
    for path in files:
        kinds[path.relative_to(HERE).as_posix().startswith(WAITING)].append(path)
    place = {
        path: n / len(paths) * end for paths, end in zip(kinds, (1.0, WAITING_BY), strict=True) for n, path in enumerate(paths)
    }
    items[:] = [item for path in sorted(files, key=place.__getitem__) for item in files[path]]


@pytest.fixture(scope="session", autouse=True)
def _shared(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The run's own folder: that of the workers, or that above each worker's."""
    folder = tmp_path_factory.getbasetemp()
    # By the folder's name: a run within a test inherits its worker's environment, and would share a folder that outlives all runs.
    share(folder.parent if folder.name.startswith("popen-") else folder)
