"""Too few micro-batches for a pipeline's depth: stages wait for each other at both ends of a step.

The bubble is arithmetic (PL-12): (p-1)/(m+p-1), with v chunks a stage (p-1)/(v m+p-1).
"""

import polars as pl

from advisor.room import GPU_MEMORY
from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_CHUNKS = c.told_vpp.fill_null(1).clip(1, None)

RULE = Rule(
    id="pipeline-bubble-high",
    scope="job",
    severity="advice",
    bottleneck="idle",
    needs=(Need(("pp", "microbatches", "pipeline_bubble")),),
    thresholds=(
        Threshold("bubble_opens", 0.15, "ratio", 0.01, 0.9),
        Threshold("bubble_clears", 0.12, "ratio", 0.01, 0.9),
    ),
    opens=(c.pp >= 2) & (c.pipeline_bubble > param("bubble_opens")),
    clears=(c.pp < 2) | (c.pipeline_bubble <= param("bubble_clears")),
    unless=c.serves | c.serving_engine.is_not_null(),
    title=_("Too few micro-batches for the pipeline's depth"),
    summary=_(
        "With {pp:.0f} stages and {microbatches:.0f} micro-batches a step, stages stand still for {pipeline_bubble:.0%} of it."
    ),
    evidence=(
        Show("pipeline_bubble", "ratio", ">", "bubble_opens"),
        Show("pp", "stages"),
        Show("microbatches", "micro_batches"),
        Show("share_idle", "ratio"),
    ),
    change=(
        Step(
            "diff",
            "- micro_batches = {microbatches:.0f}\n+ micro_batches = {pipeline_microbatches:.0f}  # in a step: smaller ones, at the same global batch",
        ),
        Step(
            "flag",
            "--num-layers-per-virtual-pipeline-stage 2  # two and more chunks a stage",
            when=(c.launcher == "megatron") & (_CHUNKS == 1) & GPU_MEMORY,
        ),
        Step(
            "diff",
            "- Schedule1F1B(stage, n_microbatches)\n+ ScheduleInterleaved1F1B(stages, n_microbatches)",
            when=c.launcher.ne_missing("megatron") & GPU_MEMORY,
        ),
    ),
    gain=Expect(
        ((1 - param("bubble_opens")) / (1 - c.pipeline_bubble)).clip(1.01, None),
        (0.95 / (1 - c.pipeline_bubble)).clip(1.02, None),
        _("Arithmetic of the schedule: 8 stages have 46.7 % of bubble with 8 micro-batches, 17.9 % with 32, 9.9 % with 64."),
    ),
    risk=_("A micro-batch that is too small multiplies less efficiently; chunks keep more activations."),
    rollback=_("Set the number of micro-batches back."),
    verify=_(
        "The idle share of the stages is within five points of the formula's new value, and tokens per second rise with it."
    ),
    sources=(_("arxiv.org/abs/2104.04473 (pipeline schedules)"), "planner batch"),
)
