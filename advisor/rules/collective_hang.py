"""Ranks stuck in a collective: the GPU is busy to the full, draws little power and computes nothing, and no step ends.

A spinning NCCL kernel occupies a few SMs: utilisation 100 %, tensor cores 0, half the power and less. Without reports of steps it is told
from that alone, at lower confidence: ranks that waited for one another showed SM activity below 0.3 and every pipe below 0.004.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_SPINS = (
    (c.busy >= param("busy_opens"))
    & (c.power_share <= param("power_share_opens"))
    & (c.tensor_active < param("tensor_active_opens"))
)

RULE = Rule(
    id="collective-hang",
    scope="job",
    severity="critical",
    bottleneck="communication",
    needs=(
        Need(
            ("busy", "power_share", "tensor_active", "since_step_s", "step_time_s"),
            opens=_SPINS & (c.since_step_s >= pl.max_horizontal(10 * c.step_time_s, param("silence_s"))),
        ),
        Need(
            ("busy", "power_share", "tensor_active", "sm_active", "dram_active"),
            "low",
            opens=_SPINS & (c.sm_active < 0.3) & (c.dram_active < 0.004) & (c.window_s >= 240),
        ),
    ),
    thresholds=(
        Threshold("busy_opens", 0.95, "ratio", 0.5, 1.0),
        Threshold("power_share_opens", 0.45, "ratio", 0.05, 1.0),
        Threshold("tensor_active_opens", 0.01, "ratio", 0.0, 0.5),
        Threshold("silence_s", 600.0, "seconds", 30.0, 86_400.0),
    ),
    opens=_SPINS,
    clears=(c.busy < 0.9) | (c.tensor_active >= 0.02) | (c.power_share >= 0.55),
    unless=(c.working_gpus < 2) | c.told_phase.is_in(["checkpoint", "eval", "init"]) | c.serves,
    stops_work=True,
    title=_("Ranks are stuck in a collective"),
    summary=_(
        "No step has ended for {since_step_s:.0f} s while {working_gpus} GPUs are busy {busy:.0%} of the time at {power_share:.0%} of their"
        " power with idle tensor cores: they spin in a collective that somebody does not join."
    ),
    cases=(
        Says(
            c.since_step_s.is_null(),
            _(
                "{working_gpus} GPUs have been busy {busy:.0%} of the time at {power_share:.0%} of their power with idle tensor cores and"
                " memory: they spin in a collective that somebody does not join. Whether steps end, the script does not report."
            ),
        ),
    ),
    evidence=(
        Show("since_step_s", "seconds", ">=", "silence_s"),
        Show("busy", "ratio", ">=", "busy_opens"),
        Show("power_share", "ratio", "<=", "power_share_opens"),
        Show("tensor_active", "ratio", "<", "tensor_active_opens"),
        Show("working_gpus", "gpus", ">=", 2.0),
        Show("step_time_s", "seconds"),
    ),
    change=(
        Step("command", "py-spy dump --pid {pid}  # on every rank: the one that is elsewhere is missing from the collective"),
        Step(
            "command",
            "scancel --signal=TERM {slurm_job}  # then start again from the last checkpoint",
            when=c.scheduler == "slurm",
        ),
        Step("command", "kill -TERM {pid}  # then start again from the last checkpoint", when=c.scheduler.ne_missing("slurm")),
        Step("env", "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"),
        Step("diff", '- dist.init_process_group("nccl")\n+ dist.init_process_group("nccl", timeout=timedelta(minutes=10))'),
    ),
    recovers=1.0,
    risk=_("A phase that is slow by nature may look so: look at the stacks before ending it."),
    rollback=_("Raise the timeout again."),
    verify=_("Steps end again within 15 minutes, and at most one hang in the next seven days."),
    sources=("docs.pytorch.org/tutorials/prototype/flight_recorder_tutorial.html",),
)
