"""Memory errors that could not be corrected since the driver was loaded. The count is volatile: a reset clears it.

On a node in maintenance nothing is said: who validates a card injects errors.
"""

import polars as pl

from advisor.rule import Need, Rule, Show, Step
from advisor.started import drain
from advisor.text import _

c = pl.col

RULE = Rule(
    id="uncorrectable-ecc",
    scope="gpu",
    severity="critical",
    bottleneck=None,
    group="health",
    needs=(Need(("ecc_uncorrected_volatile",)),),
    opens=c.ecc_uncorrected_volatile >= 1,
    clears=c.ecc_uncorrected_volatile == 0,
    unless=c.note_maintenance.fill_null(False),
    title=_("Uncorrectable memory error"),
    summary=_(
        "{ecc_uncorrected_volatile:.0f} uncorrectable errors since the driver was loaded: results may be wrong and processes killed."
    ),
    evidence=(
        Show("ecc_uncorrected_volatile", "errors", ">=", 1.0),
        Show("ecc_uncorrected_new", "errors"),
        Show("remap_pending", "flag"),
        Show("remap_failed", "flag"),
    ),
    change=(
        *drain("uncorrectable ECC"),
        Step("command", "nvidia-smi -i {index} -r"),
        Step("command", "dcgmi diag -r 3"),
    ),
    recovers=1.0,
    risk=_("A reset ends every process on the GPU and may need its NVLink peers idle."),
    rollback=_("Resume the node."),
    verify=_(
        "The count is 0 after the reset and stays there for 72 hours of load; a second event within 30 days calls for an RMA."
    ),
    sources=("docs.nvidia.com/deploy/xid-errors", "docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt"),
)
