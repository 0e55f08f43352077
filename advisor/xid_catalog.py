"""What an XID or an NVSwitch's SXid says, and the finding that it makes. The codes stand in advisor/xids.py, the rules in xid_rules.py."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from advisor.event_rule import Health, told
from advisor.finding import Change, Evidence, Finding, Severity
from advisor.inventory_rules import INVENTORY_RULES
from advisor.text import Value, _
from advisor.xid_rules import FAULT_OF_CARD, FAULT_OF_CODE, LOST, SWITCH_CHANGE, SWITCH_FATAL, UNCORRECTED, XID_RULES
from advisor.xids import LINK_DOWN_IGNORED, XIDS, Xid

__all__ = ["BY_CODE", "BY_RULE", "FALLEN", "HEALTH", "SOURCES", "UNCORRECTABLE", "XIDS", "Health", "Seen", "Xid"]

SOURCES: Final = ("https://docs.nvidia.com/deploy/xid-errors/",)
OF_SWITCHES: Final = ("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",)
HEALTH: Final = (*XID_RULES, *INVENTORY_RULES)
"""Every rule that is not, or not only, judged in windows."""
BY_RULE: Final[Mapping[str, Health]] = {health.rule: health for health in HEALTH}
BY_CODE: Final[Mapping[int, Xid]] = {xid.code: xid for xid in XIDS}
FALLEN: Final = BY_CODE[79]
"""For a lost GPU that the kernel's text or the agent reports without a code."""
UNCORRECTABLE: Final = BY_CODE[48]
"""For an uncorrected memory error that NVML reports without a code."""
NVLINK5: Final = range(144, 151)
"""Codes whose line says itself whether the error was fatal."""
DEBUGGERS: Final = frozenset(
    {"cuda-gdb", "cuda-gdbserver", "gdb", "ncu", "nsys", "compute-sanitizer", "nsight-compute", "nsight-sys"}
)
"""Processes that stop a GPU's work on purpose."""
AS_SITE_SAYS: Final = _("as this site has set it")
ACTION: Final = "NVIDIA's action for XID {code} at once: {action}"
"""The comment that stands above the steps, where an action is published."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known beside the code of an XID. `recovery`: the action of XID 154; `programs`, `gpus`: who faulted where in thirty days."""

    sub_code: int | None = None
    severity: str = ""
    driver_branch: int | None = None
    recovery: int | None = None
    programs: int = 0
    gpus: int = 0


def severity_of(xid: Xid, seen: Seen) -> Severity:
    """Its own, its rule's, or what the line says of an NVLink error: one that is not fatal asks for nobody at night."""
    if xid.code in NVLINK5 and (seen.severity == "info" or (xid.code == 149 and seen.sub_code in LINK_DOWN_IGNORED)):
        return "advice"
    if xid.rule == "app-fault-xid" and seen.programs > 1:
        return "warn"
    return xid.severity or BY_RULE[xid.rule].severity


def finding(
    xid: Xid,
    target: str,
    node: str,
    gpu: str,
    total: int,
    code: int | None,
    seen: Seen = Seen(),
    severity: Severity | None = None,
) -> Finding:
    """The finding that `total` events of this kind are, on the GPU with key `target`.

    `node` and `gpu` (a UUID) go into commands, shell-quoted; without a `gpu` the target is the node's key. `code` is None where no code
    said so. `severity`: as the site sets it.
    """
    health = replace(BY_RULE[xid.rule], scope="gpu" if gpu else "node")
    params: dict[str, Value] = {"code": "-" if code is None else code, "meaning": xid.meant(seen.driver_branch), "total": total}
    summary, change = health.summary, health.instead.get(xid.action, health.change)
    evidence = [Evidence("xid", code, "code"), Evidence("xid_events", total, "events", threshold=1, comparison=">=")]
    if code is None:
        summary = {FALLEN.rule: LOST, UNCORRECTABLE.rule: UNCORRECTED}.get(xid.rule, summary)
    elif seen.recovery is not None:
        evidence.append(Evidence("recovery_action", seen.recovery, "code"))
        change = health.instead.get(f"recovery {seen.recovery}", change)
    if xid.rule == "app-fault-xid":
        evidence += [
            Evidence("app_xid_jobs_30d", seen.programs or None, "jobs"),
            Evidence("app_xid_gpus_30d", seen.gpus or None, "gpus"),
        ]
        params |= {"programs": seen.programs, "gpus": seen.gpus}
        if seen.programs > 1:
            summary, change = FAULT_OF_CARD, health.instead["hardware"]
        elif seen.gpus > 1:
            summary = FAULT_OF_CODE
    if not gpu:  # nothing can be done to a card that nobody can name
        change = tuple(step for step in change if "{gpu}" not in step.text)
    if code is not None and xid.action:
        change = (Change("command", "# " + ACTION.format(code=code, action=xid.action)), *change)
    return told(
        health, target, params, tuple(evidence), node=node, gpu=gpu, severity=severity or severity_of(xid, seen),
        summary=summary, change=change, sources=SOURCES, gpus=1 if gpu else None,
    )  # fmt: skip


def of_site(code: int, rule: str) -> Xid:
    """A code that the catalogue has not, or has elsewhere, as evidence for the rule that the site names."""
    known = BY_CODE.get(code)
    return Xid(code, AS_SITE_SAYS, rule, "either", sources="") if known is None else replace(known, rule=rule, companion=False)


def unknown(code: int, node_key: int, node: str, total: int, severity: Severity | None = None) -> Finding:
    """The finding of a code that the catalogue has not, on a node: one for each code."""
    health = BY_RULE["xid-unknown"]
    evidence = (Evidence("xid", code, "code"), Evidence("xid_events", total, "events", threshold=1, comparison=">="))
    return told(
        health, f"{node_key}/{code}", {"code": code, "total": total}, evidence, node=node, severity=severity, sources=SOURCES
    )


def of_switch(code: int, is_fatal: bool, node_key: int, node: str, total: int, severity: Severity | None = None) -> Finding:
    """The finding of an NVSwitch's SXid on its node; a fatal one cuts GPUs off from each other until all of them are reset."""
    health = BY_RULE["nvswitch-fault"]
    evidence = (Evidence("sxid", code, "code"), Evidence("xid_events", total, "events", threshold=1, comparison=">="))
    return told(
        health, str(node_key), {"code": code, "total": total}, evidence, node=node, sources=OF_SWITCHES,
        severity=severity or ("critical" if is_fatal else health.severity),
        summary=SWITCH_FATAL if is_fatal else None, change=SWITCH_CHANGE if is_fatal else None,
    )  # fmt: skip
