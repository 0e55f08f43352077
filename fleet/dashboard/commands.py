"""A node's commands as its page shows them: what was asked and what came of it, and the forms of those who may ask."""

from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from fleet.commands.models import OPEN, Command
from fleet.dashboard import words
from fleet.dashboard.templatetags.units import duration
from fleet.inventory.models import Node

SHOWN: Final = 10
MINUTES: Final = (5, 10, 30, 60, 120, 480)
DEFAULT_MIN: Final = 30

WHAT: Final = {
    "pause_profiling": _("Pause profiling"),
    "resume_profiling": _("Resume profiling"),
    "release_driver": _("Let the driver go"),
    "take_driver_back": _("Take the driver up again"),
}
STATE: Final = {
    "waiting": pgettext_lazy("command", "waiting"),
    "sent": pgettext_lazy("command", "sent"),
    "done": pgettext_lazy("command", "done"),
    "refused": pgettext_lazy("command", "refused"),
    "expired": pgettext_lazy("command", "expired"),
}
NOT_COME: Final = _("The node did not come in time; nothing was sent.")
NOT_ANSWERED: Final = _("It was sent, and the agent did not answer in time: it may have been done.")
WAITS: Final = _("It is sent as soon as the node's agent is connected.")
ON_ITS_WAY: Final = _("The agent has not answered yet.")


@dataclass(frozen=True, slots=True)
class Row:
    """One command in words."""

    command: Command
    what: str
    lasts: str
    state: str
    says: str

    @property
    def is_open(self) -> bool:
        """True while it waits for its node or for the answer."""
        return self.command.state in OPEN


@dataclass(frozen=True, slots=True)
class Form:
    """What may be asked: something for a while, or its end."""

    what: str
    title: Promise
    ends: str
    end_title: Promise
    means: Promise


FORMS: Final = (
    Form(
        "pause_profiling",
        WHAT["pause_profiling"],
        "resume_profiling",
        WHAT["resume_profiling"],
        _(
            "The agent leaves the GPUs' profiling counters to another profiler, such as Nsight Compute. "
            "SM activity and what else comes from them is absent meanwhile; everything else is read on."
        ),
    ),
    Form(
        "release_driver",
        WHAT["release_driver"],
        "take_driver_back",
        WHAT["take_driver_back"],
        _(
            "The agent closes every handle of the driver, so that it can be unloaded and a GPU reset. "
            "Nothing is read of the GPUs meanwhile. Refused while a process holds a GPU."
        ),
    ),
)


def rows(node: Node) -> list[Row]:
    """The newest commands of the node, the newest first."""
    return [
        Row(
            command,
            words.word(WHAT, command.what),
            "" if command.seconds is None else duration(command.seconds),
            words.word(STATE, command.state),
            _says(command),
        )
        for command in Command.objects.filter(node=node)[:SHOWN]
    ]


def _says(command: Command) -> str:
    """The agent's words, or the server's where there are none."""
    if command.state == "waiting":
        return str(WAITS)
    if command.state == "sent":
        return str(ON_ITS_WAY)
    if command.state == "expired":
        return str(NOT_COME if command.sent_at is None else NOT_ANSWERED)
    return command.answer
