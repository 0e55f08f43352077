"""A GPU that was given to a container or job, and that no process of it ever opened.

Where the device plugin or the scheduler says to whom a GPU is given (through dcgm-exporter's labels) and for the whole window no process
holds a context on it, its program most likely runs on the processor. CUDA_VISIBLE_DEVICES that is empty says the same of a process.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="container-without-gpu",
    scope="gpu",
    severity="critical",
    bottleneck="idle",
    group="capacity",
    needs=(Need(("allocated_to", "processes"), "medium"),),
    thresholds=(Threshold("window_opens_s", 240.0, "seconds", 30.0, 86_400.0),),
    opens=(c.processes == 0)
    & (c.mem_used_max_bytes < 1 << 30)
    & (c.gpu_util_pct < 1)
    & (c.window_s >= param("window_opens_s"))
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
    gain=Expect(5.0, 50.0, _("Deep learning on a GPU is 5 to 50 times as fast as on the processors beside it.")),
    recovers=1.0,
    risk=_("None."),
    rollback=_("Nothing to roll back."),
    verify=_("A process holds the GPU within two minutes of the start, and its SMs are active 5 % of the time and more."),
    sources=("https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/",),
)
