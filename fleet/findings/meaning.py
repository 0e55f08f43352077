"""What an event means here: the catalogue's word on its code, with what the site says of it, and when it means nothing."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, cast

from advisor import xid_catalog
from advisor.finding import Severity
from advisor.partitions import SEPARATOR
from advisor.xid_catalog import Seen, Xid
from fleet.annotations.matching import noted
from fleet.inventory.models import Event
from fleet.jobs.models import Allocation
from fleet.tuning.in_force import InForce
from fleet.tuning.xids import setting_for

COMPANION_SPAN: Final = timedelta(minutes=1)
"""How near to another fault an XID that only follows others must be to count as part of it."""
PLANNED: Final = frozenset({"xid-fallen-off-bus", "gpu-reset-required", "nvlink-fault", "nvswitch-fault", "uncorrectable-ecc"})
"""Rules that a reset, a hot swap, a restart of the fabric manager or an injected error sets off: silent on a node in maintenance."""
BOOTING: Final = timedelta(minutes=3)
"""After a node's boot its links err until the fabric manager is up."""
LINKS: Final = frozenset({"nvlink-fault", "nvswitch-fault"})


@dataclass(frozen=True, slots=True)
class Notes:
    """What is noted of a node: whether somebody works on it, and its partitions."""

    maintenance: bool = False
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an event says. `xid` is None for a code that nobody knows, and for an NVSwitch's; `ignored`: it opens nothing here."""

    xid: Xid | None
    severity: Severity | None = None
    ignored: bool = False


def xid_of(event: Event) -> Xid | None:
    """What the event says, in the catalogue's terms; None where it says nothing that a rule knows."""
    if event.kind == "gpu_lost" or "fallen off the bus" in event.text.lower():
        return xid_catalog.FALLEN
    if event.kind == "ecc" and event.code == 2:
        return xid_catalog.UNCORRECTABLE
    if event.kind == "xid" and event.code is not None:
        return xid_catalog.BY_CODE.get(event.code)
    return None


def notes_of(nodes: Mapping[int, str], at: datetime) -> dict[int, Notes]:
    """By node what is noted of it; those of which nothing is are left out."""
    found = noted("node", {pk: (name,) for pk, name in nodes.items()}, at, keys=("maintenance", "partition"))
    of_jobs: dict[int, set[str]] = defaultdict(set)
    for pk, partition in (
        Allocation.objects.filter(until_at=None, node__in=nodes).order_by().values_list("node", "job__partition").distinct()
    ):
        if pk is not None and partition:
            of_jobs[pk].add(partition)
    return {
        pk: Notes(
            found.get(pk, {}).get("maintenance") is True,
            tuple(str(found[pk]["partition"]).split(SEPARATOR)) if "partition" in found.get(pk, {}) else tuple(of_jobs[pk]),
        )
        for pk in {*found, *of_jobs}
    }


def meaning(event: Event, force: InForce, notes: Notes) -> Meaning:
    """What the event means on its node, as the site has it."""
    xid = xid_of(event)
    if event.code is None or event.kind not in ("xid", "sxid"):
        return Meaning(xid)
    settings = force.xids.get((event.kind, event.code), ())
    said = setting_for(settings, event.node.name, event.gpu.model if event.gpu else "", notes.partitions) if settings else None
    if said is None:
        return Meaning(xid)
    if said.rule:
        xid = xid_catalog.of_site(event.code, said.rule)
    return Meaning(xid, cast(Severity, said.severity) if said.severity else None, said.ignored)


def is_silent(event: Event, rule: str, notes: Notes) -> bool:
    """True where what the event says is no trouble: planned work, a debugger's doing, links that come up after a boot."""
    if notes.maintenance and rule in PLANNED:
        return True
    if event.details.get("process") in xid_catalog.DEBUGGERS and (rule == "app-fault-xid" or event.code == 109):
        return True
    booted = event.node.booted_at
    return rule in LINKS and booted is not None and timedelta() <= event.observed_at - booted < BOOTING


def seen_of(event: Event) -> Seen:
    """What is known beside the event's code."""
    details = event.details if isinstance(event.details, dict) else {}
    sub_code, recovery = details.get("sub_code"), details.get("recovery_action")
    branch = event.node.driver_version.partition(".")[0]
    return Seen(
        sub_code=sub_code if isinstance(sub_code, int) else None,
        severity=event.severity,
        driver_branch=int(branch) if branch.isdecimal() else None,
        recovery=recovery if isinstance(recovery, int) else None,
    )


def with_faults(seen: Seen, counts: tuple[int, int]) -> Seen:
    """`seen` with how many programs faulted on the GPU and on how many GPUs its program did."""
    return replace(seen, programs=counts[0], gpus=counts[1])


def has_company(event: Event, xid: Xid) -> bool:
    """True where another fault of its GPU is near; an NVLink's privilege error asks for another of a link."""
    near = Event.objects.filter(
        gpu=event.gpu,
        kind="xid",
        observed_at__range=(event.observed_at - COMPANION_SPAN, event.observed_at + COMPANION_SPAN),
    ).exclude(code=event.code)
    return near.filter(code__in=codes_of(xid.rule)).exists() if xid.rule == "nvlink-fault" else near.exists()


def codes_of(rule: str) -> list[int]:
    """The codes that are evidence for a rule, as shipped."""
    return [xid.code for xid in xid_catalog.XIDS if xid.rule == rule]
