"""Some of a job's GPUs work and others never do.

A GPU works from 0.005 engine time on (idle context 0.0001, thinnest workload 0.057). Where the idle ones are not even held
by a process, the allocation is all that is known of them: advice, not a warning.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step
from advisor.started import ACCELERATE, DEEPSPEED, DOCKER, KUBERNETES, SLURM
from advisor.text import _

c = pl.col

RULE = Rule(
    id="job-partial-gpu-use",
    scope="job",
    severity=pl.when(c.held_gpus > c.working_gpus).then(pl.lit("warn")).otherwise(pl.lit("advice")),
    bottleneck="idle",
    needs=(Need(("busy", "gpus", "working_gpus")),),
    opens=(c.working_gpus >= 1) & (c.working_gpus < c.gpus),
    clears=c.working_gpus >= c.gpus,
    title=_("The job uses fewer GPUs than it has"),
    summary=_("{working_gpus:.0f} of {gpus:.0f} GPUs worked in {window_s:.0f} s; idle: {idle_indices}."),
    evidence=(
        Show("working_gpus", "gpus", "<", None),
        Show("gpus", "gpus"),
        Show("held_gpus", "gpus"),
        Show("busy", "ratio"),
    ),
    change=(
        Step(
            "command",
            "torchrun --nproc-per-node={gpus_on_node} train.py  # start a rank on each GPU",
            when=~ACCELERATE & ~DEEPSPEED,
        ),
        Step("command", "accelerate launch --num_processes {gpus} train.py  # start a rank on each GPU", when=ACCELERATE),
        Step("command", "deepspeed --num_gpus {gpus_on_node} train.py  # start a rank on each GPU", when=DEEPSPEED),
        Step("config", "#SBATCH --gpus={working_gpus}  # or ask for fewer", when=SLURM),
        Step("config", "resources: {{limits: {{nvidia.com/gpu: {working_gpus}}}}}  # or ask for fewer", when=KUBERNETES),
        Step("command", "docker run --gpus {working_gpus} IMAGE  # or take fewer", when=DOCKER),
        Step("command", 'echo "$CUDA_VISIBLE_DEVICES"  # in the job: it must name the GPUs that the job got'),
    ),
    gain=Expect(
        (0.4 * c.gpus / c.working_gpus).clip(1.0, None),
        c.gpus / c.working_gpus,
        _(
            "The upper value is GPUs held over GPUs that work: the speed if the missing ranks are started. The lower one is two fifths of it: ranks"
            " wait for each other."
        ),
    ),
    risk=_("More ranks raise the global batch: lower accumulation or rescale the learning rate."),
    rollback=_("Start as before."),
    verify=_("Every allocated GPU is active, or the allocation is smaller, over 30 minutes."),
    sources=("docs.pytorch.org/docs/stable/elastic/run.html",),
)
