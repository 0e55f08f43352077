"""What an agent makes of the server's commands: each ends in one event that says how."""

import time
from pathlib import Path

import pytest

from agents.clock import RealClock
from agents.control import Controls
from agents.device import DeviceEvent
from agents.loop import NodeLoop
from agents.machine import Machine
from agents.nvml_device import NvmlDriver
from agents.server_commands import ServerCommands
from agents.source import Tick
from agents.spool import Spool
from agents.vitals import LastTick
from tests.agents.fake_nvml import FakeNvml
from tests.agents.outputs_of import T
from tests.agents.server import TOKEN, running, until
from tests.agents.test_app import process
from wire.messages import Command, Hold, Processes


class Node:
    """A node of two H200 that keeps what it tells."""

    def __init__(self, *allowed: str) -> None:
        self.told: list[DeviceEvent] = []
        self.machine = Machine(NvmlDriver(FakeNvml()))
        self.loop = NodeLoop("n", self.machine, Spool(), None, RealClock())
        self.controls = Controls(self.machine, self.loop.view(), "ws://127.0.0.1:9/", self._tell, "1.0")
        self.commands = ServerCommands(self.controls, self.loop.vitals, self._tell, allowed)

    def _tell(self, event: DeviceEvent, at: float) -> None:
        self.told.append(event)

    async def ask(self, name: str, number: int, seconds: object = 60) -> DeviceEvent:
        """What it tells of one command."""
        before = len(self.told)
        self.commands.obey(Command(name=name, args={"seconds": seconds, "by": "olga"}, id=number))  # type: ignore[dict-item] # odd ones too
        await until(lambda: len(self.told) > before, 10)
        return self.told[-1]


async def test_what_the_settings_name_is_done_and_answered_by_its_number() -> None:
    """With who asked, as the node's own log has it too."""
    node = Node("pause_profiling")
    answer = await node.ask("pause_profiling", 7)

    assert (answer.kind, answer.code) == ("command_done", 7)
    assert answer.text == "The profiling counters are left to others for 60 s, as asked by the server for olga."
    assert node.controls.status()["pause_profiling_s"] > 0


async def test_what_the_settings_do_not_name_is_refused_with_what_to_do() -> None:
    """Whatever the server calls it."""
    node = Node("pause_profiling")
    answers = [await node.ask("release", 1), await node.ask("rm -rf\n/", 2)]

    assert [(one.kind, one.code) for one in answers] == [("command_refused", 1), ("command_refused", 2)]
    assert "do not allow the server's command release: add its name to allow_commands" in answers[0].text
    assert "command rm -rf/:" in answers[1].text
    assert node.controls.status()["release_s"] == 0


@pytest.mark.parametrize("seconds", [-1, None, "600"])
async def test_a_time_that_makes_no_sense_is_refused(seconds: object) -> None:
    """In the words that a person on the node gets."""
    answer = await Node("pause_profiling").ask("pause_profiling", 3, seconds)

    assert answer.kind == "command_refused"
    assert "0 to 86400 seconds" in answer.text


async def test_a_command_that_cannot_be_judged_is_answered_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of ours costs neither the connection that brought it nor the answer."""
    node = Node("release", "pause_profiling")
    monkeypatch.setattr(ServerCommands, "_holder", lambda commands: 1 / 0)
    answer = await node.ask("release", 8)

    assert (answer.kind, answer.code) == ("command_refused", 8)
    assert answer.text == "It failed on the node: ZeroDivisionError; the agent's log has the details."
    assert (await node.ask("pause_profiling", 9)).kind == "command_done"


async def test_the_driver_is_kept_while_a_process_holds_a_gpu() -> None:
    """It could not be unloaded anyway; ending a release is always possible."""
    node = Node("release")
    await node.loop.tick(T)
    last = node.loop.vitals.last
    assert last is not None
    held = Processes(
        pid=[4711, 4712], name=["python", "python"], user=["ann", "ann"], holds=[Hold(1, 4711, None), Hold(1, 4712, None)]
    )
    tick = Tick(
        gpu=last.tick.gpu,
        gpu_reasons=last.tick.gpu_reasons,
        host=[],
        host_reasons=[],
        holds_reasons=[None, None],
        processes=held,
        process_reasons=[],
    )
    node.loop.vitals.last = LastTick(last.inventory, tick, T, time.monotonic())
    refused = await node.ask("release", 1)
    ended = await node.ask("release", 2, 0)
    await node.machine.close()

    assert refused.kind == "command_refused"
    assert refused.text.startswith("python (pid 4711) holds GPU 1 and 1 more hold GPUs: the driver cannot be unloaded")
    assert ended.kind == "command_done"


async def test_a_command_that_comes_twice_is_done_once() -> None:
    """Its first answer waits in the spool."""
    node = Node("pause_profiling")
    await node.ask("pause_profiling", 5)
    node.commands.obey(Command(name="pause_profiling", args={"seconds": 600}, id=5))
    await node.ask("pause_profiling", 6, 30)

    assert [one.code for one in node.told] == [5, 6]


def test_a_recording_answers_too() -> None:
    """It has nothing to command."""
    told: list[DeviceEvent] = []
    commands = ServerCommands(
        None, NodeLoop("n", Machine(None), Spool(), None, RealClock()).vitals, lambda event, _: told.append(event), ("release",)
    )
    commands.obey(Command(name="release", args={"seconds": 60}, id=9))

    assert [(one.kind, one.code) for one in told] == [("command_refused", 9)]
    assert "plays a recording" in told[0].text


async def test_a_command_reaches_the_driver_over_the_agents_connection(tmp_path: Path) -> None:
    """A real process: one is allowed, one is not, and the server hears of both."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    words = (
        "agent",
        "--token-file",
        str(token),
        "--node",
        "n",
        "--run-dir",
        str(tmp_path / "run"),
        "--allow-commands",
        "release",
    )
    async with running() as server:
        sent = iter(
            [Command(name="pause_profiling", args={"seconds": 60}, id=1), Command(name="release", args={"seconds": 60}, id=2)]
        )
        server.on_batch = lambda _: next(sent, None)
        async with process(*words, "--server", server.url):
            await until(lambda: {event.code for event in server.events if event.kind.startswith("command_")} == {1, 2}, 20)

    assert {event.code: event.kind for event in server.events if event.kind.startswith("command_")} == {
        1: "command_refused",
        2: "command_done",
    }
