"""uvicorn's WebSockets, rid of peers that do not read.

uvicorn ends a connection once all that was written to it is taken. A peer that leaves its socket open and reads nothing
would so keep the connection, its memory and whoever waits in `send`, for as long as it likes.
"""

import asyncio
import logging
import socket
import struct
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

TAKES_S: Final = 20.0
"""Who takes not one byte of a full buffer for so long is gone: as long as uvicorn waits for a pong."""
LINGER_S: Final = 3.0
"""How long a connection that ends may take to send what is left; shorter than the server's own end may take."""
_NO_LINGER: Final = struct.pack("ii", 1, 0)

logger = logging.getLogger(__name__)


class WebSocket(WebSocketsSansIOProtocol):
    """One connection. Applications find `abort`, which ends it at once, in their scope's extension `fettle`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._untaken = 0
        self._watching: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None

    def abort(self) -> None:
        """End the connection now. What is not taken is dropped, by the kernel too: it would keep megabytes for minutes."""
        if not self.disconnected:
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.transport.abort()

    async def run_asgi(self) -> None:
        """Run the application, then end: whatever is not taken soon is dropped."""
        self.scope["extensions"]["fettle"] = {"abort": self.abort}
        await super().run_asgi()
        self._linger()

    def keepalive_timeout(self) -> None:
        """The peer answers no ping."""
        super().keepalive_timeout()
        self._linger()

    def shutdown(self) -> None:
        """The server ends."""
        super().shutdown()
        self._linger()

    def handle_ping(self) -> None:
        """Answer; who does not read gets no answers either, which nothing else would bound."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def pause_writing(self) -> None:
        """The buffer is full: watch whether it is taken."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """The peer takes it."""
        super().resume_writing()
        if self._watching is not None:
            self._watching.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        for timer in (self._watching, self._lingering):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        self._untaken = self.transport.get_write_buffer_size()
        self._watching = self.loop.call_later(TAKES_S, self._look)

    def _look(self) -> None:
        if self.transport.get_write_buffer_size() < self._untaken:
            self._watch()
            return
        logger.warning("A peer at %s took nothing for %.0f s; its connection is cut off", (self.client or ("?",))[0], TAKES_S)
        self.abort()

    def _linger(self) -> None:
        if not self.disconnected and self._lingering is None:
            self._lingering = self.loop.call_later(LINGER_S, self.abort)
