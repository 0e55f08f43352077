"""What the doctor says of the agent that runs here."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from agents import ask
from agents.clock import RealClock
from agents.collectors.pods import PodCollector
from agents.config import AgentConfig
from agents.control import Controls, ControlSocket
from agents.doctor_system import TROUBLES, agent, spool, step_reports
from agents.kernel_log import KernelLog
from agents.loop import NodeLoop
from agents.machine import Machine
from agents.reports import Reports
from agents.spool import Spool

SERVER = "ws://127.0.0.1:9/"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A node whose kernel log is not there, and where a file stands in the place of the socket."""
    (tmp_path / "report.sock").touch()
    reports = Reports((tmp_path / "report.sock",))
    return Machine(
        None, kernel_log=KernelLog(tmp_path / "kmsg"), reports=reports, pods=PodCollector(tmp_path / "kubelet.sock", "site", True)
    )


async def test_the_doctor_tells_what_troubles_the_running_agent(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its control socket: the kernel log that it cannot read, the kubelet that is not there, the socket that it cannot open."""
    monkeypatch.setenv("PATH", str(tmp_path))  # no journalctl
    loop = NodeLoop("n", machine, Spool(), None, RealClock())
    controls = Controls(machine, loop.view(), SERVER, loop.tell, "1.0")
    control = ControlSocket(tmp_path / "agent-1.sock", controls)
    await control.start()
    machine.notify(lambda: None)
    try:
        await loop.tick(1_750_000_000.0)
        for _ in range(200):
            if all(trouble for name, trouble in machine.troubles.items() if name != "engines"):
                break
            await asyncio.sleep(0.01)
        config = AgentConfig(run_dir=tmp_path)
        status = await asyncio.to_thread(ask.ask, config, {"do": "status"})
        found = {name: (level, text) for name, level, text, _ in await asyncio.to_thread(lambda: list(agent(config)))}
    finally:
        await control.close()
        await machine.close()

    assert set(TROUBLES) == set(machine.troubles)
    assert "No such file" in status["kernel_log"]
    assert "is no socket" in status["step_reports"]
    assert found["agent"][0] == "wrong"
    assert found["agent: kernel log"] == ("note", status["kernel_log"])
    assert found["agent: pods of the GPUs"] == ("note", f"{tmp_path}/kubelet.sock is not there.")
    assert found["agent: training steps"] == ("note", status["step_reports"])


async def test_an_agent_without_troubles_has_none_told(tmp_path: Path) -> None:
    """The log is read, the socket is open: both say ok."""
    (tmp_path / "kmsg").touch()
    machine = Machine(None, kernel_log=KernelLog(tmp_path / "kmsg"), reports=Reports((tmp_path / "report.sock",)))
    loop = NodeLoop("n", machine, Spool(), None, RealClock())
    controls = Controls(machine, loop.view(), SERVER, loop.tell, "1.0")
    machine.notify(lambda: None)
    try:
        await loop.tick(1_750_000_000.0)
        status = controls.status()
    finally:
        await machine.close()

    assert (status["kernel_log"], status["step_reports"]) == ("ok", "ok")


def told(path: Path) -> tuple[str, str]:
    """Level and text of the doctor's line about the socket that the settings name."""
    ((name, level, text, remedy),) = step_reports(AgentConfig(report_socket=path))
    assert name == "step reports"
    assert bool(remedy) == (level == "wrong")
    return level, text


async def test_the_doctor_says_who_listens_for_steps_and_what_is_in_the_way(tmp_path: Path) -> None:
    """With an agent, without one, in a folder that is not there, and where a file stands in the socket's place."""
    path = tmp_path / "report.sock"
    assert told(path) == ("note", f"no agent listens now; one would at {path}")

    reports = Reports((path,))
    reports.attach()
    heard = told(path)
    reports.close()
    assert heard == ("ok", f"an agent listens at {path}")

    level, text = told(tmp_path / "not" / "there" / "report.sock")
    assert level == "wrong"
    assert "the folder above it is not there" in text

    path.touch()
    assert told(path)[0] == "wrong"
    assert "is no socket" in told(path)[1]


def test_a_default_place_that_cannot_be_had_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asked for it: the line says why, the exit code stays 0."""
    monkeypatch.setattr("agents.report_socket.places", lambda: (tmp_path / "not" / "there" / "report.sock",))
    ((_, level, text, _),) = step_reports(AgentConfig())
    assert (level, "is not there" in text) == ("note", True)


def test_a_spool_on_a_read_only_disk_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner is right: whoever changes it mends nothing."""
    real = os.statvfs(tmp_path)
    read_only = os.statvfs_result((*real[:8], real.f_flag | os.ST_RDONLY, *real[9:]))
    monkeypatch.setattr(os, "statvfs", lambda path: read_only)
    ((_, level, text, remedy),) = spool(AgentConfig(spool=tmp_path, node="n"))

    assert (level, text) == ("wrong", f"{tmp_path} is on a file system that is read-only")
    assert "mount it anew" in remedy


def test_a_link_to_nowhere_in_the_spool_is_no_bad_disk(tmp_path: Path) -> None:
    """The agent leaves it alone too."""
    (tmp_path / "n").mkdir()
    (tmp_path / "n" / "x.spool").symlink_to(tmp_path / "nowhere")
    ((_, _, text, _),) = spool(AgentConfig(spool=tmp_path, node="n"))

    assert "0.0 of 64 MB in use" in text


def test_a_spool_that_this_user_may_not_look_at_is_no_disk_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder above it may be another user's."""

    def refused(path: Path) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "exists", refused)
    ((_, level, text, _),) = spool(AgentConfig(spool=tmp_path, node="n"))

    assert (level, text) == ("wrong", f"{tmp_path}/n: Permission denied")
