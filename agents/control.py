"""What a running agent can be asked: its status, to leave the profiling counters to others, to let the driver go.

On the node by a Unix socket that this user alone may open; by the server through `agents.server_commands`.
"""

import asyncio
import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from agents.config import COMMANDS
from agents.device import DeviceEvent
from agents.outbox import plain
from agents.vitals import NodeView, cpu_s, rss_bytes

log = logging.getLogger(__name__)

LONGEST_S: Final = 24 * 3600.0
REQUEST_BYTES: Final = 4096
REQUEST_S: Final = 5.0


@runtime_checkable
class Controllable(Protocol):
    """A source whose driver can be left to others until a monotonic second."""

    def pause_profiling(self, until: float) -> None:
        """Leave the profiling counters to others."""

    async def release(self, until: float) -> bool:
        """Let the driver go; True when it is let go."""


class Controls:
    """Does what is asked; `tell` keeps an event for the server."""

    def __init__(
        self,
        source: Controllable,
        view: NodeView,
        server: str,
        tell: Callable[[DeviceEvent, float], None],
        version: str,
    ) -> None:
        self._source = source
        self._view = view
        self._server = server
        self._tell = tell
        self._version = version
        self._began = time.monotonic()
        self._until: dict[str, float] = {}

    async def do(self, name: str, seconds: object, who: str) -> dict[str, Any]:
        """`{"ok": …, "text": …}` for people; the server is told of what was tried, with `who`."""
        tried, answer = await self._try(name, seconds)
        if tried:
            text = f"{answer['text'].removesuffix('.')}, as asked by {who}."
            log.info("%s", text)
            self._tell(DeviceEvent("agent", None, None, text), time.time())
        return answer

    async def perform(self, name: str, seconds: object) -> dict[str, Any]:
        """`{"ok": …, "text": …}`; telling of it is left to whoever asks."""
        return (await self._try(name, seconds))[1]

    async def _try(self, name: str, seconds: object) -> tuple[bool, dict[str, Any]]:
        """Whether it was a command that can be tried, and what came of it."""
        if name not in COMMANDS:
            return False, {"ok": False, "text": f"There is no command {plain(name)!r}; there are status, {', '.join(COMMANDS)}."}
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_S:
            return False, {"ok": False, "text": f"The time must be 0 to {LONGEST_S:.0f} seconds; 0 ends it."}
        now = time.monotonic()
        self._until[name] = now + seconds
        if name == "pause_profiling":
            self._source.pause_profiling(now + seconds)
            ok, text = True, f"The profiling counters are left to others for {seconds:g} s" if seconds else "Profiling goes on"
        elif await self._source.release(now + seconds):
            ok, text = True, f"The driver is let go for {seconds:g} s" if seconds else "The driver is taken up again"
        else:
            ok, text = (
                False,
                "A driver call does not come back, so the driver cannot be let go yet; it is as soon as the call returns",
            )
        return True, {"ok": ok, "text": f"{text}."}

    def status(self) -> dict[str, Any]:
        """How the agent fares."""
        now, vitals, delivery = time.monotonic(), self._view.vitals, self._view.delivery()
        last = vitals.last
        return {
            "node": self._view.node,
            "server": self._server,
            "pid": os.getpid(),
            "version": self._version,
            "uptime_s": round(now - self._began, 1),
            "connected": delivery.connected,
            "gpus": 0 if last is None else len(last.inventory.gpus),
            "driver": self._view.driver_state(),
            "ticks": vitals.ticks,
            "late_ticks": vitals.late_ticks,
            "failed_ticks": vitals.failed_ticks,
            "failed_events": vitals.failed_events,
            "last_tick_age_s": None if last is None else round(now - last.at, 1),
            "records_stored": delivery.stored,
            "records_refused": sum(delivery.refused.values()),
            "spool_records": delivery.waiting,
            "spool_bytes": delivery.waiting_bytes,
            "spool_dropped": delivery.dropped,
            "spool_unreadable": delivery.unreadable,
            "spool_write_errors": delivery.write_errors,
            **{f"{name}_s": round(max(0.0, self._until.get(name, 0.0) - now), 1) for name in COMMANDS},
            **{name: trouble or "ok" for name, trouble in getattr(self._source, "troubles", {}).items()},
            "cpu_s": round(cpu_s(), 2),
            "rss_bytes": rss_bytes(),
        }


class ControlSocket:
    """One JSON line in, one JSON line out, a connection each. Mode 0600: this user and root alone."""

    def __init__(self, path: Path, controls: Controls) -> None:
        self.path = path
        self._controls = controls
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; OSError where the socket cannot be made. Who calls holds the node's lock: what lies there was left behind."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            os.fchmod(listening.fileno(), 0o600)  # before it has a name: nobody else gets in between
            listening.bind(str(self.path))
            self.path.chmod(0o600)
            self._server = await asyncio.start_unix_server(self._connected, sock=listening, limit=REQUEST_BYTES)
        except BaseException:
            listening.close()
            raise

    async def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(OSError):
                self.path.unlink()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readline(), REQUEST_S)
            try:
                answer = await self._answer(line)
            except Exception as error:
                log.exception("A question over the control socket cannot be answered")
                answer = {"ok": False, "text": f"It failed on the node: {type(error).__name__}; the agent's log has the details."}
            writer.write(json.dumps(answer).encode() + b"\n")
            await asyncio.wait_for(writer.drain(), REQUEST_S)
        except (OSError, ValueError, asyncio.TimeoutError):
            log.debug("A question over the control socket ended early.")
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            asked = json.loads(line)
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, Mapping) or not isinstance(asked.get("do"), str):
            return {"ok": False, "text": 'Ask with one line of JSON: {"do": "status"}.'}
        if asked["do"] == "status":
            return {"ok": True, **self._controls.status()}
        doing: Awaitable[dict[str, Any]] = self._controls.do(asked["do"], asked.get("seconds"), "somebody on the node")
        return await doing
