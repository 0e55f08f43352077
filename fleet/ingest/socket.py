"""`/ws/agent/`: a bare ASGI callable, because a stock consumer costs four times as much for each message.

A token before the connection is accepted (else HTTP 403), a hello first, then batches and events. A frame that is
refused gets an Error that names why; the frames before and after it are unharmed.
"""

import gc
import logging
from collections.abc import Callable
from typing import Any, Final

from django.db import Error as DatabaseFault

from fleet.ingest.connection import Connection, Receive
from fleet.ingest.outbox import Outbox, Send
from fleet.ingest.service import CLOSE_RESTART, Ingest

MAX_CONNECTIONS: Final = 8
"""Of one token: an agent has one, and one more while it delivers what an earlier run left behind."""
CLOSE_POLICY: Final = 1008
CLOSE_LATER: Final = 1013

logger = logging.getLogger(__name__)


def _collect_less_often() -> None:
    """Let the garbage collector look after many more allocations than it does by itself.

    Every batch is some sixty lists that live for a second and go by their reference counts. With Python's usual
    threshold of 700 the collector walked all of them again and again: half of this process's time at 4,000 GPUs.
    """
    gc.collect()
    gc.freeze()  # what was imported stays for good
    gc.set_threshold(100_000, 20, 20)


def _abort(scope: dict[str, Any]) -> Callable[[], None]:
    """What ends this connection at once (config/websocket.py). Under another server nothing does, and sends end by their time alone."""
    abort: Callable[[], None] = scope.get("extensions", {}).get("fettle", {}).get("abort", lambda: None)
    return abort


class AgentSocket:
    """The ASGI application of the agents' path, and the service behind it: `start` before the first agent, `stop` after the last.

    Sockets are closed before `stop`, so what is stored last is acked to nobody; agents send it again, which changes nothing.
    """

    def __init__(self) -> None:
        self._ingest: Ingest | None = None

    def start(self) -> None:
        """Begin to take agents in; call on the event loop."""
        self._ingest = Ingest()
        self._ingest.start()
        _collect_less_often()

    async def stop(self) -> None:
        """Store what is here, and end."""
        if self._ingest is not None:
            await self._ingest.stop()
            self._ingest = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve one agent, from its handshake to its end."""
        await receive()  # websocket.connect
        ingest = self._ingest
        if ingest is None:
            logger.error("An agent came to a process that takes none in: FETTLE_INGEST is no, or this server runs no lifespan")
            await send({"type": "websocket.close", "code": CLOSE_RESTART})
            return
        try:
            credential = await ingest.tokens.of(scope)
        except DatabaseFault as error:
            logger.error("A token could not be looked up: %s", error)
            await send({"type": "websocket.close", "code": CLOSE_RESTART})
            return
        if credential is None:
            ingest.ledger.stranger(str((scope.get("client") or ("?",))[0]))
            await send({"type": "websocket.close", "code": CLOSE_POLICY})  # before accept: HTTP 403
            return
        await send({"type": "websocket.accept"})
        ingest.ledger.used.add(credential.token)
        if ingest.by_token[credential.token] >= MAX_CONNECTIONS:
            ingest.ledger.refuse(credential.node_name, "busy", f"more than {MAX_CONNECTIONS} connections with one token")
            await send({"type": "websocket.close", "code": CLOSE_LATER, "reason": "too many connections with this token"})
            return
        connection = Connection(ingest, credential, Outbox(send, abort=_abort(scope)))
        ingest.connections.add(connection)
        ingest.by_token[credential.token] += 1
        try:
            await connection.run(receive)
        finally:
            ingest.connections.discard(connection)
            ingest.by_token[credential.token] -= 1
            connection.end()
