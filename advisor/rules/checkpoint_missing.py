"""A long training without a checkpoint that could be gone on from.

Known where the script reports its checkpoints. One that is much smaller than the one before was cut off.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.started import ACCELERATE, DEEPSPEED, MEGATRON, OWN_LOOP, SLURM
from advisor.text import _

c = pl.col

_NONE = (c.checkpoints_total.fill_null(0) == 0) & (c.steps_total >= 1)
_OLD = (c.since_checkpoint_s > 3 * c.checkpoint_optimum_s) & (c.since_checkpoint_s > 3600)
_LONG = (c.run_s >= param("run_opens_s")) | (c.run_gpu_hours >= param("gpu_hours_opens"))

RULE = Rule(
    id="checkpoint-missing",
    scope="job",
    severity="critical",
    bottleneck=None,
    group="capacity",
    needs=(Need(("run_s", "steps_total", "checkpoints_total")),),
    thresholds=(
        Threshold("run_opens_s", 14_400.0, "seconds", 600.0, 1e7),
        Threshold("gpu_hours_opens", 32.0, "gpu_hours", 1.0, 1e6),
    ),
    opens=_LONG & (_NONE | _OLD.fill_null(False) | c.checkpoint_shrunk.fill_null(False) | c.resumed_at_zero.fill_null(False)),
    clears=(c.checkpoints_total >= 1)
    & ~_OLD.fill_null(False)
    & ~c.checkpoint_shrunk.fill_null(False)
    & ~c.resumed_at_zero.fill_null(False),
    unless=c.told_kind.is_in(["eval", "serve", "interactive"]) | c.serves,
    title=_("A long training has no checkpoint to go on from"),
    summary=_("The training has run for {run_gpu_hours:.0f} GPU-hours and reports no checkpoint: a failure loses all of it."),
    cases=(
        Says(
            c.resumed_at_zero.fill_null(False),
            _("The training was started again and began at step 0: its checkpoints are not loaded."),
        ),
        Says(
            c.checkpoint_shrunk.fill_null(False),
            _("The last checkpoint is {checkpoint_gib:.1f} GiB, less than four fifths of the one before: it may be cut off."),
        ),
        Says(
            _OLD.fill_null(False),
            _("The last checkpoint is {since_checkpoint_s:.0f} s old; a failure now loses that time on {gpus} GPUs."),
        ),
    ),
    evidence=(
        Show("run_s", "seconds", ">=", "run_opens_s"),
        Show("run_gpu_hours", "hours", ">=", "gpu_hours_opens"),
        Show("checkpoints_total", "checkpoints"),
        Show("since_checkpoint_s", "seconds"),
        Show("checkpoint_bytes", "bytes"),
    ),
    change=(
        Step(
            "diff",
            '+ state = {{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),\n+          "rng": torch.get_rng_state(), "epoch": epoch, "step": step}}\n+ torch.save(state, path + ".part"); os.replace(path + ".part", path)',
            when=OWN_LOOP & ~ACCELERATE,
        ),
        Step(
            "diff",
            '+ state = torch.load(newest(path), weights_only=True, map_location="cpu")  # at the start, where there is one',
            when=OWN_LOOP & ~ACCELERATE,
        ),
        Step(
            "flag",
            "--save_strategy steps --save_steps 500 --resume_from_checkpoint True  # Hugging Face Trainer",
            when=ACCELERATE,
        ),
        Step("flag", "--save CHECKPOINTS --load CHECKPOINTS --save-interval 500  # Megatron-LM", when=MEGATRON),
        Step(
            "diff",
            "+ engine.load_checkpoint(folder)  # at the start, where there is one\n+ engine.save_checkpoint(folder, tag=step)  # DeepSpeed: by every rank",
            when=DEEPSPEED,
        ),
        Step("config", "#SBATCH --requeue --signal=B:USR1@300  # and save on that signal", when=SLURM),
        Step("command", "torchrun --max-restarts=3 --nproc-per-node={ranks_on_node} train.py", when=c.launcher == "torchrun"),
    ),
    recovers=0.0,
    risk=_("Saving takes time and traffic."),
    rollback=_("Nothing to roll back."),
    verify=_(
        "The newest valid checkpoint is younger than one and a half optimal intervals for 24 hours, and a restart goes on at a step above 0."
    ),
    sources=(
        "https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html",
        "planner checkpoint-interval",
    ),
)
