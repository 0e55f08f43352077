"""A process holds GPU memory and computes nothing.

Engine time of an idle context is 0.0001, of the thinnest workload recorded 0.057: the threshold 0.005 lies between. A
process whose host side works (compiling, importing, downloading) is starting up or waiting, not forgotten.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="gpu-memory-held-idle",
    scope="gpu",
    severity="warn",
    bottleneck="idle",
    needs=(Need(("busy", "held_bytes", "main_cores")), Need(("busy", "mem_used_bytes"), "low")),
    thresholds=(
        Threshold("busy_opens", 0.005, "ratio", 0.0, 1.0),
        Threshold("busy_clears", 0.02, "ratio", 0.0, 1.0),
        Threshold("held_opens_bytes", float(1 << 30), "bytes", float(1 << 20), float(1 << 40)),
        Threshold("held_clears_bytes", float(1 << 29), "bytes", float(1 << 20), float(1 << 40)),
        Threshold("main_cores_opens", 0.3, "cores", 0.0, 64.0),
        Threshold("share_idle_opens", 0.9, "ratio", 0.0, 1.0),
    ),
    opens=(c.busy < param("busy_opens"))
    & (pl.coalesce("held_bytes", "mem_used_bytes") >= param("held_opens_bytes"))
    & (c.main_cores.fill_null(0) < param("main_cores_opens"))
    & (c.share_idle >= param("share_idle_opens")),
    clears=(c.busy >= param("busy_clears")) | (pl.coalesce("held_bytes", "mem_used_bytes") < param("held_clears_bytes")),
    unless=c.free,
    title=_("GPU memory is held by a process that does nothing"),
    summary=_(
        "Process {pid} holds {held_gib:.1f} GiB of this GPU's memory; the compute engine was active {busy:.1%} of the time and"
        " the process used {main_cores:.2f} cores. Nobody else can use that memory."
    ),
    cases=(
        Says(
            (c.foreign_processes >= 1).fill_null(False),
            _(
                "{held_gib:.1f} GiB of this GPU's memory are held and nothing computes. The scheduler gave the GPU to {allocated_to}, and of the"
                " processes on it {foreign_processes:.0f} belong to somebody else."
            ),
        ),
    ),
    evidence=(
        Show("busy", "ratio", "<", "busy_opens"),
        Show("held_bytes", "bytes", ">=", "held_opens_bytes"),
        Show("main_cores", "cores", "<", "main_cores_opens"),
        Show("gpu_util_pct", "percent"),
        Show("share_idle", "ratio", ">=", "share_idle_opens"),
        Show("foreign_processes", "processes"),
        Show("power_p50_w", "watts"),
        Show("usual_idle_power_w", "watts"),
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
    verify=_(
        "The GPU's memory in use falls below {held_clears_gib:.1f} GiB within a minute and no job on it runs out of memory for a week."
    ),
    sources=("NVIDIA NVML: nvmlDeviceGetComputeRunningProcesses", "recording idle_context"),
)
