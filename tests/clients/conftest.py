"""The client as a script has it, and a socket in the agent's place."""

import socket
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.reporting import SOURCE


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the client looks for the agent."""
    monkeypatch.setenv("FETTLE_REPORT_SOCKET", str(tmp_path / "report.sock"))
    return tmp_path / "report.sock"


@pytest.fixture
def agent(path: Path) -> Iterator[socket.socket]:
    """A socket in the agent's place."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.bind(str(path))
        link.setblocking(False)
        yield link


@pytest.fixture
def client() -> Any:
    """The module as a script has it just after its import; every step is sent."""
    module = types.ModuleType("fettle_report")
    exec(compile(SOURCE.read_text(), str(SOURCE), "exec"), module.__dict__)
    module.SEND_S = 0.0  # type: ignore[attr-defined]
    return module
