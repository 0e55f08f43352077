"""Checkpoints that are saved far more seldom, or far more often, than loses least.

The optimum weighs what a save costs against what a failure loses (PL-5, Daly): it lies flat, so only twice it or less than four tenths count.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_RATIO = c.checkpoint_interval_s / c.checkpoint_optimum_s
_SAVED = (
    c.checkpoint_save_s / c.checkpoint_interval_s
    + c.checkpoint_interval_s * c.gpus / (7200 * c.mtbf_gpu_hours)
    - c.checkpoint_save_s / c.checkpoint_optimum_s
    - c.checkpoint_optimum_s * c.gpus / (7200 * c.mtbf_gpu_hours)
)

RULE = Rule(
    id="checkpoint-interval-off-optimum",
    scope="job",
    severity="advice",
    bottleneck=None,
    group="performance",
    needs=(Need(("checkpoint_interval_s", "checkpoint_optimum_s", "checkpoint_save_s")),),
    thresholds=(
        Threshold("too_seldom_ratio_opens", 2.0, "ratio", 1.1, 20.0),
        Threshold("too_seldom_ratio_clears", 1.5, "ratio", 1.0, 20.0),
        Threshold("too_often_ratio_opens", 0.4, "ratio", 0.01, 0.9),
        Threshold("too_often_ratio_clears", 0.6, "ratio", 0.02, 1.0),
    ),
    opens=(param("too_seldom_ratio_opens") < _RATIO) | (param("too_often_ratio_opens") > _RATIO),
    clears=_RATIO.is_between(param("too_often_ratio_clears"), param("too_seldom_ratio_clears")),
    unless=((c.checkpoint_save_s < 0.01 * c.checkpoint_interval_s) & (c.run_s < 14_400))
    | ((c.checkpoint_save_s < 5) & (_RATIO < 1)),
    title=_("Checkpoints are far from the interval that loses least"),
    summary=_(
        "The job saves every {checkpoint_interval_s:.0f} s and a save takes {checkpoint_save_s:.0f} s of its time; on {gpus} GPUs the least is lost with one every {checkpoint_optimum_s:.0f} s."
    ),
    evidence=(
        Show("checkpoint_interval_s", "seconds"),
        Show("checkpoint_optimum_s", "seconds"),
        Show("checkpoint_save_s", "seconds"),
        Show("mtbf_gpu_hours", "hours"),
        Show("gpus", "gpus"),
    ),
    change=(
        Step(
            "diff",
            "- if step % N == 0: save()\n+ if time.time() - last_save >= {checkpoint_optimum_s:.0f}: save(); last_save = time.time()",
            when=c.launcher.is_null() | c.launcher.is_in(["torchrun", "deepspeed"]),
        ),
        # where the length of a step is not known either way is said by time
        Step(
            "config",
            "# a save every {checkpoint_optimum_s:.0f} s: that many steps of the framework's save interval",
            when=c.launcher.is_in(["megatron", "accelerate"]) & c.checkpoint_steps.is_null(),
        ),
        Step("flag", "--save-interval {checkpoint_steps:.0f}", when=c.launcher == "megatron"),
        Step("flag", "--save_strategy steps --save_steps {checkpoint_steps:.0f}", when=c.launcher == "accelerate"),
        Step("config", "#SBATCH --signal=B:USR1@300  # and save on that signal", when=c.scheduler == "slurm"),
    ),
    gain=Expect(
        1.0,
        1 / (1 - _SAVED.clip(0, 0.9)),
        _(
            "Planner checkpoint-interval (Daly): the time of saves and of work done again, now and at the optimum; it is won over many failures."
        ),
    ),
    risk=_("More saves, more traffic to storage."),
    rollback=_("Set the interval back."),
    verify=_("The next five intervals are within a quarter of the optimum, and a failure loses one interval at most."),
    sources=(
        "doi.org/10.1016/j.future.2004.11.016 (Daly)",
        _("arxiv.org/abs/2407.21783 (419 interruptions in 54 days on 16,384 GPUs)"),
        "planner checkpoint-interval",
    ),
)
