"""Fewer GPUs are listed than the node should have.

A GPU that goes while the agent runs is an event (the kernel's XID 79, the driver's list), and opens this rule's finding on that GPU within a
second. One that was never there since the boot makes no event: only the inventory shows it, the number that the site expects, or a
scheduler that gives a job a GPU that its node no longer lists.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step
from advisor.started import drain
from advisor.text import _

c = pl.col

_EXPECTED = pl.max_horizontal(c.note_expected_gpus, c.node_gpus)

RULE = Rule(
    id="xid-fallen-off-bus",
    scope="node",
    severity="critical",
    bottleneck=None,
    group="health",
    needs=(Need(("node_gpus", "node_gpus_present")),),
    opens=(c.node_gpus_present < _EXPECTED) | (c.allocated_gpus_missing >= 1).fill_null(False),
    clears=(c.node_gpus_present >= _EXPECTED) & (c.allocated_gpus_missing.fill_null(0) == 0),
    unless=c.note_maintenance.fill_null(False),
    title=_("The node has fewer GPUs than it should"),
    summary=_("The driver lists {node_gpus_present:.0f} GPU(s); {node_gpus:.0f} have been seen on this node."),
    cases=(
        Says(
            (c.allocated_gpus_missing >= 1).fill_null(False),
            _(
                "The driver lists {node_gpus_present:.0f} GPU(s), and {allocated_gpus_missing:.0f} that jobs were given are not among them: {jobs_on_missing}."
            ),
        ),
        Says(
            c.note_expected_gpus > c.node_gpus,
            _("The driver lists {node_gpus_present:.0f} GPU(s), and the site says that this node has {note_expected_gpus:.0f}."),
        ),
    ),
    evidence=(
        Show("node_gpus_present", "gpus"),
        Show("node_gpus", "gpus"),
        Show("allocated_gpus_missing", "gpus"),
        Show("xids_7d", "events"),
    ),
    change=(
        *drain("GPU missing"),
        Step("command", "nvidia-bug-report.sh && lspci -d 10de: && dmesg | grep -i -e xid -e nvrm"),
        Step("command", "fettle agent doctor  # after a power cycle: are all of them back?"),
    ),
    recovers=0.0,
    risk=_("The node's capacity is lost while it is drained."),
    rollback=_(
        "Put the node back into service; a card that was taken out for good: tell the site's number anew (expected_gpus)."
    ),
    verify=_("The driver lists all of them for seven days and 100 GPU-hours of load, and a level 3 diagnosis passes."),
    sources=("https://docs.nvidia.com/deploy/xid-errors/",),
)
