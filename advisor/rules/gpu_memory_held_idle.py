"""A process holds GPU memory and computes nothing.

Engine time of an idle context is 0.0001, of the thinnest workload recorded 0.057: the threshold 0.005 lies between. A
process whose host side works (compiling, importing, downloading) is starting up or waiting, not forgotten.
"""

import polars as pl

from advisor.rule import Need, Rule, Show, Step
from advisor.text import _

c = pl.col

RULE = Rule(
    id="gpu-memory-held-idle",
    scope="gpu",
    severity="warn",
    bottleneck="idle",
    needs=(Need(("busy", "held_bytes", "main_cores")), Need(("busy", "mem_used_bytes"), "low")),
    opens=(c.busy < 0.005)
    & (pl.coalesce("held_bytes", "mem_used_bytes") >= 1 << 30)
    & (c.main_cores.fill_null(0) < 0.3)
    & (c.share_idle >= 0.9),
    clears=(c.busy >= 0.02) | (pl.coalesce("held_bytes", "mem_used_bytes") < 1 << 29),
    unless=c.free,
    title=_("GPU memory is held by a process that does nothing"),
    summary=_(
        "Process {pid} holds {held_gib:.1f} GiB of this GPU's memory; the compute engine was active {busy:.1%} of the time and"
        " the process used {main_cores:.2f} cores. Nobody else can use that memory."
    ),
    evidence=(
        Show("busy", "ratio", "<", 0.005),
        Show("held_bytes", "bytes", ">=", float(1 << 30)),
        Show("main_cores", "cores", "<", 0.3),
        Show("gpu_util_pct", "percent"),
        Show("share_idle", "ratio", ">=", 0.9),
    ),
    change=(
        Step("command", "nvidia-smi --query-compute-apps=pid,used_memory --format=csv -i {index}"),
        Step("command", "kill -TERM {pid}"),
        Step(
            "diff", "# in a notebook, instead of ending it:\n+ del model\n+ import gc; gc.collect()\n+ torch.cuda.empty_cache()"
        ),
    ),
    recovers=1.0,
    risk=_("Ending the process loses what it holds in memory. Ask its owner first, or give 30 minutes' notice."),
    rollback=_("Start the program again."),
    verify=_("The GPU's memory in use falls below 1 GiB within a minute and no job on it runs out of memory for a week."),
    sources=("NVIDIA NVML: nvmlDeviceGetComputeRunningProcesses", "recording idle_context"),
)
