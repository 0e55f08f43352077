"""`with_split(job)`: what a training's GPU memory holds by the planner's formulas, and what each remedy would leave of it.

The numbers are those of advisor/planners/training_memory.py, as expressions over all jobs at once, from what scripts and flags say of
model and parallelism. Null where the script did not say enough, and where the measured peak lies below the states alone: then the
recipe that is assumed (Adam; 16-bit with an FP32 master copy, or FP32) is not this job's.
"""

from typing import Final

import polars as pl

from advisor.kinds import kind
from advisor.planners.training_memory import CONTEXT_BYTES, FRAGMENTATION, NCCL_BYTES, RECIPES

READS: Final = frozenset((
    "params", "told_trainable", "told_hidden", "told_layers", "told_heads", "told_vocab", "told_seq", "micro_batch", "dtype", "sharding",
    "recompute", "tp", "pp", "told_vpp", "gpus", "ranks_on_node", "alloc_peak_bytes", "mem_total_bytes", "flag_sequence_parallel",
))  # fmt: skip
"""The columns that it looks at; words among them are read for it."""
SPLIT: Final = (
    "static_bytes", "activation_bytes", "logits_bytes", "attention_bytes", "planned_bytes", "static_share", "activation_share",
    "unsharded_bytes", "zero1_bytes", "zero2_bytes", "zero3_bytes", "lean_optimizer_bytes", "double_batch_bytes", "half_batch_bytes",
    "selective_recompute_bytes", "full_recompute_bytes", "zero2_planned_bytes", "zero3_planned_bytes", "lean_planned_bytes", "data_parallel",
)  # fmt: skip
"""Columns that are added. `static_bytes`: weights, gradients and optimizer; `unsharded_bytes`, `zero1_bytes` to `zero3_bytes`: the same
under each scheme with the job's own ranks, `lean_optimizer_bytes`: unsharded with 8-bit Adam; `attention_bytes`: what attention without a
fused kernel holds beside `activation_bytes`. `planned_bytes`: all of it with buffers; `double_batch_bytes`, `half_batch_bytes`,
`selective_recompute_bytes`, `full_recompute_bytes`, `zero2_planned_bytes`, `zero3_planned_bytes`, `lean_planned_bytes`: after that change. `static_share`: of the card;
`activation_share`: of what is counted without buffers."""

HALF: Final = ("bf16", "fp16", "fp8")
FULL: Final = ("fp32", "tf32")
BELOW_STATES: Final = 0.95
"""A measured peak below this part of the states refutes the assumed recipe: an optimizer's first step allocates them all."""

c = pl.col


def with_split(job: pl.DataFrame) -> pl.DataFrame:
    """`job` with the columns of SPLIT, in bytes on one GPU and ratios."""
    absent = [name for name in sorted(READS) if job.schema.get(name, pl.Null()) == pl.Null]
    typed = job.with_columns([pl.lit(None, kind(name)).alias(name) for name in absent])
    held = typed.with_columns(**_sizes()).with_columns(**_static()).with_columns(**_activations())
    split = held.with_columns(**_totals())
    refuted = c.alloc_peak_bytes < BELOW_STATES * c.static_bytes
    split = split.with_columns(
        [pl.when(refuted.fill_null(False)).then(None).otherwise(pl.col(name)).alias(name) for name in SPLIT]
    )
    return job.with_columns(split.select(SPLIT))


def _sizes() -> dict[str, pl.Expr]:
    """The model's slice on one GPU, and over how many ranks its data is spread."""
    tensor = c.tp.cast(pl.Float64).fill_null(1).clip(1)
    slices = tensor * c.pp.cast(pl.Float64).fill_null(1).clip(1)
    ranks = (c.gpus.cast(pl.Float64) / slices).floor().clip(1)
    trained = pl.coalesce(c.told_trainable, c.params).cast(pl.Float64) / slices
    return {
        "_tensor": tensor,
        "_pipeline": slices / tensor,
        "data_parallel": ranks,
        "_trained": trained,
        "_frozen": (c.params.cast(pl.Float64) / slices - trained).clip(0),
        # one GPU has nothing to shard over, whatever the script says
        "_scheme": pl.when(ranks == 1).then(pl.lit("none")).otherwise(c.sharding),
        # hsdp shards inside a node and replicates between nodes
        "_shards": pl.when(c.sharding == "hsdp")
        .then(pl.min_horizontal(ranks, (c.ranks_on_node / tensor).floor().clip(1)))
        .otherwise(ranks),
        "_half": pl.when(c.dtype.is_in(HALF)).then(True).when(c.dtype.is_in(FULL)).then(False),
    }


def _static() -> dict[str, pl.Expr]:
    """States under each scheme: weights, gradients, optimizer. What is frozen has weights of 16 bits alone, as in LoRA."""
    weight, gradient, optimizer = (
        pl.when(c._half).then(pl.lit(float(half))).when(~c._half).then(pl.lit(float(full)))
        for half, full in zip(RECIPES["mixed-adam"], RECIPES["fp32-adam"], strict=True)
    )
    lean = pl.when(c._half).then(pl.lit(float(sum(RECIPES["mixed-adam-8bit"])))).when(~c._half).then(pl.lit(4.0 + 4.0 + 2.0))
    frozen, trained, ranks = 2.0 * c._frozen, c._trained, c._shards
    kept = weight * trained + frozen
    whole = kept + (gradient + optimizer) * trained
    schemes = {
        "unsharded_bytes": whole,
        "zero1_bytes": kept + gradient * trained + optimizer * trained / ranks,
        "zero2_bytes": kept + (gradient + optimizer) * trained / ranks,
        "zero3_bytes": whole / ranks,
        "lean_optimizer_bytes": lean * trained + frozen,
    }
    static = (
        pl.when(c._scheme.is_in(("none", "ddp")))
        .then(schemes["unsharded_bytes"])
        .when(c._scheme == "zero1")
        .then(schemes["zero1_bytes"])
        .when(c._scheme == "zero2")
        .then(schemes["zero2_bytes"])
        .when(c._scheme.is_in(("zero3", "fsdp", "hsdp")))
        .then(schemes["zero3_bytes"])
    )
    return schemes | {"static_bytes": static}


def _activations() -> dict[str, pl.Expr]:
    """Activations of 16-bit transformer layers; with FP32 twice that. `selective` stands for fused attention, as SDPA chooses by itself."""
    width = pl.when(c._half).then(1.0).when(~c._half).then(2.0)
    interleaved = pl.when(c.told_vpp > 1).then(1 + (c._pipeline - 1) / (c._pipeline * c.told_vpp)).otherwise(1.0)
    tokens = c.told_seq.cast(pl.Float64) * c.micro_batch * c.told_hidden * c.told_layers * interleaved * width
    split = c.flag_sequence_parallel.cast(pl.Boolean).fill_null(False)
    selective = pl.when(split).then(tokens * 34 / c._tensor).otherwise(tokens * (10 + 24 / c._tensor))
    full = tokens * 2 / pl.when(split).then(c._tensor).otherwise(1.0)
    return {
        "_selective": selective,
        "_full": full,
        "activation_bytes": pl.when(c.recompute == "full").then(full).otherwise(selective),
        "attention_bytes": pl.when((c.recompute == "none") | c.recompute.is_null()).then(
            tokens * 5 * c.told_heads * c.told_seq / c.told_hidden / c._tensor
        ),
        "logits_bytes": c.told_seq.cast(pl.Float64) * c.micro_batch * c.told_vocab / c._tensor * 6,
    }


def _totals() -> dict[str, pl.Expr]:
    """All of it, with the context, NCCL and a twentieth for fragments; now and after each change."""
    alone = (c.data_parallel * c._tensor * c._pipeline) == 1
    logits = c.logits_bytes.fill_null(0)
    buffers = CONTEXT_BYTES + pl.when(alone).then(0.0).otherwise(NCCL_BYTES)
    counted = c.static_bytes + c.activation_bytes + logits

    def planned(static: pl.Expr, activations: pl.Expr, batch: float = 1.0) -> pl.Expr:
        return (static + (activations + logits) * batch) * (1 + FRAGMENTATION) + buffers

    return {
        "static_share": c.static_bytes / c.mem_total_bytes,
        "activation_share": c.activation_bytes / counted,
        "planned_bytes": planned(c.static_bytes, c.activation_bytes),
        "double_batch_bytes": planned(c.static_bytes, c.activation_bytes, 2),
        "half_batch_bytes": planned(c.static_bytes, c.activation_bytes, 0.5),
        "selective_recompute_bytes": planned(c.static_bytes, c._selective),
        "full_recompute_bytes": planned(c.static_bytes, c._full),
        "zero2_planned_bytes": planned(c.zero2_bytes, c.activation_bytes),
        "zero3_planned_bytes": planned(c.zero3_bytes, c.activation_bytes),
        "lean_planned_bytes": planned(c.lean_optimizer_bytes, c.activation_bytes),
    }
