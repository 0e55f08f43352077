"""What the agent gives beside its line to the server: the lock, pages, OTLP, the control socket, systemd's watchdog."""

import logging
import time
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from agents import exposition, lock, server_url
from agents.config import AgentConfig, ConfigError, listen_address
from agents.control import Controllable, Controls, ControlSocket
from agents.loop import NodeLoop, agent_version
from agents.otlp import PATH, Exporter
from agents.pages import Answer, Pages
from agents.scrape import target
from agents.server_commands import ServerCommands
from agents.service import Service
from agents.vitals import STALE_S, NodeView

log = logging.getLogger(__name__)


class Held(NamedTuple):
    """The node's lock, and where its control socket belongs; None where no folder can be had."""

    descriptor: int | None = None
    socket: Path | None = None


def hold(config: AgentConfig, server: str) -> Held:
    """The lock of this node at this server; HeldError while another agent has it. Recordings need none."""
    if config.replay:
        return Held()
    stem = lock.stem(server, config.node)
    folder = None
    try:
        folder = lock.folder(config.run_dir, config.spool)
        if folder is None:
            if config.run_dir is not None:
                raise ConfigError(f"run_dir={config.run_dir} cannot be written.")
            log.info("No folder for a lock and a control socket; the setting run_dir names one.")
            return Held()
        what = f"speaks for node {config.node} to {server} already: stop it first, or give this one another --node."
        return Held(lock.hold(folder / f"{stem}.lock", what), folder / f"{stem}.sock")
    except OSError as error:
        place = folder or config.run_dir
        if error.errno in lock.PASSING:
            log.warning(
                "%s: %s: the agent runs without its lock and its control socket until its next start.", place, error.strerror
            )
            return Held()
        raise ConfigError(f"{place}: {stem}.lock cannot be used: {error.strerror or error}.") from None


class Outputs:
    """All of them, as the settings want them."""

    def __init__(self, config: AgentConfig, server: str, nodes: Sequence[NodeLoop], held: Held) -> None:
        self._views = [node.view() for node in nodes]
        self._version = agent_version()
        self._held = held
        self._service = Service()
        self._listen = None if config.listen is None else listen_address(config.listen)
        self._pages = Pages({"/metrics": self._metrics, "/healthz": self._health})
        self._otlp = None if config.otlp is None else Exporter(target(config.otlp, PATH), self._views, self._version)
        self._control: ControlSocket | None = None
        source = nodes[0].source
        controls = None
        if len(nodes) == 1 and isinstance(source, Controllable):
            controls = Controls(source, self._views[0], server_url.shown(server), nodes[0].tell, self._version)
            if held.socket is not None:
                self._control = ControlSocket(held.socket, controls)
        for node in nodes:
            if node.sender is not None:
                node.sender.on_command = ServerCommands(controls, node.vitals, node.tell, config.allow_commands).obey

    async def start(self) -> None:
        """Listen where the settings say; ConfigError where that cannot be had."""
        if self._listen is not None:
            try:
                port = await self._pages.start(*self._listen)
            except OSError as error:
                raise ConfigError(f"listen={self._listen[0]}:{self._listen[1]}: {error.strerror or error}.") from None
            host = f"[{self._listen[0]}]" if ":" in self._listen[0] else self._listen[0]
            log.info("Metrics are at http://%s:%d/metrics.", host, port)
        if self._control is not None:
            try:
                await self._control.start()
            except OSError as error:
                log.warning("The agent cannot be asked here: %s: %s", self._control.path, error.strerror or error)
                self._control = None

    def ticked(self) -> None:
        """All nodes have ticked."""
        self._service.ticked()
        if self._otlp is not None:
            self._otlp.ticked(time.monotonic())

    def stopping(self) -> None:
        """The end has begun."""
        self._service.stopping()

    async def close(self) -> None:
        """Close all, the lock last."""
        await self._pages.close()
        if self._control is not None:
            await self._control.close()
        if self._otlp is not None:
            self._otlp.close()
        if self._held.descriptor is not None and self._held.socket is not None:
            lock.release(self._held.descriptor, self._held.socket.with_suffix(".lock"))

    def _metrics(self) -> Answer:
        return Answer(HTTPStatus.OK, exposition.CONTENT_TYPE, exposition.metrics(self._views, time.monotonic(), self._version))

    def _health(self) -> Answer:
        """200 while every node has ticked of late, else 503 with a sentence for each that has not."""
        troubles = list(filter(None, map(partial(_trouble, now=time.monotonic()), self._views)))
        status = HTTPStatus.SERVICE_UNAVAILABLE if troubles else HTTPStatus.OK
        return Answer(status, "text/plain; charset=utf-8", "".join(troubles) or "ok\n")


def _trouble(view: NodeView, now: float) -> str:
    last = view.vitals.last
    if last is None:
        return f"{view.node} has not been read yet.\n"
    return f"{view.node} was last read {now - last.at:.0f} s ago.\n" if now - last.at > STALE_S else ""
