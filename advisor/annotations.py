"""What a scheduler, a CI pipeline or a person may tell of a target because no sensor can: one registry of keys.

An annotation of the key `x` is the feature `note_x` of its scopes. It is null where nobody told it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import polars as pl

from advisor.finding import Scope

Kind: TypeAlias = Literal["number", "boolean", "word", "text", "age"]
"""age: seconds that had passed since something when it was told; as a feature it has grown by the time since."""
Value: TypeAlias = float | bool | str

MAX_TEXT: Final = 200
"""Characters of a value that is a text."""
MAX_AGE_S: Final = 10 * 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class Note:
    """One key: where it may be told, what its value is, and what it says. `low` to `high` bound a number, `words` a word."""

    key: str
    scopes: tuple[Scope, ...]
    kind: Kind
    help: str
    unit: str = ""
    low: float = 0.0
    high: float = math.inf
    words: tuple[str, ...] = ()
    whole: bool = False  # a number without a fraction

    @property
    def dtype(self) -> type[pl.DataType]:
        """The type of its feature."""
        return {"number": pl.Float64, "age": pl.Float64, "boolean": pl.Boolean}.get(self.kind, pl.String)

    @property
    def takes(self) -> str:
        """What a value has to be, in words."""
        if self.kind == "word":
            return f"one of {', '.join(self.words)}"
        if self.kind == "boolean":
            return "true or false"
        if self.kind == "text":
            return f"a text of 1 to {MAX_TEXT} characters"
        bounds = f"from {self.low:g} to {self.high:g}" if math.isfinite(self.high) else f"from {self.low:g} up"
        return f"a {'whole ' if self.whole else ''}number {bounds}" + (f" ({self.unit})" if self.unit else "")


def _age(key: str, scope: Scope, help: str) -> Note:
    return Note(key, (scope,), "age", help, "seconds since", 0.0, MAX_AGE_S)


NOTES: Final = (
    Note("job_kind", ("job",), "word", "What the job is.", words=("train", "eval", "infer", "serve", "interactive", "build", "other")),
    Note("phase", ("job",), "word", "What it does at the moment.", words=("train", "eval", "checkpoint", "init")),
    Note("declared_idle", ("job", "node"), "boolean", "Its GPUs are kept idle on purpose: a reservation, a debugging session."),
    Note("deadline", ("job",), "boolean", "It has a deadline: advice that trades speed for energy is not for it."),
    Note("exit_code", ("job",), "number", "Exit code of its last run, as the scheduler says; 0 is a good end.", "", -65_535.0, 65_535.0, whole=True),
    Note("image", ("job", "service"), "text", "Reference of its container image, tag or digest included."),
    Note("log_error", ("job",), "word", "What its log says went wrong.",
         words=("cuda_oom", "driver_insufficient", "no_kernel_image", "bus_error", "nccl_timeout", "amp_deprecated",
                "ecc_error", "gpu_lost", "nvlink_error", "illegal_access")),
    _age("quality_eval_age_s", "job", "Since the quality of its model was last evaluated."),
    Note("ttft_slo_s", ("service",), "number", "Objective for the time to the first token.", "seconds", 1e-6, 3600.0),
    Note("itl_slo_s", ("service",), "number", "Objective for the time between two tokens.", "seconds", 1e-6, 3600.0),
    Note("latency_slo_s", ("service",), "number", "Objective for a whole request.", "seconds", 1e-6, 86_400.0),
    Note("precision", ("service",), "text", "Precision that it runs in, such as fp8 or int4."),
    Note("precision_before", ("service",), "text", "Precision that it ran in before."),
    _age("precision_changed_s", "service", "Since its precision was changed."),
    Note("quality_drop", ("service",), "number", "Loss of quality that an evaluation measured after the change; 0.01 is one percent.", "ratio", -1.0, 1.0),
    _age("quality_age_s", "service", "Since that evaluation."),
    Note("canary_share", ("service",), "number", "Share of the traffic that it takes.", "ratio", 0.0, 1.0),
    Note("autoscaler_metric", ("service",), "word", "What its autoscaler follows.",
         words=("cpu", "memory", "gpu_util", "nvidia.com/gpu", "queue", "kv", "latency", "other", "none")),
    Note("autoscaler_target", ("service",), "text", "The value that the autoscaler keeps it at."),
    Note("tensorrt_version", ("service",), "text", "Version of TensorRT that its engine was built with."),
    Note("tensorrt_flags", ("service",), "text", "Flags of the builder of its engine."),
    Note("partition", ("node", "job", "service"), "text",
         "Partition, queue or pool that it belongs to, where Slurm does not tell it; thresholds may be set for it."),
    Note("maintenance", ("node",), "boolean", "Somebody works on the node."),
    Note("rack", ("node",), "text", "Rack that it stands in: what happens to several nodes of one at once is told as one."),
    Note("nvlink_domain", ("node",), "text", "NVLink domain that it is a part of, where one spans several nodes; else each node is its own."),
    Note("team", ("node", "job", "service"), "text", "Team that looks after it; routes of alerts may ask for it."),
    Note("owner", ("node", "job", "service"), "text", "Person who looks after it, where that is not a job's user."),
    Note("power_policy", ("node",), "boolean", "Its power limits are set on purpose."),
    Note("expected_gpus", ("node",), "number", "GPUs that it should have.", "GPUs", 0.0, 1024.0, whole=True),
    Note("efficiency_policy", ("node",), "boolean", "Energy goes before speed on it."),
    Note("power_budget_share", ("fleet",), "number", "Power that the site draws, over what it may.", "ratio", 0.0, 10.0),
    Note("energy_policy", ("fleet",), "boolean", "The site saves energy where that costs little speed."),
)  # fmt: skip
"""Every key that may be told."""

BY_KEY: Final[Mapping[str, Note]] = {note.key: note for note in NOTES}
SCOPES: Final[tuple[Scope, ...]] = tuple(dict.fromkeys(scope for note in NOTES for scope in note.scopes))


def of_scope(scope: Scope) -> tuple[Note, ...]:
    """The keys that targets of a scope may have."""
    return tuple(note for note in NOTES if scope in note.scopes)


def fits(note: Note, value: object) -> bool:
    """True for a value that the key may have. A number is finite and no boolean."""
    if note.kind == "boolean":
        return isinstance(value, bool)
    if note.kind == "word":
        return isinstance(value, str) and value in note.words
    if note.kind == "text":
        return isinstance(value, str) and bool(value.strip()) and len(value) <= MAX_TEXT
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        number = float(value)
    except OverflowError:
        return False
    return math.isfinite(number) and note.low <= number <= note.high and (number.is_integer() or not note.whole)
