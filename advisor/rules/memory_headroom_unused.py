"""Two fifths of the card's memory stay free while the job pays for saving memory.

Full recompute costs 20 to 33 % of the time, accumulation over small micro-batches leaves the SMs half empty, offload waits for PCIe. Below
0.6 of the card at the peak there is room to drop one of them; where the script told its model, the planner must agree that the peak then
stays below 0.92. Without the allocator's peak the memory in use bounds it from above.
"""

import polars as pl

from advisor.planners.training_memory import USABLE
from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col


def _fits(planned: pl.Expr) -> pl.Expr:
    """The planner says so, or has nothing to say."""
    return (planned <= USABLE * c.mem_total_bytes).fill_null(True)


_RECOMPUTE = (c.recompute == "full").fill_null(False) & _fits(c.selective_recompute_bytes)
_BATCH = ((c.accumulation >= 4) & (c.micro_batch < 8)).fill_null(False) & _fits(c.double_batch_bytes)
_OFFLOAD = c.offload.fill_null(False) & _fits(c.planned_bytes)
_PAYS = _RECOMPUTE | _BATCH | _OFFLOAD

RULE = Rule(
    id="memory-headroom-unused",
    scope="job",
    severity="advice",
    bottleneck=None,
    needs=(
        *(
            Need(("alloc_peak_share", *told), "medium")
            for told in (("recompute",), ("accumulation", "micro_batch"), ("offload",))
        ),
        *(
            Need(
                ("mem_used_share_max", *told),
                "low",
                opens=(c.mem_used_share_max < param("peak_share_opens")) & _PAYS,
                clears=(c.mem_used_share_max >= param("peak_share_clears")) | ~_PAYS,
            )
            for told in (("recompute",), ("accumulation", "micro_batch"), ("offload",))
        ),
    ),
    thresholds=(
        Threshold("peak_share_opens", 0.6, "ratio", 0.05, 1.0),
        Threshold("peak_share_clears", 0.7, "ratio", 0.05, 1.0),
    ),
    opens=(c.alloc_peak_share < param("peak_share_opens")) & _PAYS,
    clears=(c.alloc_peak_share >= param("peak_share_clears")) | ~_PAYS,
    unless=(c.steps_total < 200)
    | (c.run_s < 600)
    | (c.tenants >= 2)
    | c.serves.fill_null(False)
    | (c.told_kind != "train")
    | (pl.coalesce(c.told_phase, c.note_phase) != "train")
    | (c.ooms_24h >= 1),
    yields_to=("cpu-offload-stall",),
    title=_("GPU memory is left over while the job pays for saving it"),
    summary=_(
        "At the peak {alloc_peak_share:.0%} of the card was allocated, yet micro-batches of {micro_batch:.0f} are accumulated {accumulation:.0f} times."
    ),
    cases=(
        Says(
            c.alloc_peak_share.is_null(),
            _(
                "At most {mem_used_share_max:.0%} of the card was in use, yet the job recomputes, accumulates small batches or offloads to save memory."
            ),
        ),
        Says(
            _RECOMPUTE & c.selective_recompute_bytes.is_not_null(),
            _(
                "At the peak {alloc_peak_share:.0%} of the card was allocated, yet all activations are computed twice; without that the job"
                " needs {selective_recompute_gib:.0f} GiB of {mem_total_gib:.0f} GiB."
            ),
        ),
        Says(
            _RECOMPUTE, _("At the peak {alloc_peak_share:.0%} of the card was allocated, yet all activations are computed twice.")
        ),
        Says(_OFFLOAD, _("At the peak {alloc_peak_share:.0%} of the card was allocated, yet states are kept in host memory.")),
        Says(
            c.double_batch_bytes.is_not_null(),
            _(
                "At the peak {alloc_peak_share:.0%} of the card was allocated, yet micro-batches of {micro_batch:.0f} are accumulated"
                " {accumulation:.0f} times; twice the micro-batch needs {double_batch_gib:.0f} GiB of {mem_total_gib:.0f} GiB."
            ),
        ),
    ),
    evidence=(
        Show("alloc_peak_share", "ratio", "<", "peak_share_opens"),
        Show("mem_used_share_max", "ratio"),
        Show("alloc_peak_bytes", "bytes"),
        Show("mem_total_bytes", "bytes"),
        Show("selective_recompute_bytes", "bytes"),
        Show("double_batch_bytes", "bytes"),
        Show("micro_batch", "number"),
        Show("accumulation", "number"),
    ),
    change=(
        Step(
            "diff",
            "- model.gradient_checkpointing_enable()\n+ model.gradient_checkpointing_disable()",
            when=_RECOMPUTE & (c.launcher != "megatron").fill_null(True),
        ),
        Step(
            "flag",
            "--gradient_checkpointing False  # Hugging Face Trainer",
            when=_RECOMPUTE & (c.launcher != "megatron").fill_null(True),
        ),
        Step(
            "flag",
            "--recompute-granularity selective  # Megatron-LM, instead of full",
            when=_RECOMPUTE & (c.launcher == "megatron"),
        ),
        Step(
            "diff",
            "- micro_batch, accumulation = {micro_batch:.0f}, {accumulation:.0f}\n"
            "+ micro_batch, accumulation = {micro_batch:.0f} * 2, {accumulation:.0f} // 2  # the same global batch",
            when=_BATCH,
        ),
        Step("diff", '- "offload_optimizer": {{"device": "cpu"}},', when=_OFFLOAD & (c.launcher == "deepspeed")),
        Step(
            "diff",
            "- fully_shard(model, offload_policy=CPUOffloadPolicy())\n+ fully_shard(model)",
            when=_OFFLOAD & (c.launcher != "deepspeed").fill_null(True),
        ),
    ),
    gain=Expect(
        pl.when(_RECOMPUTE).then(1.15).otherwise(1.03),
        pl.when(_RECOMPUTE).then(1.3).when(_OFFLOAD).then(2.0).otherwise(1.15),
        _(
            "Full recompute runs the forward pass twice, 20 to 33 % of a step (published, and by counting); fewer accumulation steps and no"
            " offload are an estimate."
        ),
    ),
    risk=_(
        "Each change fits by itself, not all of them together: take one at a time, keep 8 to 10 % of the memory free, and try the longest sequence first."
    ),
    rollback=_("Set the flag back."),
    verify=_(
        "A global batch takes 8 % less time over 200 steps with a peak of 0.75 to 0.92 of the card, and no run ends out of memory for a day."
    ),
    sources=("arxiv.org/abs/2205.05198", "docs.pytorch.org/docs/stable/checkpoint.html"),
)
