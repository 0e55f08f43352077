"""The whole job would fit a slice of this GPU.

Below a quarter of SMs, memory traffic and memory at once, by the work itself. Jobs that wait for something look the same: their
trouble is the wait; services between requests do too, by design.
"""

import polars as pl

from advisor.rule import Need, Rule, Show, Step, Threshold, param
from advisor.started import KUBERNETES, SLURM
from advisor.text import _

c = pl.col

RULE = Rule(
    id="gpu-oversized-for-job",
    scope="job",
    severity="info",
    bottleneck="underfilled",
    group="capacity",
    needs=(Need(("busy", "sm_active", "dram_active", "mem_used_share_max")),),
    thresholds=(
        Threshold("sm_active_opens", 0.25, "ratio", 0.0, 1.0),
        Threshold("sm_active_clears", 0.35, "ratio", 0.0, 1.0),
        Threshold("dram_active_opens", 0.25, "ratio", 0.0, 1.0),
        Threshold("dram_active_clears", 0.35, "ratio", 0.0, 1.0),
        Threshold("mem_used_share_max_opens", 0.25, "ratio", 0.0, 1.0),
        Threshold("mem_used_share_max_clears", 0.35, "ratio", 0.0, 1.0),
    ),
    opens=(c.gpus == 1)
    & (c.busy >= 0.02)
    & (c.sm_active < param("sm_active_opens"))
    & (c.dram_active < param("dram_active_opens"))
    & (c.mem_used_share_max < param("mem_used_share_max_opens"))
    & (c.bottleneck == "underfilled"),
    clears=(c.sm_active >= param("sm_active_clears"))
    | (c.dram_active >= param("dram_active_clears"))
    | (c.mem_used_share_max >= param("mem_used_share_max_clears")),
    yields_to=("gpu-memory-leak", "launch-bound-small-kernels", "gpu-co-tenant-contention", "gpu-memory-held-idle"),
    title=_("The job would fit a smaller GPU or a slice of this one"),
    summary=_(
        "{sm_active:.0%} of the SMs, {dram_active:.0%} of the memory bandwidth and {mem_used_share_max:.0%} of the memory are in use."
    ),
    evidence=(
        Show("sm_active", "ratio", "<", "sm_active_opens"),
        Show("dram_active", "ratio", "<", "dram_active_opens"),
        Show("mem_used_share_max", "ratio", "<", "mem_used_share_max_opens"),
    ),
    change=(
        Step(
            "command",
            "nvidia-smi -i {index} -mig 1 && nvidia-smi mig -i {index} -cgi 19 -C  # 19: the smallest slice of A100 to B200 (nvidia-smi mig -lgip); the GPU must be idle",
            when=~KUBERNETES,
        ),
        Step(
            "config",
            "resources:\n  limits:\n    nvidia.com/mig-1g.18gb: 1  # of an H200; the profile's name depends on the card",
            when=KUBERNETES,
        ),
        Step("config", "#SBATCH --gres=gpu:1g.18gb:1  # of an H200; the profile's name depends on the card", when=SLURM),
    ),
    recovers=0.0,
    risk=_("Switching MIG needs the GPU idle; slices have no NVLink and fewer counters."),
    rollback=_("Destroy the instances and switch MIG off: nvidia-smi -mig 0."),
    verify=_("The job is as fast on the slice, whose SM activity lies between 0.3 and 0.8 for a day."),
    sources=("docs.nvidia.com/datacenter/tesla/mig-user-guide", "recording launch_graphed"),
)
