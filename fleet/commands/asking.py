"""Asking: a row first, then a word to the process that holds the node's socket."""

from datetime import timedelta
from functools import partial
from typing import Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext

from fleet.accounts.models import User
from fleet.commands import bell
from fleet.commands.models import LONGEST_S, OPEN, TIMED, WHAT, Command
from fleet.inventory.models import Node

MAY: Final = "commands.add_command"
"""The permission that a person needs."""


class AskError(Exception):
    """It cannot be asked now; the message says why and what to do."""


def wait() -> timedelta:
    """How long a command waits for its node, and then for the answer."""
    return timedelta(seconds=settings.FETTLE_COMMAND_WAIT_S)


def ask(node: Node, what: str, seconds: int | None, reason: str, user: User) -> Command:
    """The new command's row; AskError where the node has one of its kind, or is no machine. The caller checks permissions."""
    if what not in WHAT:
        raise AskError(gettext("There is no command {what}; there are: {known}.").format(what=what[:40], known=", ".join(WHAT)))
    if (what in TIMED) != (seconds is not None) or (seconds is not None and not 1 <= seconds <= LONGEST_S):
        raise AskError(
            gettext("{timed} take 1 to {longest} seconds, the others none.").format(timed=", ".join(TIMED), longest=LONGEST_S)
        )
    if node.recording:
        raise AskError(gettext("{node} plays a recording: there is no driver to command.").format(node=node.name))
    try:
        with transaction.atomic():
            row = Command.objects.create(
                node=node,
                node_name=node.name,
                what=what,
                seconds=seconds,
                reason=reason,
                asked_by=user,
                asked_by_name=user.get_username(),
                expires_at=timezone.now() + wait(),
            )
            transaction.on_commit(partial(bell.ring, node.pk), robust=True)
    except IntegrityError:
        if not Command.objects.filter(node=node, what=what, state__in=OPEN).exists():
            raise
        says = gettext("A command of this kind is under way for {node}: wait until it is answered or has expired.")
        raise AskError(says.format(node=node.name)) from None
    return row
