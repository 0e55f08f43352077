"""What a site says of an XID or an NVSwitch's SXid: which setting is in force where."""

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from advisor.xid_rules import XID_RULES

KINDS: Final = ("xid", "sxid")
MATCHERS: Final = ("site", "gpu_model", "partition", "node")
"""From the widest to the narrowest. An event is of a device: what job ran there does not change what it means."""
RULES: Final = tuple(rule.rule for rule in XID_RULES if rule.scope == "gpu")
"""What an XID may be evidence for."""


@dataclass(frozen=True, slots=True)
class XidSetting:
    """One override, without who and when; an empty rule or severity is the catalogue's."""

    matcher: str
    pattern: str
    rule: str = ""
    severity: str = ""
    ignored: bool = False


def setting_for(settings: Collection[XidSetting], node: str, model: str, partitions: Collection[str]) -> XidSetting | None:
    """The narrowest setting that holds for an event on a GPU of `model` (empty: of none) of a node; None where there is none."""

    def holds(one: XidSetting) -> bool:
        match one.matcher:
            case "site":
                return True
            case "gpu_model":
                return bool(model) and fnmatchcase(model, one.pattern)
            case "partition":
                return any(fnmatchcase(part, one.pattern) for part in partitions)
            case "node":
                return fnmatchcase(node, one.pattern)
        return False

    fitting = [one for one in settings if holds(one)]
    return max(fitting, key=lambda one: (MATCHERS.index(one.matcher), len(one.pattern), one.pattern), default=None)
