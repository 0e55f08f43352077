"""What systemd is told: ready with the first tick, alive with each, and nothing where it does not listen."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.service import Service
from tests.agents.test_app import ROOT, ended


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


async def test_a_real_agent_is_ready_after_its_first_tick_and_ends_in_time(ear: socket.socket, tmp_path: Path) -> None:
    """As systemd starts and stops it, with a server that is not there."""
    token = tmp_path / "token"
    token.write_text("x")
    words = ("agent", "--server", "ws://127.0.0.1:9/", "--token-file", str(token), "--run-dir", str(tmp_path / "run"))
    environment = {**os.environ, "NOTIFY_SOCKET": ear.getsockname(), "WATCHDOG_USEC": "30000000"}
    agent = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli", *words, cwd=ROOT, env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    told: list[str] = []
    try:
        async with asyncio.timeout(20):
            while told.count("WATCHDOG=1") < 2:
                await asyncio.sleep(0.02)
                told += heard(ear)
        code, seconds = await ended(agent)
    finally:
        with contextlib.suppress(ProcessLookupError):
            agent.kill()
        await agent.wait()
    told += heard(ear)

    assert told[:2] == ["READY=1", "WATCHDOG=1"]
    assert told[-1] == "STOPPING=1"
    assert code == 0
    assert seconds < 2
    assert list((tmp_path / "run").iterdir()) == []
