"""What systemd is told: ready with the first tick, alive with each, and nothing where it does not listen."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.service import Service


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[socket.socket]:
    """A service manager's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.bind(str(tmp_path / "notify"))
        one.setblocking(False)
        yield one


def heard(ear: socket.socket) -> list[str]:
    """All that was told so far."""
    found = []
    while True:
        try:
            found.append(ear.recv(100).decode())
        except BlockingIOError:
            return found


def test_it_is_ready_once_alive_with_each_tick_and_says_that_it_stops(ear: socket.socket) -> None:
    """The variables are taken out of the environment: a child must not speak for the agent."""
    environment = {"NOTIFY_SOCKET": ear.getsockname(), "WATCHDOG_USEC": "30000000", "HOME": "/"}
    service = Service(environment)
    service.ticked()
    service.ticked()
    service.stopping()

    assert heard(ear) == ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "STOPPING=1"]
    assert environment == {"HOME": "/"}


def test_an_abstract_address_is_understood() -> None:
    """As systemd gives one to containers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        name = f"fettle-test-{os.getpid()}"
        one.bind("\0" + name)
        Service({"NOTIFY_SOCKET": "@" + name}).ticked()

        assert one.recv(100) == b"READY=1"


def test_without_a_manager_nothing_happens(tmp_path: Path) -> None:
    """And one that is gone is no reason to stop."""
    Service({}).ticked()
    Service({"NOTIFY_SOCKET": str(tmp_path / "gone"), "WATCHDOG_USEC": "1"}).ticked()
    Service({"NOTIFY_SOCKET": "tcp:1"}).stopping()

    assert list(tmp_path.iterdir()) == []
