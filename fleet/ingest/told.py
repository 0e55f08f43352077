"""Checks of what a batch tells of its GPUs and engines in words: who uses a GPU, and why an engine has no value."""

from collections.abc import Collection

from fleet.ingest.cleaning import clean
from wire.codec import WireError
from wire.labels import GPU_LABELS, gpu_label_max
from wire.messages import Batch
from wire.metrics import REASONS, of

_ENGINE = frozenset(metric.name for metric in of("engine"))


def check_gpu_labels(batch: Batch, gpus: int) -> None:
    """None when each GPU is named once, by labels that there are, of bounded size; else WireError."""
    told: set[int] = set()
    for one in batch.gpu_labels:
        if not 0 <= one.gpu < gpus or one.gpu in told:
            raise WireError("wrong_shape", f"labels of GPU {one.gpu}, which the hello does not list, or twice", batch.seq)
        told.add(one.gpu)
        for name, value in one.labels.items():
            if name not in GPU_LABELS:
                raise WireError("wrong_shape", f"{clean(name, 60)!r} is no label of a GPU", batch.seq)
            if len(value) > (most := gpu_label_max(name)):
                detail = f"{len(value)} characters in label {name} of a GPU; at most {most} are taken"
                raise WireError("wrong_shape", detail, batch.seq)


def check_engine_absences(batch: Batch, names: Collection[str]) -> None:
    """None when each engine is one of `names`, once, with reasons and metrics that there are; else WireError."""
    told: set[str] = set()
    for one in batch.engines.absent:
        if one.name not in names or one.name in told:
            raise WireError("wrong_shape", "reasons of an engine that the batch does not list, or twice", batch.seq)
        told.add(one.name)
        reasons = {*one.metrics.values(), *({one.reason} - {None})}
        if not reasons.issubset(REASONS) or not one.metrics.keys() <= _ENGINE:
            raise WireError("wrong_shape", f"engine {one.name}: an unknown metric or reason", batch.seq)
