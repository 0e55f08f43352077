"""Events: a row each, committed as soon as the database is free, acked at once, then told to findings by name.

Nothing waits to form a group; what arrives during one commit goes into the next. A broker that is down loses
nothing: beat sweeps rows that nobody handled.
"""

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from celery import current_app
from django.db import DataError, IntegrityError, transaction
from django.db import Error as DatabaseFault
from kombu.exceptions import OperationalError
from msgspec import structs

from fleet.commands.passing import Answer, settle
from fleet.ingest.accept import Session, clean, details
from fleet.ingest.outbox import Outbox
from fleet.ingest.threads import Threads
from fleet.ingest.times import observed
from fleet.inventory.models import Event as Row
from fleet.inventory.models import Node
from wire.codec import WireError
from wire.messages import COMMAND_DONE, COMMAND_REFUSED, Event

TASK: Final = "fleet.findings.tasks.event_arrived"
MAX_WAITING: Final = 20_000
MAX_UNSETTLED: Final = 2_000
"""Of one connection: one agent's storm must not fill the queue of all."""
EVENTS_PER_S: Final = 200.0
EVENTS_AT_ONCE: Final = 5_000.0
"""Of one node; beyond it `busy`, which agents keep and send again."""
MAX_COMMIT: Final = 500
MAX_TOLD: Final = 50
"""Of one commit; in a storm the sweep takes the rest."""
TELL_AGAIN_S: Final = 10.0

_BAD_ROW: Final = (IntegrityError, DataError, ValueError, OverflowError)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Arrived:
    """An event that passed its checks."""

    session: Session
    event: Event
    at: float


@dataclass(slots=True)
class _Share:
    """How many events a node may still send at once."""

    left: float = EVENTS_AT_ONCE
    at: float = field(default_factory=time.monotonic)

    def spend(self) -> bool:
        now = time.monotonic()
        self.left, self.at = min(EVENTS_AT_ONCE, self.left + EVENTS_PER_S * (now - self.at)), now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class EventDesk:
    """Owned by the event loop. `settled` is told, on the loop, which events are committed and which never can be."""

    def __init__(self, threads: Threads, settled: Callable[[list[Arrived], list[Arrived]], None]) -> None:
        self._threads = threads
        self._settled = settled
        self._waiting: dict[Outbox, deque[Arrived]] = {}
        self._count = 0
        self._shares: dict[int, _Share] = defaultdict(_Share)
        self._wake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._tell_after = 0.0
        self.failing = False

    def start(self) -> None:
        """Begin; call on the event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="ingest-events")

    async def stop(self) -> None:
        """Commit what waits and end."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task

    def put(self, arrived: Arrived) -> None:
        """Queue an event for the next commit; WireError `busy` when too many wait, or its node sends too many."""
        event, session = arrived.event, arrived.session
        if self._count >= MAX_WAITING:
            raise WireError("busy", "too many events wait for the database", event.seq)
        if session.outbox.unsettled >= MAX_UNSETTLED:
            raise WireError("busy", f"{MAX_UNSETTLED} events of this connection wait for the database", event.seq)
        if not self._shares[session.node].spend():
            raise WireError("busy", f"more than {EVENTS_PER_S:.0f} events a second", event.seq)
        event = structs.replace(
            event, text=clean(event.text, 900), gpu_uuid=None if event.gpu_uuid is None else clean(event.gpu_uuid, 80)
        )
        self._waiting.setdefault(session.outbox, deque()).append(Arrived(session, event, arrived.at))
        self._count += 1
        session.outbox.unsettled += 1
        self._wake.set()

    def forget_idle(self) -> None:
        """Let go of shares that are whole again: they are as good as new ones."""
        before = time.monotonic() - EVENTS_AT_ONCE / EVENTS_PER_S
        for node in [node for node, share in self._shares.items() if share.at < before]:
            del self._shares[node]

    def _group(self) -> list[Arrived]:
        """What the next commit takes: from each connection alike, oldest first. It stays in the queue until it is settled."""
        group: list[Arrived] = []
        each = max(1, MAX_COMMIT // max(1, len(self._waiting)))
        for waiting in self._waiting.values():
            group.extend(islice(waiting, each))
            if len(group) >= MAX_COMMIT:
                break
        return group

    def _forget(self, group: list[Arrived]) -> None:
        for arrived in group:
            outbox = arrived.session.outbox
            waiting = self._waiting[outbox]
            waiting.popleft()
            outbox.unsettled -= 1
        self._count -= len(group)
        for outbox in {arrived.session.outbox: None for arrived in group}:
            waiting = self._waiting.pop(outbox)
            if waiting:
                self._waiting[outbox] = waiting  # behind those that were not served

    async def _run(self) -> None:
        pause = 0.5
        while self._waiting or not self._stopping:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                group = self._group()
                try:
                    stored, refused, ids = await self._threads.database(commit, group)
                except Exception as error:
                    if not self.failing:
                        foreseen = isinstance(error, DatabaseFault)
                        logger.error("Events cannot be stored, agents keep them: %s", error, exc_info=not foreseen)
                    self.failing = True
                    if self._stopping:
                        return
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, 10.0)
                    continue
                if self.failing:
                    logger.warning("Events are stored again")
                self.failing, pause = False, 0.5
                self._forget(group)
                self._settled(stored, refused)
                self._tell(ids[:MAX_TOLD])

    def _tell(self, ids: list[int]) -> None:
        loop = asyncio.get_running_loop()
        if ids and loop.time() >= self._tell_after and (self._telling is None or self._telling.done()):
            self._telling = loop.create_task(self._send(ids), name="ingest-tell")

    async def _send(self, ids: list[int]) -> None:
        try:
            await self._threads.broker(_enqueue, ids)
        except (OperationalError, OSError) as error:
            self._tell_after = asyncio.get_running_loop().time() + TELL_AGAIN_S
            logger.warning("The broker does not answer; the sweep will take new events: %s", error)


def commit(group: list[Arrived]) -> tuple[list[Arrived], list[Arrived], list[int]]:
    """Stored (now or earlier), refused for good, and the ids of rows that nobody has handled."""
    stored: list[Arrived] = []
    refused: list[Arrived] = []
    try:
        _store(group)
        stored = group
    except _BAD_ROW:  # a node or GPU was deleted under one of them, or the database takes less than we do
        for arrived in group:
            try:
                _store([arrived])
                stored.append(arrived)
            except _BAD_ROW:
                refused.append(arrived)
    wanted = {(arrived.session.node, arrived.session.boot, arrived.event.seq) for arrived in stored}
    rows = Row.objects.filter(
        handled_at=None,
        node__in={node for node, _, _ in wanted},
        boot__in={boot for _, boot, _ in wanted},
        seq__in={seq for *_, seq in wanted},
    )
    return stored, refused, [pk for pk, *key in rows.values_list("pk", "node_id", "boot", "seq") if tuple(key) in wanted]


@transaction.atomic
def _store(group: list[Arrived]) -> None:
    """The rows of events, and with them what those say that answer a command."""
    rows = [_row(arrived) for arrived in group]
    Row.objects.bulk_create(rows, ignore_conflicts=True)
    settle(
        Answer(row.code, row.node_id, row.kind == COMMAND_DONE, row.text, row.received_at)
        for row in rows
        if row.kind in (COMMAND_DONE, COMMAND_REFUSED) and row.code is not None
    )
    for row in rows:
        if row.kind == "bye":  # of the run that the node is in: one that waited in a spool says nothing of now
            Node.objects.filter(pk=row.node_id, boot=row.boot).update(said_bye_at=row.received_at)


def _row(arrived: Arrived) -> Row:
    event, session = arrived.event, arrived.session
    gpu = session.gpu_by_uuid.get(event.gpu_uuid) if event.gpu_uuid else None
    text = event.text  # cut and cleaned on arrival, as the UUID
    if event.gpu_uuid and gpu is None:
        text = f"{text} ({event.gpu_uuid})".strip()
    return Row(
        node_id=session.node,
        gpu_id=gpu,
        boot=session.boot,
        seq=event.seq,
        kind=event.kind,
        code=event.code,
        severity=event.severity or "",
        details=details(event),
        text=text,
        observed_at=datetime.fromtimestamp(observed(event.t, session.skew.whole, arrived.at), UTC),
        received_at=datetime.fromtimestamp(arrived.at, UTC),
    )


def _enqueue(ids: list[int]) -> None:
    for pk in ids:
        current_app.send_task(TASK, args=[pk], ignore_result=True, retry=False)
