"""`kind(name)`: the type of a feature, for a column that nothing was measured for.

A column of nulls alone has no type, and Polars refuses `~`, `str.contains` or `floor` on it: one rule that reads what this fleet
never told would end the judgement of all. So what is absent is null of its feature's type.
"""

from typing import Final

import polars as pl

from advisor import described
from advisor.annotations import BY_KEY

TEXT: Final = frozenset(
    (
        "allocated_to", "given_by", "job_family", "given_slurm_job", "jobs_on_missing", "base_changes", "base_energy_changes", "base_energy_first_bad_at", "base_energy_first_bad_run",
        "base_first_bad_at", "base_first_bad_run", "bench_name", "bottleneck", "compute_capability", "confidence", "container",
        "container_image", "cpu_governor", "cuda", "cuda_driver_version", "driver_mix", "driver_version", "dtype", "serving_engine", "engine",
        "env_deprecated", "env_pinned", "gpu_model", "job", "kernel", "kind", "launcher", "memory_kind", "model",
        "name", "currency", "node_name", "nvidia_module_version", "partition", "pod", "power_scope", "profile_top_kernel", "recompute", "scheduler", "sharding", "slurm_job",
        "storage_top_job", "told_class", "told_dtype", "told_kind", "told_phase", "told_quant", "told_recompute", "told_sharding",
        "torch", "torch_mix",
    )
)  # fmt: skip
FLAGS: Final = frozenset(
    (
        "arch_missing", "base_energy_other_work", "base_other_work", "checkpoint_shrunk", "evaluated", "fabric_degraded", "free", "gpu_shared", "has_nvlink", "labels_known", "lost", "mig", "offload", "persistence_mode",
        "ranks_talk_over_pcie", "rdma_ready", "ready_before_first", "resumed_at_zero", "serves",
        "sram_threshold_exceeded", "talks", "told_offload", "told_pin_memory", "told_scaler", "torch_is_cpu", "visible_none", "web_process",
        "waits_for_data",
    )
)  # fmt: skip

_OF_NOTES: Final = {"text": pl.String, "word": pl.String, "boolean": pl.Boolean}
"""Of what people and programs note; the rest are numbers."""


def kind(name: str) -> pl.DataType:
    """The type of the feature `name`. A command's flag that is not known is untyped: it may hold anything."""
    if name in TEXT or name.startswith("env_"):
        return pl.String()
    if name in FLAGS:
        return pl.Boolean()
    if name.startswith("note_") and (note := BY_KEY.get(name.removeprefix("note_"))):
        return _OF_NOTES.get(note.kind, pl.Float64)()
    if name.startswith("flag_"):
        return (described.kind(name) or pl.Null)()
    return pl.Float64()
