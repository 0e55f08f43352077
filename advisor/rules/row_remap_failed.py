"""A row of GPU memory could not be remapped: the spares are gone and the card should be replaced."""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step
from advisor.started import drain
from advisor.text import _

c = pl.col

_SPENT = (c.remap_banks_none >= 1).fill_null(False)

RULE = Rule(
    id="row-remap-failed",
    scope="gpu",
    severity="critical",
    bottleneck=None,
    group="health",
    needs=(
        Need(("remap_failed",)),
        Need(("remap_banks_none",), "medium", opens=_SPENT, clears=c.remap_banks_none == 0),
    ),
    opens=(c.remap_failed >= 1) | _SPENT,
    clears=(c.remap_failed == 0) & (c.remap_banks_none.fill_null(0) == 0),
    title=_("Row remapping failed"),
    summary=_("The GPU has no spare rows left for a faulty one: errors will come back."),
    cases=(
        Says(
            (c.remap_failed.fill_null(0) == 0) & _SPENT,
            _(
                "{remap_banks_none:.0f} memory bank(s) of the GPU have no spare row left: the next faulty row there cannot be replaced."
            ),
        ),
    ),
    evidence=(
        Show("remap_failed", "flag", ">=", 1.0),
        Show("remap_banks_none", "banks", ">=", 1.0),
        Show("remap_pending", "flag"),
    ),
    change=(
        *drain("row remap failed"),
        Step("command", "nvidia-smi -i {index} -r  # once, then look again"),
        Step("command", "nvidia-bug-report.sh && dcgmi diag -r 3  # and open an RMA when the flag stays"),
    ),
    recovers=1.0,
    risk=_("The node's capacity until the card is replaced."),
    rollback=_("None: keep the node drained."),
    verify=_("The replaced GPU passes a level 3 diagnosis and a day of load."),
    sources=("docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt",),
)
