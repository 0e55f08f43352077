"""What one connection is told: replies in order, acks merged while an earlier one is still on its way."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from wire import codec
from wire.messages import Ack, FromServer, Refused

Send = Callable[[dict[str, Any]], Awaitable[None]]

SEND_S: Final = 10.0
"""Within which a peer has to take one message, and the ones before it. Who does not is cut off."""
CLOSE_S: Final = 3.0
"""The same for the word that it is over."""


@dataclass(slots=True)
class _Unsent:
    stored: list[int] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    events_refused: list[Refused] = field(default_factory=list)


class Outbox:
    """One a connection. A slow agent holds up nobody: its acks wait here, as ranges.

    `abort` ends the connection at once, whatever is still to be sent: what waits in `send` raises, `receive` tells of the end.
    """

    def __init__(self, send: Send, abort: Callable[[], None] = lambda: None) -> None:
        self._send = send
        self._abort = abort
        self._lock = asyncio.Lock()
        self._unsent: dict[str, _Unsent] = {}
        self._task: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self.speaks_text = False  # replies take the form of the newest frame
        self.is_closed = False
        self.was_cut_off = False
        self.unstored = 0  # batches of this connection that the writer still holds
        self.unsettled = 0  # and events that the event desk does

    async def send(self, message: FromServer) -> bool:
        """True once the message is on its way; a connection that is gone, or does not take it, is only noted."""
        async with self._lock:
            if self.is_closed:
                return False
            if self.speaks_text:
                return await self._out({"type": "websocket.send", "text": codec.encode_text(message)})
            return await self._out({"type": "websocket.send", "bytes": codec.encode(message)})

    async def close(self, code: int, reason: str) -> None:
        """Close the connection; the peer sees the code, unless it has to be cut off."""
        if self.is_closed:
            return
        self.is_closed = True
        self._unsent.clear()
        try:
            async with asyncio.timeout(CLOSE_S), self._lock:
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except TimeoutError:
            self._cut_off()
        except (OSError, RuntimeError):
            pass  # it went away by itself

    def end(self, code: int, reason: str) -> None:
        """Close the connection without waiting for the peer; call on the event loop."""
        self._ending = asyncio.get_running_loop().create_task(self.close(code, reason))

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

    async def _out(self, message: dict[str, Any]) -> bool:
        try:
            async with asyncio.timeout(SEND_S):
                await self._send(message)
        except TimeoutError:
            self._cut_off()
        except (OSError, RuntimeError):  # the peer went away, or the server is closing the connection
            self.is_closed = True
        else:
            return True
        return False

    def _cut_off(self) -> None:
        self.is_closed = self.was_cut_off = True
        self._unsent.clear()
        self._abort()


def ranges(numbers: list[int]) -> list[tuple[int, int]]:
    """Inclusive ranges that cover exactly these numbers, rising."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
