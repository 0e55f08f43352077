"""Several unrelated processes compute on one GPU and it has no time left.

Both must use the CPU (a process that only holds memory uses 0.02 cores, one that computes 0.15 and more) and the engine must be
short: two launch-bound processes side by side fill 0.46 of it and hardly hurt each other, two trainings 1.0.

Gain: docs/lab.md (2.14) and recording noisy_neighbour (2.2): more than the two tenants' shares, for a switch costs time too.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="gpu-co-tenant-contention",
    scope="gpu",
    severity="warn",
    bottleneck="contention",
    needs=(Need(("busy", "tenants", "main_cores")), Need(("busy", "tenants"), "low")),
    thresholds=(
        Threshold("busy_opens", 0.68, "ratio", 0.0, 1.0),
        Threshold("busy_clears", 0.5, "ratio", 0.0, 1.0),
    ),
    opens=(c.tenants >= 2) & (c.busy >= param("busy_opens")),
    clears=(c.tenants < 2) | (c.busy < param("busy_clears")),
    title=_("Several workloads fight for one GPU"),
    summary=_(
        "{tenants:.0f} processes compute on this GPU, whose engine was busy {busy:.0%} of the time: each waits for the others."
    ),
    cases=(
        Says(
            (c.foreign_processes >= 1).fill_null(False),
            _(
                "{tenants:.0f} processes compute on this GPU, whose engine was busy {busy:.0%} of the time. The scheduler gave it to {allocated_to};"
                " {foreign_processes:.0f} of the processes on it belong to somebody else."
            ),
        ),
    ),
    evidence=(
        Show("tenants", "processes", ">=", 2.0),
        Show("busy", "ratio", ">=", "busy_opens"),
        Show("held_bytes", "bytes"),
        Show("foreign_processes", "processes"),
        Show("sm_active", "ratio"),
        Show("gpu_util_pct", "percent"),
    ),
    change=(
        Step("command", "nvidia-smi --query-compute-apps=pid,used_memory --format=csv -i {index}  # who they are"),
        Step("command", "nvidia-smi -i {index} -c EXCLUSIVE_PROCESS  # where sharing is never wanted"),
        Step(
            "command",
            "nvidia-smi -i {index} -mig 1 && nvidia-smi mig -i {index} -cgi 9,9 -C  # two isolated halves of A100 to B200 (nvidia-smi mig -lgip): each tenant must fit half of the memory; the GPU must be idle",
        ),
        Step("env", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50  # trusted tenants under MPS"),
    ),
    gain=Expect(
        1.2,
        (1.25 * c.tenants.cast(pl.Float64)).clip(1.5, 5.0),
        _(
            "The upper value is the tenants' number, with a quarter for switching between them: they take turns. For comparison, on H200: with"
            " the GPU to itself a training ran 2.14 times as fast as beside one other, another 2.2 times."
        ),
    ),
    risk=_("Repartitioning needs the GPU idle; under MPS one crash takes all clients down."),
    rollback=_("Restore the compute mode: nvidia-smi -c DEFAULT."),
    verify=_("One tenant for each GPU or slice; step time within 5 % of its speed alone for a day."),
    sources=("docs.nvidia.com/deploy/mps", "recording noisy_neighbour"),
)
