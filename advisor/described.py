"""What is known of a process in words, as columns that rules read: its launcher and engine, versions, flags and variables, and what
its script told of the model (`fettle_report.describe`).

`flag_*`, `env_*` and `told_*` are made on demand, typed as wire.labels says; null is "not set, or not known": `labels_known` tells the two apart.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import polars as pl

from wire.labels import FLAGS

TOLD: Final[dict[str, type[pl.DataType]]] = {
    **dict.fromkeys(
        ("params", "trainable", "hidden", "layers", "heads", "vocab", "seq", "micro_batch", "accumulation", "tp", "pp", "vpp",
         "microbatches", "flops_per_sample"),
        pl.Float64,
    ),
    **dict.fromkeys(("scaler", "offload", "pin_memory"), pl.Boolean),
    **dict.fromkeys(("dtype", "sharding", "recompute", "class", "kind", "phase", "quant"), pl.String),
}  # fmt: skip
"""What a script may tell of itself, by the name after `told.`."""
_KINDS: Final = {"number": pl.Float64, "boolean": pl.Boolean, "word": pl.String, "model": pl.String}
_PLAIN: Final = {
    "launcher": "launcher",
    "serving_engine": "engine",
    "partition": "slurm_partition",
    **{name: name for name in ("torch", "cuda", "container", "pod", "slurm_job")},
}
"""Columns and their labels: `engine` is a column of its own, the unit of a GPU that was busiest."""

PINNED: Final = (
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_BUFFSIZE", "NCCL_NTHREADS", "NCCL_IB_GID_INDEX",
    "NCCL_IB_SL", "NCCL_IB_TC",
)  # fmt: skip
"""NCCL's tuning variables: left over from another fabric or release they take a choice from NCCL that it makes better."""
_LEVELS: Final = ("NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL")  # as numbers: the meaning changed between releases
_RENAMED: Final = ("NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_ALLOC_CONF_RENAMED: Final = 209  # PyTorch 2.9
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")
_WHEEL: Final = re.compile(r"\+cu(\d{2,3})")

ON_DEMAND: Final = ("flag_", "env_", "told_")
BASE: Final[dict[str, type[pl.DataType]]] = {
    **dict.fromkeys(_PLAIN, pl.String),
    "scheduler": pl.String,
    "torch_release": pl.Int64,
    "torch_cuda_major": pl.Int64,
    "torch_is_cpu": pl.Boolean,
    "visible_none": pl.Boolean,
    "env_pinned": pl.String,
    "env_deprecated": pl.String,
    "labels_known": pl.Boolean,
}
"""Columns that are always there."""


def told_and_flags() -> tuple[str, ...]:
    """Every column that a program's words about itself and its flags can give."""
    return (*(f"told_{name}" for name in TOLD), *(f"flag_{name.replace('-', '_')}" for name in sorted(FLAGS)))


def kind(column: str) -> type[pl.DataType] | None:
    """The type of a column that is made on demand; None for one that no label can give."""
    prefix, name = next(((one, column.removeprefix(one)) for one in ON_DEMAND if column.startswith(one)), ("", ""))
    match prefix:
        case "env_":
            return pl.String
        case "told_":
            return TOLD.get(name)
        case "flag_":
            flag = FLAGS.get(name.replace("_", "-"))
            return None if flag is None else _KINDS[flag]
    return None


def described(processes: Iterable[tuple[int, int, Mapping[str, str]]], wanted: Collection[str]) -> pl.DataFrame:
    """One row a process of `node`, `pid` and its labels: BASE and those of `wanted` that labels can give."""
    asked = {name: made for name in sorted(wanted) if name not in BASE and (made := kind(name)) is not None}
    rows = [_row(node, pid, labels, asked) for node, pid, labels in processes]
    return pl.DataFrame(rows, schema={"node": pl.Int64, "pid": pl.Int64, **BASE, **asked}, orient="row", infer_schema_length=None)


def of(key: str, processes: pl.DataFrame, words: pl.DataFrame) -> pl.DataFrame:
    """One row a job or service: what the first of its `processes` (`key`, node, pid) that knows says; `mixed_versions`: of how many
    pairs of PyTorch and CUDA they are."""
    names = [name for name in words.columns if name not in ("node", "pid")]
    rows = processes.select(key, "node", "pid").join(words, on=["node", "pid"], how="left")
    stack = pl.concat_str("torch", "cuda", separator=" ", ignore_nulls=True)
    return rows.group_by(key, maintain_order=True).agg(
        stack.filter(pl.col("torch").is_not_null()).n_unique().cast(pl.Int64).alias("mixed_versions"),
        *[pl.col(name).drop_nulls().first().alias(name) for name in names],
    )


def _row(node: int, pid: int, labels: Mapping[str, str], asked: Mapping[str, type[pl.DataType]]) -> tuple[Any, ...]:
    torch, release = labels.get("torch"), _release(labels.get("torch"))
    wheel = _WHEEL.search(torch) if torch else None
    scheduler = (
        "slurm" if "slurm_job" in labels else "kubernetes" if "pod" in labels else "docker" if "container" in labels else None
    )
    base = (
        *(labels.get(name) for name in _PLAIN.values()),
        scheduler,
        release,
        int(wheel[1]) // 10 if wheel else _major(labels.get("cuda")),
        None if torch is None else torch.endswith("+cpu"),
        labels["visible_gpus"] == "none" if "visible_gpus" in labels else None,
        _joined(_pinned(labels)),
        _joined(_deprecated(labels, release)),
        bool(labels),
    )
    return (node, pid, *base, *(_value(labels, name, made) for name, made in asked.items()))


def _value(labels: Mapping[str, str], column: str, made: type[pl.DataType]) -> str | float | bool | None:
    prefix, name = column.split("_", 1)
    told = labels.get(f"{prefix}.{name.replace('_', '-') if prefix == 'flag' else name}")
    if told is None or made is pl.String:
        return told
    if made is pl.Boolean:
        return told.lower() not in ("false", "0", "no", "off")
    try:
        return float(told)
    except ValueError:
        return None


def _pinned(labels: Mapping[str, str]) -> list[str]:
    found = [name for name in PINNED if f"env.{name}" in labels]
    found += [name for name in _LEVELS if labels.get(f"env.{name}", "").isdecimal()]
    found += ["NCCL_SHM_DISABLE"] if labels.get("env.NCCL_SHM_DISABLE") == "1" else []
    return found


def _deprecated(labels: Mapping[str, str], release: int | None) -> list[str]:
    found = [name for name in _RENAMED if f"env.{name}" in labels]
    if "env.PYTORCH_CUDA_ALLOC_CONF" in labels and release is not None and release >= _ALLOC_CONF_RENAMED:
        found.append("PYTORCH_CUDA_ALLOC_CONF")
    return found


def _joined(names: list[str]) -> str | None:
    return ", ".join(names) or None


def _release(version: str | None) -> int | None:
    """2.9 -> 209, 2.14 -> 214."""
    found = _VERSION.match(version or "")
    return int(found[1]) * 100 + int(found[2]) if found else None


def _major(version: str | None) -> int | None:
    found = _VERSION.match(version or "")
    return int(found[1]) if found else None
