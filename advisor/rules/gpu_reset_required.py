"""The driver itself asks for a reset, a drain or a reboot (NVML field 230, recovery action): that action and no other is advised.

On a node in maintenance nothing is said: the action is under way.
"""

import polars as pl

from advisor.rule import Need, Rule, Show, Step
from advisor.started import drain
from advisor.text import _

c = pl.col

RULE = Rule(
    id="gpu-reset-required",
    scope="gpu",
    severity="critical",
    bottleneck=None,
    group="health",
    needs=(Need(("recovery_action",)),),
    opens=c.recovery_action >= 1,
    clears=c.recovery_action == 0,
    unless=c.note_maintenance.fill_null(False),
    title=_("The driver asks for a recovery action"),
    summary=_(
        "Recovery action {recovery_action:.0f} (1 GPU reset, 2 node reboot, 3 drain peer-to-peer, 4 drain and reset, 5 recover IMEX,"
        " 6 bus reset, 7 system reboot)."
    ),
    evidence=(Show("recovery_action", "code", ">=", 1.0),),
    change=(
        *drain("gpu recovery action {recovery_action}"),
        Step("command", "nvidia-smi -i {index} -r", when=c.recovery_action.is_in([1.0, 4.0, 6.0])),
        Step("command", "systemctl reboot  # once its jobs have ended", when=c.recovery_action.is_in([2.0, 7.0])),
        Step(
            "command",
            "nvidia-smi -q | grep -A 2 'GPU Recovery Action'  # until its peers are drained",
            when=c.recovery_action == 3,
        ),
        Step("command", "systemctl restart nvidia-imex  # on every node of the IMEX domain", when=c.recovery_action == 5),
    ),
    recovers=1.0,
    risk=_("Other jobs on the node end too: drain first."),
    rollback=_("Resume the node."),
    verify=_("The action is 0 and does not come back for a week; a second time is a case for the vendor."),
    sources=("NVIDIA NVML: NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",),
)
