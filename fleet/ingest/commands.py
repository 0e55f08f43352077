"""Commands on their way down: which of this process's agents have one, and the frames that bring it.

A word over Redis pub/sub says that somebody asked; a look at the open rows every few seconds finds what no word told of. The
row counts as sent before the frame goes out, so a kill between the two sends nothing twice.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import redis.asyncio
from django.conf import settings
from django.db import Error as DatabaseFault
from redis.exceptions import RedisError

from fleet.commands import passing
from fleet.commands.bell import CHANNEL, PATIENCE_S
from fleet.commands.models import Command
from fleet.ingest.threads import Threads

if TYPE_CHECKING:
    from fleet.ingest.connection import Connection
    from fleet.ingest.voice import Voice

SWEEP_S: Final = 3.0
AT_LEAST_S: Final = 0.1
"""Between two looks: a thousand agents that come back at once are looked at together."""
LISTEN_AGAIN_S: Final = 5.0
QUIET_S: Final = 30.0

logger = logging.getLogger(__name__)


class CommandDesk:
    """Owned by the event loop. `voices`: who speaks for each node here, by its name."""

    def __init__(self, threads: Threads, voices: "dict[str, Voice]") -> None:
        self._threads = threads
        self._voices = voices
        self._wake = asyncio.Event()
        self._passing: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._stopping = False
        self._sending: set[asyncio.Task[None]] = set()
        self._failing = False
        self._deaf = False

    def start(self) -> None:
        """Begin; call on the event loop."""
        loop = asyncio.get_running_loop()
        self._passing = loop.create_task(self._run(), name="ingest-commands")
        self._listening = loop.create_task(self._listen(), name="ingest-commands-bell")

    async def stop(self) -> None:
        """End. Nothing is cut off between its row and its frame; what is due waits for another process, or the next start."""
        self._stopping = True
        self._wake.set()
        if self._listening is not None:
            self._listening.cancel()
        await asyncio.gather(*filter(None, (self._passing, self._listening)), return_exceptions=True)
        await asyncio.gather(*self._sending, return_exceptions=True)

    def look(self) -> None:
        """Something may be due: somebody asked, or a node has come."""
        self._wake.set()

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), SWEEP_S)
            if self._stopping:
                return
            self._wake.clear()
            try:
                await self._pass_on()
            except DatabaseFault as error:
                if not self._failing:
                    logger.warning("Commands are not sent, trying again: %s", error)
                self._failing = True
            except Exception:
                logger.exception("Commands are not sent")  # the next round tries again
            else:
                self._failing = False
            await asyncio.sleep(AT_LEAST_S)

    async def _pass_on(self) -> None:
        here = [
            (row, voice.boot, voice.connection)
            for row in await self._threads.database(passing.due)
            if (voice := self._voices.get(row.node_name)) is not None
            and voice.node == row.node_id
            and voice.connection is not None
            and not voice.connection.outbox.is_closed
            and time.time() - voice.connection.heard_at <= voice.silent_s
            and row.boot != voice.boot
        ]
        if not here:
            return
        claimed = {row.pk for row in await self._threads.database(passing.claim, [(row, boot) for row, boot, _ in here])}
        by_connection: dict[Connection, list[tuple[Command, str]]] = {}
        for row, boot, connection in here:
            if row.pk in claimed:
                by_connection.setdefault(connection, []).append((row, boot))
        for connection, rows in by_connection.items():  # a slow agent holds up nobody
            self._in_background(self._send(connection, rows))

    async def _send(self, connection: "Connection", rows: list[tuple[Command, str]]) -> None:
        for row, boot in rows:
            if connection.outbox.is_closed:
                with contextlib.suppress(DatabaseFault):  # it expires
                    await self._threads.database(passing.give_back, row, boot)
                continue
            logger.info("%s gets command %d of %s: %s", row.node_name, row.pk, row.asked_by_name, row.what)
            if not await connection.outbox.send(passing.frame(row)):
                logger.warning("%s does not take command %d", row.node_name, row.pk)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _listen(self) -> None:
        """Hear the bell; while the broker is away the sweep does alone."""
        while True:
            try:
                await _hear(self._heard)
            except (RedisError, OSError) as error:
                if not self._deaf:
                    logger.warning("Commands are found by the sweep alone, up to %.0f s late: no broker: %s", SWEEP_S, error)
                self._deaf = True
            except Exception:
                logger.exception("Commands are found by the sweep alone for a while")
                self._deaf = True
            await asyncio.sleep(LISTEN_AGAIN_S)

    def _heard(self) -> None:
        if self._deaf:
            logger.info("Commands are heard of at once again")
        self._deaf = False
        self.look()


async def _hear(heard: Callable[[], None]) -> None:
    """Call `heard` once subscribed and at each word, until the broker goes: RedisError or OSError."""
    client = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=PATIENCE_S, health_check_interval=QUIET_S)
    async with client, client.pubsub() as pubsub:
        await pubsub.subscribe(CHANNEL)
        while True:
            if await pubsub.get_message(timeout=QUIET_S) is not None:  # in a long silence it asks whether the broker is there
                heard()
