"""From row to frame and back: who may send which command now, what agents answered, what came too late.

Each change of state is one conditional update: of several server processes exactly one sends a command, and a kill between
two steps leaves a row that expires with a sentence, never one that is sent twice to the same boot of an agent.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils import timezone

from fleet.commands.asking import wait
from fleet.commands.models import OPEN, Command
from wire import messages

FRAMES: Final = {
    "pause_profiling": "pause_profiling",
    "resume_profiling": "pause_profiling",
    "release_driver": "release",
    "take_driver_back": "release",
}
"""The name on the wire of each command; what ends another is the same with no seconds."""
_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent said of a command: its number, the node that said so."""

    command: int
    node: int
    is_done: bool
    text: str
    at: datetime


def due() -> list[Command]:
    """The commands that somebody might send now, oldest first; those whose time is over expire on the way."""
    now = timezone.now()
    rows = list(Command.objects.filter(state__in=OPEN).order_by("id")[:_AT_ONCE])
    if late := [row.pk for row in rows if row.expires_at <= now]:  # a look that writes nothing takes no lock
        Command.objects.filter(pk__in=late, state__in=OPEN, expires_at__lte=now).update(state="expired")
    return [row for row in rows if row.expires_at > now]


def claim(rows: Iterable[tuple[Command, str]]) -> list[Command]:
    """Of these commands, each with its agent's boot, those that are the caller's to send; they count as sent from now on."""
    claimed = []
    for row, boot in rows:
        now = timezone.now()
        mine = Command.objects.filter(pk=row.pk, state=row.state, boot=row.boot, expires_at__gt=now).exclude(
            state="sent", boot=boot
        )
        if mine.update(state="sent", boot=boot, sent_at=now, expires_at=now + wait()):
            claimed.append(row)
    return claimed


def give_back(row: Command, boot: str) -> None:
    """The connection had ended before the command went out: it waits again, for the node's next one."""
    Command.objects.filter(pk=row.pk, state="sent", boot=boot).update(state="waiting", boot="", sent_at=None)


def frame(row: Command) -> messages.Command:
    """What goes to the agent."""
    return messages.Command(name=FRAMES[row.what], args={"seconds": row.seconds or 0, "by": row.asked_by_name}, id=row.pk)


def settle(answers: Iterable[Answer]) -> None:
    """Note what agents answered. An answer that comes again changes nothing; one that comes late still counts."""
    for answer in answers:
        rows = Command.objects.filter(pk=answer.command, node=answer.node, sent_at__isnull=False)
        rows.filter(state__in=("sent", "expired")).update(
            state="done" if answer.is_done else "refused", answer=answer.text, answered_at=answer.at
        )
