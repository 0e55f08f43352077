"""The codes that there are: the catalogue's, those that came from nodes, and those of which the site said something."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, get_args

from django.db.models import Count
from django.utils import timezone
from django.utils.translation import gettext

from advisor import xid_catalog
from advisor.xids import SOURCES, Fault
from fleet.inventory.models import Event
from fleet.tuning.models import XidOverride

FAULTS: Final[tuple[str, ...]] = (*get_args(Fault), "unknown")
RECENT: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Code:
    """One code. `overrides` are rows of XidOverride."""

    kind: str
    code: int
    meaning: str
    rule: str
    severity: str
    fault: str
    action: str
    with_others: bool
    since_driver: str
    sources: tuple[str, ...]
    events_30d: int
    overrides: tuple[XidOverride, ...]

    @property
    def id(self) -> str:
        """xid-31."""
        return f"{self.kind}-{self.code}"


def codes() -> list[Code]:
    """Every code, by kind and number, in the active language."""
    rows = Event.objects.filter(kind__in=("xid", "sxid"), code__gt=0, observed_at__gt=timezone.now() - RECENT)
    counts = {(kind, code): count for kind, code, count in rows.order_by().values_list("kind", "code").annotate(Count("pk"))}
    said: dict[tuple[str, int], list[XidOverride]] = defaultdict(list)
    for row in XidOverride.objects.all():
        said[row.kind, row.code].append(row)
    shipped = {("xid", xid.code) for xid in xid_catalog.XIDS}
    found = []
    for kind, code in sorted(shipped | counts.keys() | said.keys(), key=lambda key: (key[0] != "xid", key[1])):
        found.append(
            Code(kind, code, events_30d=counts.get((kind, code), 0), overrides=tuple(said[kind, code]), **_shipped(kind, code))
        )
    return found


def _shipped(kind: str, code: int) -> dict[str, Any]:
    """What the catalogue says of a code."""
    xid = xid_catalog.BY_CODE.get(code) if kind == "xid" else None
    if xid is None:
        rule = "xid-unknown" if kind == "xid" else "nvswitch-fault"
        return {
            "meaning": "", "rule": rule, "severity": xid_catalog.BY_RULE[rule].severity, "fault": "unknown" if kind == "xid" else "hardware",
            "action": "", "with_others": False, "since_driver": "", "sources": (),
        }  # fmt: skip
    return {
        "meaning": gettext(xid.meaning),
        "rule": xid.rule,
        "severity": (xid.severity or xid_catalog.BY_RULE[xid.rule].severity) if xid.rule else "",
        "fault": xid.fault,
        "action": xid.action,
        "with_others": xid.companion,
        "since_driver": xid.since,
        "sources": tuple(SOURCES[letter] for letter in xid.sources),
    }
