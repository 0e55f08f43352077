"""How many sequences a job decodes at once, and how many it could: what its engine or its script says, else the roofline.

While memory limits, tensor activity grows with the sequences that share each read of the weights: of 16-bit weights two operations a
byte and sequence, so the batch is tensor activity over memory activity times the card's balance (operations a byte). Recordings
on an H200 hold that within 3 %: 8 sequences 0.032 of the tensor pipe at 0.82 of the memory, 64 sequences 0.24. Kernels fill tiles of 8: fewer
sequences look like 8.
"""

from typing import Final

import polars as pl

from advisor.planned import names_of
from advisor.planners.cards import CARDS

TILE: Final = 8
REACH: Final = 0.25
"""Share of the tensor pipe up to which more sequences cost memory-bound decoding next to nothing: 64 of an H200."""
_BALANCE: Final = {
    name: card.dense_flop_per_s["bf16"] / card.memory_bytes_per_s
    for card in CARDS
    if card.memory_bytes_per_s and "bf16" in card.dense_flop_per_s
    for name in names_of(card)
}


def with_sequences(job: pl.DataFrame, service: pl.DataFrame | None, gpu: pl.DataFrame) -> pl.DataFrame:
    """`job` with `sequences_now` (as told), `sequences_padded` (by the roofline, whole tiles) and `sequences_planned` (what would still be bound by
    memory and, where an engine tells of its cache, fits); null where not known."""
    job = _of_engines(job, service, gpu)
    balance = pl.col("gpu_model").replace_strict(_BALANCE, default=None, return_dtype=pl.Float64)
    tensor, memory = pl.col("tensor_active_when_busy"), pl.col("dram_active_when_busy")
    bound = pl.when(memory > 0).then(balance / memory)
    by_roofline = (REACH * bound / TILE).round() * TILE
    return job.with_columns(
        sequences_now=pl.coalesce("_running", "micro_batch"),
        sequences_padded=tensor * bound,
        sequences_planned=pl.min_horizontal(by_roofline, pl.when(by_roofline.is_not_null()).then("_fitting")).cast(pl.Int64),
    ).drop("_running", "_fitting")


def _of_engines(job: pl.DataFrame, service: pl.DataFrame | None, gpu: pl.DataFrame) -> pl.DataFrame:
    """`_running`, `_fitting`: sequences of the engines on the job's GPUs that run, and that their caches could hold."""
    nothing = [pl.lit(None, pl.Float64).alias(name) for name in ("_running", "_fitting")]
    if service is None or not {"members", "requests_running", "batch_size"} <= set(service.columns):
        return job.with_columns(nothing)
    fitting = pl.col("seqs_that_fit") if "seqs_that_fit" in service.columns else pl.lit(None, pl.Int64)
    each = (
        service.select(
            "service", "members", _running=pl.coalesce("requests_running", "batch_size"), _fitting=fitting.cast(pl.Float64)
        )
        .explode("members")
        .join(gpu.select(members="gpu", job="job"), on="members")
        .unique(["service", "job"], maintain_order=True)
    )
    some = pl.col("_running", "_fitting")
    of_job = each.group_by("job", maintain_order=True).agg(pl.when(some.count() > 0).then(some.sum()))
    return job.join(of_job, on="job", how="left", maintain_order="left")
