"""What a site lets rules say, and why an open finding ends when that changes."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext_noop

from fleet.findings.models import Finding

SWITCHED_OFF: Final = gettext_noop("the rule was switched off")
IN_SHADOW: Final = gettext_noop("the rule was put into shadow")
OUT_OF_SHADOW: Final = gettext_noop("the rule came out of shadow")
REMOVED: Final = gettext_noop("the rule is there no more")
NOTES: Final = (SWITCHED_OFF, IN_SHADOW, OUT_OF_SHADOW, REMOVED)
"""What ended with one of these did not flap: the trouble may have been there all the while."""


@dataclass(frozen=True, slots=True)
class Permitted:
    """What the site lets rules say: those that there are, those that are off, and those in shadow."""

    known: Collection[str]
    off: Collection[str]
    shadow: Collection[str]

    def why_not(self, row: Finding) -> str:
        """Why an open finding of the rule cannot stay as it is, a note for its end; "" where it can."""
        if row.rule in self.off:
            return SWITCHED_OFF
        if row.rule not in self.known:
            return REMOVED
        if row.shadow != (row.rule in self.shadow):
            return OUT_OF_SHADOW if row.shadow else IN_SHADOW
        return ""
