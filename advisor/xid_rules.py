"""The rules that XIDs and an NVSwitch's SXids are evidence for: what each says and asks for. Which code belongs to which: advisor/xids.py."""

from typing import Final

from advisor.event_rule import DAY_S, DIAGNOSE, HOUR_S, NEVER_S, NOTHING_TO_ROLL_BACK, Health
from advisor.finding import Change
from advisor.text import _

_REBOOT: Final = (
    Change("command", 'scontrol update nodename={node} state=drain reason="GPU recovery action: reboot"'),
    Change("command", "scontrol reboot ASAP nextstate=RESUME {node}  # once its jobs have ended"),
)

XID_RULES: Final = (
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
            DIAGNOSE,
        ),
        risk=_("The node's capacity is lost while it is drained."),
        rollback=NOTHING_TO_ROLL_BACK,
        verify=_("Seven days and 100 GPU-hours of load without a repeat, and a level 3 diagnosis that passes."),
        quiet_s=7 * DAY_S,
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
            DIAGNOSE,
        ),
        instead={
            "RESTART_APP": (
                Change("command", "# start the job again: the error was contained, and other processes on the GPU go on"),
                Change("command", "nvidia-smi -i {gpu} -r  # at the GPU's next idle moment"),
            )
        },
        risk=_("A reset ends every process on the GPU, and on its NVLink peers where the fabric demands it."),
        rollback=NOTHING_TO_ROLL_BACK,
        verify=_("No uncorrected error after the reset, no row remap pending, 72 hours under load without a repeat."),
        quiet_s=3 * DAY_S,
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
        rollback=NOTHING_TO_ROLL_BACK,
        verify=_("No remap pending or failed after the reset, and no XID 48 or 94 for seven days."),
        quiet_s=7 * DAY_S,
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
            DIAGNOSE,
            Change("command", "nvidia-bug-report.sh"),
        ),
        risk=_("The GPU's capacity is lost until it is replaced."),
        rollback=NOTHING_TO_ROLL_BACK,
        verify=_("One reset, then no remap failure; if the flag stays, the replaced GPU passes a level 3 diagnosis."),
        quiet_s=7 * DAY_S,
    ),
    Health(
        rule="correctable-ecc-rate",
        severity="advice",
        confidence="medium",
        title=_("Corrected memory errors at a high rate"),
        summary=_("The driver reports many corrected memory errors (XID {code}: {meaning}): an early sign of worse."),
        change=(DIAGNOSE,),
        risk=_("The GPU is out of use while it is diagnosed."),
        rollback=NOTHING_TO_ROLL_BACK,
        verify=_("The rate is back under that of the GPU's peers for seven days, or the card was replaced."),
        quiet_s=7 * DAY_S,
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
        rollback=NOTHING_TO_ROLL_BACK,
        verify=_("All links are up, their error counters stay flat for 24 hours, and all-reduce is back at its bandwidth."),
        quiet_s=DAY_S,
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
        instead={
            "recovery 2": _REBOOT,
            "recovery 3": (
                Change("command", 'scontrol update nodename={node} state=drain reason="drain peer-to-peer traffic"'),
                Change("command", "nvidia-smi -q | grep -A 2 'GPU Recovery Action'"),
            ),
            "recovery 5": (
                Change("command", "systemctl restart nvidia-imex  # on every node of the IMEX domain"),
                Change("command", "nvidia-smi -q | grep -A 2 'GPU Recovery Action'"),
            ),
            "recovery 7": _REBOOT,
        },
        risk=_("Jobs on the same GPU or node end; drain first."),
        rollback=NOTHING_TO_ROLL_BACK,
        verify=_("The recovery action reads none and nothing repeats for seven days."),
        quiet_s=DAY_S,
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
        instead={
            "hardware": (
                DIAGNOSE,
                Change("command", 'scontrol update nodename={node} state=drain reason="several programs fault on one GPU"'),
                Change("command", "nvidia-smi -i {gpu} -q -d ECC,ROW_REMAPPER"),
            ),
        },
        change=(
            Change("command", "compute-sanitizer --tool memcheck python train.py"),
            Change("env", "CUDA_LAUNCH_BLOCKING=1"),
            DIAGNOSE,
        ),
        risk=_("The sanitizer is 10 to 100 times slower: use a small case."),
        rollback=_("Take the sanitizer and the variable out again."),
        verify=_("Three clean runs of the job, or a clean diagnosis and seven days without a repeat."),
        quiet_s=HOUR_S,
    ),
    Health(
        rule="xid-other",
        severity="advice",
        confidence="high",
        title=_("The driver reports trouble of another kind"),
        summary=_("The driver reports of this GPU: {meaning} (XID {code}), {total} time(s)."),
        change=(
            Change("command", "dmesg | grep -i -e xid -e nvrm"),
            Change("command", "nvidia-bug-report.sh  # where it comes again"),
        ),
        risk=_("None: these steps only look."),
        rollback=_("Nothing to roll back."),
        verify=_("No repeat for seven days."),
        quiet_s=7 * DAY_S,
    ),
    Health(
        rule="xid-unknown",
        severity="info",
        confidence="low",
        title=_("An XID that nobody here knows"),
        summary=_(
            "The driver of this node reported XID {code}, {total} time(s). Fettle's catalogue does not have it: a newer one may."
        ),
        change=(
            Change("command", "dmesg | grep -i -e xid -e nvrm"),
            Change(
                "command",
                "# look it up at https://docs.nvidia.com/deploy/xid-errors/ and tell the site's Fettle which rule it belongs to",
            ),
        ),
        risk=_("None: these steps only look."),
        rollback=_("Nothing to roll back."),
        verify=_("The code is in the catalogue, or the site has said what it means."),
        quiet_s=NEVER_S,
        scope="node",
    ),
    Health(
        rule="nvswitch-fault",
        severity="advice",
        confidence="high",
        title=_("An NVSwitch reports errors"),
        summary=_("An NVSwitch of this node reported SXid {code}, {total} time(s); the driver calls it not fatal."),
        change=(
            Change("command", "dmesg | grep -i sxid"),
            Change("command", "nvidia-smi nvlink -e"),
        ),
        risk=_("None: these steps only look."),
        rollback=_("Nothing to roll back."),
        verify=_("No repeat for a day."),
        quiet_s=DAY_S,
        scope="node",
    ),
)
"""By the rules of hardware health; the last three are of events alone."""

SWITCH_FATAL: Final = _(
    "An NVSwitch of this node reported a fatal error (SXid {code}), {total} time(s): GPUs cannot reach each other through it."
)
SWITCH_CHANGE: Final = (
    Change("command", "systemctl status nvidia-fabricmanager"),
    Change("command", 'scontrol update nodename={node} state=drain reason="NVSwitch fault"'),
    Change("command", "scontrol reboot ASAP {node}  # a fatal error of a switch stays until every GPU of the baseboard is reset"),
)
FAULT_OF_CODE: Final = _(
    "A process made the GPU fault (XID {code}: {meaning}). The same program did so on {gpus} GPUs within thirty days: that points at its code."
)
FAULT_OF_CARD: Final = _(
    "A process made the GPU fault (XID {code}: {meaning}). {programs} programs did so on this GPU within thirty days: that points at the hardware."
)
LOST: Final = _("The driver lost the GPU. Its jobs are dead and new ones will fail until the node is power-cycled.")
UNCORRECTED: Final = _("The driver reported a memory error of this GPU that could not be corrected, {total} time(s).")
