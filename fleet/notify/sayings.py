"""Why an alert is told to nobody, or not by a route: a sentence by name, kept with its values and said in the reader's language."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext, gettext_noop

SENTENCES: Final[Mapping[str, str]] = {
    "off": gettext_noop("The route is switched off."),
    "too_mild": gettext_noop("The route takes {least} and above; this is {severity}."),
    "no_match": gettext_noop("The route's matcher on {label} does not fit: the alert has {has}."),
    "no_ends": gettext_noop("The route is not told of alerts' ends."),
    "after_last": gettext_noop("The route {route} before it is the last one for what it takes."),
    "consequence": gettext_noop("It follows from finding {cause}, which is told."),
    "silence": gettext_noop("It is silenced: {comment}"),
    "maintenance": gettext_noop("Somebody works on {node}."),
    "inhibition": gettext_noop("Inhibited by {inhibition}, while finding {source} fires."),
    "over": gettext_noop("It was over before it was told."),
    "beginning_untold": gettext_noop("Its beginning was told to nobody here."),
    "acknowledged": gettext_noop("Somebody acknowledged it meanwhile."),
    "route_off": gettext_noop("The route was switched off meanwhile."),
}
_LONGEST: Final = 120


@dataclass(frozen=True, slots=True)
class Saying:
    """A sentence's name with its values."""

    name: str
    values: Mapping[str, str]

    def __str__(self) -> str:
        """The sentence in the language of whoever reads."""
        return gettext(SENTENCES[self.name]).format(**self.values)

    def kept(self) -> str:
        """As it is stored, in any language: at most 300 characters."""
        room = 280 - len(self.name)
        values = {name: value[: max(room // (2 * max(len(self.values), 1)), 8)] for name, value in self.values.items()}
        return json.dumps([self.name, values], ensure_ascii=False)


def said(name: str, **values: object) -> Saying:
    """The sentence of that name; values that go on for long end."""
    return Saying(name, {key: str(value)[:_LONGEST] for key, value in values.items()})


def read(kept: str) -> Saying | None:
    """A stored sentence; None for nothing."""
    if not kept:
        return None
    name, values = json.loads(kept)
    return Saying(name, values)
