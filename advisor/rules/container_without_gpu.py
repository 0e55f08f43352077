"""A GPU that was given to a container or job, and that no process of it ever opened.

Where the scheduler says to whom a GPU is given (an allocation, or dcgm-exporter's labels) and for the whole window no process holds a context
on it, its program most likely runs on the processor. One that was given it minutes ago may still copy its data. CUDA_VISIBLE_DEVICES that is empty says the same of a process.
"""

import polars as pl

from advisor.planned import names_of
from advisor.planners.cards import CARDS
from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_FP32 = {name: card.dense_flop_per_s["fp32"] for card in CARDS if "fp32" in card.dense_flop_per_s for name in names_of(card)}
_CORE_FLOP_PER_S = 75e9  # of a server's core at 16 FP32 operations a clock and unit, with what programs reach of it
_RATIO = c.name.replace_strict(_FP32, default=20e12, return_dtype=pl.Float64) / (_CORE_FLOP_PER_S * c.other_cores.clip(2))

RULE = Rule(
    id="container-without-gpu",
    scope="gpu",
    severity="critical",
    bottleneck="idle",
    group="capacity",
    needs=(Need(("allocated_to", "processes"), "medium"),),
    thresholds=(
        Threshold("window_opens_s", 240.0, "seconds", 30.0, 86_400.0),
        Threshold("allocated_opens_s", 600.0, "seconds", 30.0, 86_400.0),
    ),
    opens=(c.processes == 0)
    & (c.mem_used_max_bytes < 1 << 30)
    & (c.gpu_util_pct < 1)
    & (c.window_s >= param("window_opens_s"))
    & (c.allocated_s.is_null() | (c.allocated_s >= param("allocated_opens_s")))
    & (c.other_cores >= 2),
    clears=(c.processes >= 1) | (c.other_cores < 1),
    unless=c.note_maintenance.fill_null(False) | c.note_declared_idle.fill_null(False),
    stops_work=True,
    title=_("A job that was given this GPU runs on the processor"),
    summary=_(
        "The GPU is given to {allocated_to}, and no process has opened it in {window_s:.0f} s while {other_cores:.1f} cores of the node are busy with programs without a GPU."
    ),
    evidence=(
        Show("processes", "processes"),
        Show("gpu_util_pct", "percent"),
        Show("other_cores", "cores", ">=", 2.0),
        Show("window_s", "seconds"),
        Show("allocated_s", "seconds", ">=", "allocated_opens_s"),
    ),
    change=(
        Step(
            "command",
            'python -c "import torch; print(torch.__version__, torch.cuda.is_available())"  # in the container: False, or +cpu, names the cause',
        ),
        Step("flag", "docker run --gpus all IMAGE  # on the host once: nvidia-ctk runtime configure --runtime=docker"),
        Step("config", "resources: {{limits: {{nvidia.com/gpu: 1}}}}\nruntimeClassName: nvidia"),
        Step("config", "#SBATCH --gres=gpu:1"),
    ),
    gain=Expect(
        (0.1 * _RATIO).clip(2.0, 20.0),
        (0.5 * _RATIO).clip(5.0, 100.0),
        _(
            "A tenth to a half of the card's FP32 peak over what the {other_cores:.0f} busy cores reach at 75 GFLOP/s each: an estimate. For"
            " comparison, deep learning on a GPU was seen 5 to 50 times as fast as on the processors beside it."
        ),
    ),
    risk=_("None."),
    rollback=_("Nothing to roll back."),
    verify=_("A process holds the GPU within two minutes of the start, and its SMs are active 5 % of the time and more."),
    sources=("https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/",),
)
