"""The server's commands: done where the setting `allow_commands` names them, refused with a sentence where it does not.

Each outcome is an event, `command_done` or `command_refused` with the command's number as its code: it waits in the spool like
any other and is sent until the server has stored it.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from agents.control import Controls
from agents.device import DeviceEvent
from agents.outbox import plain
from agents.vitals import STALE_S, Vitals
from wire.messages import COMMAND_DONE, COMMAND_REFUSED, Command

log = logging.getLogger(__name__)

REMEMBERED: Final = 256


class ServerCommands:
    """Obeys or refuses; `tell` keeps an event for the server. `controls` None: a recording, which has no driver."""

    def __init__(
        self, controls: Controls | None, vitals: Vitals, tell: Callable[[DeviceEvent, float], None], allowed: tuple[str, ...]
    ) -> None:
        self._controls = controls
        self._vitals = vitals
        self._tell = tell
        self._allowed = allowed
        self._taken: deque[int] = deque(maxlen=REMEMBERED)
        self._running: set[asyncio.Task[Any]] = set()

    def obey(self, command: Command) -> None:
        """Do what the server says, or say why not. A command that came before is not done again: its answer is on its way."""
        if command.id in self._taken:
            return
        if command.id:  # a server from before commands had numbers
            self._taken.append(command.id)
        try:
            refusal = self._refusal(command)
        except Exception as error:  # the connection that brought it goes on
            log.exception("The server's command %s could not be judged", plain(command.name))
            refusal = _failed(error)
        if refusal is not None:
            self._answer(command, False, refusal)
            return
        task = asyncio.get_running_loop().create_task(self._do(command))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _refusal(self, command: Command) -> str | None:
        """Why it is not done; None: it is."""
        if self._controls is None:
            return "This node plays a recording: there is no driver to command."
        if command.name not in self._allowed:
            return (
                f"The agent's own settings do not allow the server's command {plain(command.name)}: "
                "add its name to allow_commands on the node, and start the agent anew."
            )
        if command.name == "release" and command.args.get("seconds") and (holder := self._holder()):
            return f"{holder}: the driver cannot be unloaded while a process does. End it first, then ask again."
        return None

    def _holder(self) -> str:
        """The first process that holds a GPU, as the last tick has it; empty where none does, or nobody knows."""
        last = self._vitals.last
        if last is None or time.monotonic() - last.at > STALE_S or not last.tick.processes.holds:
            return ""
        processes = last.tick.processes
        hold = processes.holds[0]
        name = dict(zip(processes.pid, processes.name, strict=True)).get(hold.pid) or "A process"
        others = len({one.pid for one in processes.holds}) - 1
        more = f" and {others} more hold GPUs" if others else ""
        return f"{plain(name)} (pid {hold.pid}) holds GPU {last.inventory.gpus[hold.gpu].index}{more}"

    async def _do(self, command: Command) -> None:
        assert self._controls is not None  # noqa: S101 - refused above
        try:
            answer = await self._controls.perform(command.name, command.args.get("seconds"))
        except Exception as error:
            log.exception("The server's command %s failed", plain(command.name))
            answer = {"ok": False, "text": _failed(error)}
        self._answer(command, answer["ok"], answer["text"])

    def _answer(self, command: Command, is_done: bool, text: str) -> None:
        by = plain(str(command.args.get("by", "")))
        who = f"the server for {by}" if by else "the server"
        said = f"{text.removesuffix('.')}, as asked by {who}." if is_done else text
        log.log(logging.INFO if is_done else logging.WARNING, "The server's command %s: %s", plain(command.name), said)
        kind = COMMAND_DONE if is_done else COMMAND_REFUSED
        self._tell(DeviceEvent(kind, None, command.id or None, said), time.time())


def _failed(error: Exception) -> str:
    return f"It failed on the node: {type(error).__name__}; the agent's log has the details."
