"""What each XID means and which rule it is evidence for: pure data.

Meanings after NVIDIA's XID error catalogue (https://docs.nvidia.com/deploy/xid-errors/), read 2026-11; the mapping
to rules follows the hardware-health group of Fettle's rule catalogue. A code that is not here is kept as an event
and opens nothing: what it asks for is not known.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from advisor.finding import Change, Confidence, Evidence, Finding, Severity
from advisor.text import Text, _

SOURCES: Final = ("https://docs.nvidia.com/deploy/xid-errors/",)


@dataclass(frozen=True, slots=True)
class Health:
    """One rule of hardware health: what to say, what to do, how long without a repeat counts as over."""

    rule: str
    severity: Severity
    confidence: Confidence
    title: str
    summary: str  # fields: code, meaning, total
    change: tuple[Change, ...]  # fields: node, gpu
    risk: str
    rollback: str
    verify: str
    quiet_s: float


_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
_NOTHING_TO_ROLL_BACK: Final = _("Nothing to roll back: put the node back into service.")

_DIAGNOSE: Final = Change("command", "dcgmi diag -r 3")

HEALTH: Final = (
    Health(
        rule="xid-fallen-off-bus",
        severity="critical",
        confidence="high",
        title=_("GPU has fallen off the bus"),
        summary=_(
            "The driver lost the GPU (XID {code}: {meaning}). Its jobs are dead and new ones will fail until the node is power-cycled."
        ),
        change=(
            Change("command", 'scontrol update nodename={node} state=drain reason="GPU fell off the bus"'),
            Change("command", "kubectl cordon {node} && kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"),
            Change("command", "nvidia-bug-report.sh"),
            _DIAGNOSE,
        ),
        risk=_("The node's capacity is lost while it is drained."),
        rollback=_NOTHING_TO_ROLL_BACK,
        verify=_("Seven days and 100 GPU-hours of load without a repeat, and a level 3 diagnosis that passes."),
        quiet_s=7 * _DAY,
    ),
    Health(
        rule="uncorrectable-ecc",
        severity="critical",
        confidence="high",
        title=_("Uncorrectable memory error"),
        summary=_("The GPU's memory returned data that could not be corrected (XID {code}: {meaning}), {total} time(s)."),
        change=(
            Change("command", 'scontrol update nodename={node} state=drain reason="uncorrectable ECC"'),
            Change("command", "nvidia-smi -i {gpu} -r"),
            _DIAGNOSE,
        ),
        risk=_("A reset ends every process on the GPU, and on its NVLink peers where the fabric demands it."),
        rollback=_NOTHING_TO_ROLL_BACK,
        verify=_("No uncorrected error after the reset, no row remap pending, 72 hours under load without a repeat."),
        quiet_s=3 * _DAY,
    ),
    Health(
        rule="row-remap-pending",
        severity="warn",
        confidence="high",
        title=_("Row remap waits for a GPU reset"),
        summary=_("The driver set a memory row aside (XID {code}: {meaning}); the spare row is used after a reset."),
        change=(
            Change("command", 'scontrol update nodename={node} state=drain reason="row remap needs a reset"'),
            Change("command", "nvidia-smi -i {gpu} -r"),
        ),
        risk=_("Resetting one GPU of an NVSwitch system can need all its GPUs idle."),
        rollback=_NOTHING_TO_ROLL_BACK,
        verify=_("No remap pending or failed after the reset, and no XID 48 or 94 for seven days."),
        quiet_s=7 * _DAY,
    ),
    Health(
        rule="row-remap-failed",
        severity="critical",
        confidence="high",
        title=_("Row remapping failed or spare rows are used up"),
        summary=_("The GPU could not replace a bad memory row (XID {code}: {meaning})."),
        change=(
            Change("command", 'scontrol update nodename={node} state=drain reason="row remap failed"'),
            Change("command", "nvidia-smi -i {gpu} -r"),
            _DIAGNOSE,
            Change("command", "nvidia-bug-report.sh"),
        ),
        risk=_("The GPU's capacity is lost until it is replaced."),
        rollback=_NOTHING_TO_ROLL_BACK,
        verify=_("One reset, then no remap failure; if the flag stays, the replaced GPU passes a level 3 diagnosis."),
        quiet_s=7 * _DAY,
    ),
    Health(
        rule="correctable-ecc-rate",
        severity="advice",
        confidence="medium",
        title=_("Corrected memory errors at a high rate"),
        summary=_("The driver reports many corrected memory errors (XID {code}: {meaning}): an early sign of worse."),
        change=(_DIAGNOSE,),
        risk=_("The GPU is out of use while it is diagnosed."),
        rollback=_NOTHING_TO_ROLL_BACK,
        verify=_("The rate is back under that of the GPU's peers for seven days, or the card was replaced."),
        quiet_s=7 * _DAY,
    ),
    Health(
        rule="nvlink-fault",
        severity="critical",
        confidence="high",
        title=_("NVLink or NVSwitch fault"),
        summary=_("A link between GPUs reported a fault (XID {code}: {meaning}), {total} time(s)."),
        change=(
            Change("command", "systemctl status nvidia-fabricmanager"),
            Change("command", "nvidia-smi nvlink -s -i {gpu} && nvidia-smi nvlink -e -i {gpu}"),
            Change("command", 'scontrol update nodename={node} state=drain reason="NVLink fault"'),
        ),
        risk=_("Resetting the links resets every GPU of the baseboard."),
        rollback=_NOTHING_TO_ROLL_BACK,
        verify=_("All links are up, their error counters stay flat for 24 hours, and all-reduce is back at its bandwidth."),
        quiet_s=_DAY,
    ),
    Health(
        rule="gpu-reset-required",
        severity="critical",
        confidence="high",
        title=_("The driver asks for a GPU or node recovery action"),
        summary=_("The GPU or its firmware stopped answering (XID {code}: {meaning}) and needs a reset."),
        change=(
            Change("command", "nvidia-smi -q | grep -A 2 'GPU Recovery Action'"),
            Change("command", 'scontrol update nodename={node} state=drain reason="GPU reset required"'),
            Change("command", "nvidia-smi -i {gpu} -r"),
        ),
        risk=_("Jobs on the same GPU or node end; drain first."),
        rollback=_NOTHING_TO_ROLL_BACK,
        verify=_("The recovery action reads none and nothing repeats for seven days."),
        quiet_s=_DAY,
    ),
    Health(
        rule="app-fault-xid",
        severity="advice",
        confidence="high",
        title=_("A program caused a GPU fault"),
        summary=_(
            "A process made the GPU fault (XID {code}: {meaning}), {total} time(s). The same program on other GPUs"
            " points at its code; other programs on this GPU point at the hardware."
        ),
        change=(
            Change("command", "compute-sanitizer --tool memcheck python train.py"),
            Change("env", "CUDA_LAUNCH_BLOCKING=1"),
            _DIAGNOSE,
        ),
        risk=_("The sanitizer is 10 to 100 times slower: use a small case."),
        rollback=_("Take the sanitizer and the variable out again."),
        verify=_("Three clean runs of the job, or a clean diagnosis and seven days without a repeat."),
        quiet_s=_HOUR,
    ),
)
BY_RULE: Final[Mapping[str, Health]] = {health.rule: health for health in HEALTH}


@dataclass(frozen=True, slots=True)
class Xid:
    """One code. `companion`: it follows other trouble, or a plain kill, and opens nothing by itself."""

    code: int
    meaning: str
    rule: str
    companion: bool = False


XIDS: Final = (
    Xid(13, "graphics engine exception", "app-fault-xid"),
    Xid(31, "GPU memory page fault", "app-fault-xid"),
    Xid(32, "invalid or corrupted push buffer stream", "app-fault-xid"),
    Xid(43, "GPU stopped processing", "app-fault-xid"),
    Xid(45, "preemptive cleanup, due to previous errors", "app-fault-xid", companion=True),
    Xid(46, "GPU stopped processing", "gpu-reset-required"),
    Xid(48, "double bit ECC error", "uncorrectable-ecc"),
    Xid(62, "internal micro-controller halt", "gpu-reset-required"),
    Xid(63, "row remapping recorded", "row-remap-pending"),
    Xid(64, "row remapping failed", "row-remap-failed"),
    Xid(69, "graphics engine class error", "app-fault-xid"),
    Xid(74, "NVLink error", "nvlink-fault"),
    Xid(79, "GPU has fallen off the bus", "xid-fallen-off-bus"),
    Xid(80, "corrupted data sent to GPU", "app-fault-xid"),
    Xid(92, "high single-bit ECC error rate", "correctable-ecc-rate"),
    Xid(94, "contained memory error", "uncorrectable-ecc"),
    Xid(95, "uncontained memory error", "uncorrectable-ecc"),
    Xid(109, "context switch timeout", "gpu-reset-required"),
    Xid(110, "security fault", "gpu-reset-required"),
    Xid(119, "GSP remote call timeout", "gpu-reset-required"),
    Xid(120, "GSP error", "gpu-reset-required"),
    Xid(136, "NVLink training failure", "nvlink-fault"),
    Xid(137, "NVLink privilege error", "nvlink-fault"),
    Xid(140, "unrecovered ECC error", "uncorrectable-ecc"),
    Xid(143, "GPU initialisation failure", "gpu-reset-required"),
    Xid(144, "NVLink SAW error", "nvlink-fault"),
    Xid(145, "NVLink RLW error", "nvlink-fault"),
    Xid(146, "NVLink TLW error", "nvlink-fault"),
    Xid(147, "NVLink TREX error", "nvlink-fault"),
    Xid(148, "NVLink NVLPW_CTRL error", "nvlink-fault"),
    Xid(149, "NVLink NETIR error", "nvlink-fault"),
    Xid(150, "NVLink MSE error", "nvlink-fault"),
    Xid(154, "GPU recovery action changed", "gpu-reset-required"),
    Xid(155, "NVLink software defined error", "nvlink-fault"),
    Xid(157, "resource retirement failure", "row-remap-failed"),
    Xid(158, "GPU fatal timeout", "gpu-reset-required"),
    Xid(167, "PCIe fatal timeout", "xid-fallen-off-bus"),
    Xid(171, "uncorrectable DRAM error, beside XID 48", "uncorrectable-ecc"),
    Xid(172, "uncorrectable SRAM error, beside XID 48", "uncorrectable-ecc"),
)
BY_CODE: Final[Mapping[int, Xid]] = {xid.code: xid for xid in XIDS}

FALLEN: Final = Xid(79, "GPU has fallen off the bus", "xid-fallen-off-bus")
"""For a lost GPU that the kernel's text or the agent reports without a code."""


def finding(xid: Xid, target: str, node: str, gpu: str, total: int, code: int | None) -> Finding:
    """The finding that `total` events of this kind are, on the GPU with key `target`.

    `node` and `gpu` (a UUID) go into commands, shell-quoted. `code` is None where only a text said so.
    """
    health = BY_RULE[xid.rule]
    words = {"node": shlex.quote(node), "gpu": shlex.quote(gpu)}
    return Finding(
        rule=health.rule,
        severity=health.severity,
        scope="gpu",
        target=target,
        bottleneck=None,
        confidence=health.confidence,
        title=Text(health.title),
        summary=Text(health.summary, {"code": "-" if code is None else code, "meaning": xid.meaning, "total": total}),
        evidence=(Evidence("xid", code, "code"), Evidence("xid_events", total, "events", threshold=1, comparison=">=")),
        change=tuple(Change(change.kind, change.text.format_map(words)) for change in health.change),
        expected_gain=None,
        recoverable=0.0,
        risk=Text(health.risk),
        rollback=Text(health.rollback),
        verify=Text(health.verify),
        sources=SOURCES,
        gpus=1,
    )
