"""A faulty row of GPU memory waits for a reset to be remapped; on cards before Ampere, a page to be retired.

A GPU that is cut into MIG instances tells nothing of its rows: there the rule is not evaluated, and never clear.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step
from advisor.started import drain
from advisor.text import _

c = pl.col

RULE = Rule(
    id="row-remap-pending",
    scope="gpu",
    severity="warn",
    bottleneck=None,
    group="health",
    needs=(
        Need(("remap_pending",)),
        Need(("retired_pages_pending",), opens=c.retired_pages_pending >= 1, clears=c.retired_pages_pending == 0),
    ),
    opens=c.remap_pending >= 1,
    clears=c.remap_pending == 0,
    yields_to=("row-remap-failed",),
    title=_("A row remap waits for a GPU reset"),
    summary=_("A row of memory was found faulty and is replaced at the next reset; until then another error may hit it."),
    cases=(
        Says(
            c.remap_pending.is_null(),
            _(
                "A page of memory was found faulty and is retired when the driver is loaded anew; until then another error may hit it."
            ),
        ),
    ),
    evidence=(
        Show("remap_pending", "flag", ">=", 1.0),
        Show("retired_pages_pending", "flag", ">=", 1.0),
        Show("remap_failed", "flag"),
    ),
    change=(
        *drain("remap reset", "at the next idle moment"),
        Step("command", "nvidia-smi -i {index} -r"),
    ),
    recovers=0.0,
    risk=_("On NVSwitch systems the reset may need all GPUs of the node idle."),
    rollback=_("Resume the node."),
    verify=_("The pending flag is 0 after the reset, nothing failed, and no memory XID follows for a week."),
    sources=("docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt",),
)
