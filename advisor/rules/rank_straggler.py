"""One rank keeps the others of its job waiting.

Ranks that exchange data each step do the same work; one that is idle more than its peers holds them up from outside the GPU
(they spin in the collective meanwhile), one whose SMs work more than its peers' has more work or slower clocks. Healthy pairs
differ by 8 % at most, in either sense.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="rank-straggler",
    scope="job",
    severity="warn",
    bottleneck="communication",
    needs=(
        Need(("busy", "talks", "least_busy_ratio", "most_sm_ratio"), "medium"),
        Need(("busy", "talks", "least_busy_ratio"), "low"),
    ),
    thresholds=(
        Threshold("least_busy_ratio_opens", 0.78, "ratio", 0.0, 1.0),
        Threshold("least_busy_ratio_clears", 0.88, "ratio", 0.0, 1.0),
        Threshold("most_sm_ratio_opens", 1.28, "ratio", 1.0, 10.0),
        Threshold("most_sm_ratio_clears", 1.15, "ratio", 1.0, 10.0),
    ),
    opens=(c.working_gpus >= 2)
    & c.talks
    & ((c.least_busy_ratio <= param("least_busy_ratio_opens")) | (c.most_sm_ratio >= param("most_sm_ratio_opens"))),
    clears=(c.least_busy_ratio >= param("least_busy_ratio_clears"))
    & (c.most_sm_ratio.fill_null(1) <= param("most_sm_ratio_clears")),
    yields_to=("hw-slowdown-active", "power-cap-limited", "clocks-locked-low", "pcie-link-degraded", "gpu-co-tenant-contention"),
    title=_("One rank delays every step"),
    summary=_(
        "The least busy of {working_gpus:.0f} GPUs (index {least_busy_index}) is busy {least_busy_ratio:.2f} times as much as the"
        " busiest; SM activity differs by a factor of {most_sm_ratio:.2f} (most on index {most_sm_index}). The others wait in"
        " collectives."
    ),
    evidence=(
        Show("least_busy_ratio", "ratio", "<=", "least_busy_ratio_opens"),
        Show("most_sm_ratio", "ratio", ">=", "most_sm_ratio_opens"),
        Show("least_busy_index", "index"),
        Show("most_sm_index", "index"),
        Show("working_gpus", "gpus", ">=", 2.0),
        Show("nvlink_bytes_per_s", "bytes_per_second"),
    ),
    change=(
        Step("diff", "+ sampler = DistributedSampler(ds, drop_last=True)  # equal work for every rank; bucket by length"),
        Step("diff", "- if rank == 0: evaluate(); log()  # each step\n+ if rank == 0 and step % N == 0: evaluate(); log()"),
        Step("command", "nvidia-smi -i {least_busy_index} -q -d CLOCK,PERFORMANCE,TEMPERATURE  # compare with a peer"),
    ),
    gain=Expect(
        1.05,
        pl.max_horizontal(1 / c.least_busy_ratio.clip(0.3), c.most_sm_ratio.clip(1, 3)),
        _("Arithmetic from the measured ratio: step time falls by what the slowest rank takes longer."),
    ),
    risk=_("Moving a job off a node costs a restart."),
    rollback=_("Return the node when its diagnosis passes: dcgmi diag -r 3."),
    verify=_("Engine time of the slowest and the median rank differ by less than 3 % over an hour."),
    sources=("arxiv.org/abs/2402.15627 (MegaScale)",),
)
