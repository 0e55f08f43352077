"""What one connection is told: replies in order, acks merged while an earlier one is still on its way."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from wire import codec
from wire.messages import Ack, FromServer, Refused

Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(slots=True)
class _Unsent:
    stored: list[int] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    events_refused: list[Refused] = field(default_factory=list)


class Outbox:
    """One a connection. A slow agent holds up nobody: its acks wait here, as ranges."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = asyncio.Lock()
        self._unsent: dict[str, _Unsent] = {}
        self._task: asyncio.Task[None] | None = None
        self.speaks_text = False  # replies take the form of the newest frame
        self.is_closed = False
        self.unstored = 0  # batches of this connection that the writer still holds
        self.unsettled = 0  # and events that the event desk does

    async def send(self, message: FromServer) -> None:
        """Send one message; a connection that is gone is only noted."""
        async with self._lock:
            if self.is_closed:
                return
            if self.speaks_text:
                await self._out({"type": "websocket.send", "text": codec.encode_text(message)})
            else:
                await self._out({"type": "websocket.send", "bytes": codec.encode(message)})

    async def close(self, code: int, reason: str) -> None:
        """Close the connection; the peer sees the code."""
        async with self._lock:
            if not self.is_closed:
                self.is_closed = True
                await self._out({"type": "websocket.close", "code": code, "reason": reason})

    def ack(
        self,
        boot: str,
        *,
        stored: Iterable[int] = (),
        refused: Iterable[Refused] = (),
        events: Iterable[int] = (),
        events_refused: Iterable[Refused] = (),
    ) -> None:
        """Let the agent know, soon; call on the event loop."""
        if self.is_closed:
            return
        unsent = self._unsent.setdefault(boot, _Unsent())
        unsent.stored.extend(stored)
        unsent.refused.extend(refused)
        unsent.events.extend(events)
        unsent.events_refused.extend(events_refused)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        while self._unsent and not self.is_closed:
            boot, unsent = self._unsent.popitem()
            await self.send(
                Ack(
                    boot=boot,
                    stored=ranges(unsent.stored),
                    refused=unsent.refused,
                    events=ranges(unsent.events),
                    events_refused=unsent.events_refused,
                )
            )

    async def _out(self, message: dict[str, Any]) -> None:
        try:
            await self._send(message)
        except (OSError, RuntimeError):  # the peer went away, or the server is closing the connection
            self.is_closed = True


def ranges(numbers: list[int]) -> list[tuple[int, int]]:
    """Inclusive ranges that cover exactly these numbers, rising."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
