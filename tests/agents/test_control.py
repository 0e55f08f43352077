"""Asking a running agent: on the node by its socket, by the server where the settings allow it."""

import asyncio
import json
import os
import stat
import time
from pathlib import Path

import pytest

from agents import ask
from agents.clock import RealClock
from agents.config import AgentConfig
from agents.control import Controls, ControlSocket
from agents.loop import NodeLoop
from agents.machine import Machine
from agents.nvml_device import NvmlDriver
from agents.spool import Spool
from tests.agents.fake_nvml import FakeNvml
from tests.agents.outputs_of import T
from tests.agents.server import TOKEN, running, until
from tests.agents.test_app import process

SERVER = "ws://127.0.0.1:9/"


class Node:
    """A node of two H200 with its controls."""

    def __init__(self) -> None:
        self.nvml = FakeNvml()
        self.machine = Machine(NvmlDriver(self.nvml))
        self.loop = NodeLoop("n", self.machine, Spool(), None, RealClock())
        self.controls = Controls(self.machine, self.loop.view(), SERVER, self.loop.tell, "1.0")

    async def tick(self) -> set[str | None]:
        """One more tick; why readings are absent in it."""
        await self.loop.tick(T)
        last = self.loop.vitals.last
        assert last is not None
        return {reason for reasons in last.tick.gpu_reasons for reason in reasons}


async def test_profiling_is_left_to_others_and_taken_up_again() -> None:
    """Meanwhile its metrics are absent and all else is read; no seconds end it."""
    node = Node()
    for _ in range(2):
        await node.tick()
    answer = await node.controls.do("pause_profiling", 600, "a test")
    paused = await node.tick()
    status = node.controls.status()
    await node.controls.do("pause_profiling", 0, "a test")
    for _ in range(3):
        again = await node.tick()
    await node.machine.close()

    assert answer["ok"]
    assert paused == {None, "paused", "unsupported"}
    assert 590 < status["pause_profiling_s"] <= 600
    assert "paused" not in again


async def test_the_driver_is_let_go_within_two_seconds() -> None:
    """Every handle is closed, and it is opened again when the time is over."""
    node = Node()
    await node.tick()
    before = node.nvml.asked["nvmlShutdown"]
    began = time.monotonic()
    answer = await node.controls.do("release", 600, "a test")
    took = time.monotonic() - began
    released = await node.tick()
    state = node.controls.status()["driver"]
    await node.controls.do("release", 0, "a test")
    for _ in range(3):
        again = await node.tick()
    await node.machine.close()

    assert answer["ok"]
    assert took < 2
    assert node.nvml.asked["nvmlShutdown"] > before
    assert state == "released"
    assert None not in released
    assert None in again


@pytest.mark.parametrize("seconds", [-1, 1e9, None, "600", True, float("nan")])
async def test_a_time_that_makes_no_sense_is_refused(seconds: object) -> None:
    """In a sentence, and nothing is done."""
    node = Node()
    answer = await node.controls.do("pause_profiling", seconds, "a test")

    assert not answer["ok"]
    assert "0 to 86400 seconds" in answer["text"]
    assert node.controls.status()["pause_profiling_s"] == 0


async def test_a_question_that_fails_over_a_defect_is_answered_with_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who asks is not left with a connection that ends, and the log has it at once."""
    machine = Machine(None)
    loop = NodeLoop("n", machine, Spool(), None, RealClock())
    controls = Controls(machine, loop.view(), "ws://127.0.0.1:9/", loop.tell, "1.0")
    monkeypatch.setattr(controls, "status", lambda: 1 / 0)
    control = ControlSocket(tmp_path / "agent.sock", controls)
    await control.start()
    reader, writer = await asyncio.open_unix_connection(str(control.path))
    writer.write(b'{"do": "status"}\n')
    answer = json.loads(await asyncio.wait_for(reader.readline(), 10))
    writer.close()
    await control.close()

    assert answer == {"ok": False, "text": "It failed on the node: ZeroDivisionError; the agent's log has the details."}
    assert any(record.exc_info for record in caplog.records)


async def test_the_socket_is_this_users_alone_and_bears_nonsense(tmp_path: Path) -> None:
    """A line that is no question gets a sentence; what an agent left behind is replaced."""
    path = tmp_path / "agent.sock"
    path.write_text("left behind")
    node = Node()
    socket = ControlSocket(path, node.controls)
    await socket.start()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    answers = []
    deep = b"[" * 4000 + b"\n"
    for line in (b"hello\n", b"[]\n", b'{"do": 3}\n', b'{"do": "reboot"}\n', deep, b'{"do": "status"}\n'):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(line)
        answers.append(json.loads(await reader.readline()))
        writer.close()
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"x" * 10_000)
    assert await reader.read() == b""
    writer.close()
    await socket.close()

    assert [answer["ok"] for answer in answers] == [False, False, False, False, False, True]
    assert answers[5]["pid"] == os.getpid()
    assert not path.exists()


@pytest.mark.parametrize(("text", "found"), [(None, 600), ("90s", 90), ("10m", 600), ("1.5h", 5400), ("7", 7)])
def test_times_are_written_as_people_write_them(text: str | None, found: float) -> None:
    """Seconds, minutes, hours."""
    assert ask.seconds(text) == found


@pytest.mark.parametrize("text", ["", "ten", "-5m", "5d", "1m30s"])
def test_other_times_are_refused(text: str) -> None:
    """With an example."""
    with pytest.raises(ask.AskError, match="like 90s, 10m or 2h"):
        ask.seconds(text)


def test_without_an_agent_the_places_that_were_looked_at_are_named(tmp_path: Path) -> None:
    """And exit code 1 is for scripts."""
    with pytest.raises(ask.AskError, match=f"no agent runs here, as far as {tmp_path} tell"):
        ask.ask(AgentConfig(run_dir=tmp_path), {"do": "status"})
    assert ask.main(AgentConfig(run_dir=tmp_path), "status", None, as_json=False) == 1


async def test_a_real_agent_is_asked_serves_its_pages_and_keeps_a_second_one_out(tmp_path: Path) -> None:
    """Status, release, /metrics and /healthz of one process; the second ends with exit code 1 and names the first."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    async with running() as server:
        words = ("agent", "--server", server.url, "--token-file", str(token), "--node", "n", "--run-dir", str(tmp_path / "run"))
        config = AgentConfig(server=server.url, node="n", run_dir=tmp_path / "run")
        async with process(*words, "--listen", "127.0.0.1:0", "--spool", str(tmp_path / "spool")) as agent:
            assert agent.stderr is not None
            async with asyncio.timeout(20):
                line = ""
                while "Metrics are at" not in line:
                    line = (await agent.stderr.readline()).decode()
            port = int(line.rsplit(":", 1)[1].split("/")[0])
            await until(lambda: server.batches, 20)
            told = await asyncio.to_thread(ask.ask, config, {"do": "status"})
            released = await asyncio.to_thread(ask.ask, config, {"do": "release", "seconds": 60})
            async with process(*words) as second:
                _, said = await second.communicate()
            async with process("agent", "--server", "ws://127.0.0.1:9/", "--token-file", str(token), "--node", "n",
                               "--run-dir", str(tmp_path / "run"), "--spool", str(tmp_path / "spool")) as third:  # fmt: skip
                _, said_too = await third.communicate()
            asked = "let go for 60 s, as asked by somebody on the node"
            await until(lambda: any(asked in event.text for event in server.events), 20)
            pages = []
            for page in ("metrics", "healthz"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(f"GET /{page} HTTP/1.1\r\n\r\n".encode())
                pages.append((await reader.read()).decode())
                writer.close()

        assert told["ok"]
        assert (told["node"], told["pid"], told["connected"]) == ("n", agent.pid, True)
        assert released["ok"]
        assert (second.returncode, third.returncode) == (1, 1)
        assert f"another agent (pid {agent.pid}) speaks for node n" in said.decode()
        assert f"another agent (pid {agent.pid}) uses the spool" in said_too.decode()
        assert 'fettle_agent_connected{Hostname="n"} 1' in pages[0]
        assert pages[1].endswith("\r\n\r\nok\n")
        assert any(asked in event.text for event in server.events)
