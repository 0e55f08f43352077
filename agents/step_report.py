"""One datagram of `clients/fettle_report.py`, and what it comes to as readings of its process.

It holds sums since the program began, so the newest one of a tick says all. What an older client does not tell is absent, not
zero; what a newer one tells besides is passed over.
"""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from agents.collectors.process_readers import Answers

MAX_FACTS: Final = 64
"""Of what describes a run."""

_Whole: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 53)]
_Sum: TypeAlias = Annotated[float, Meta(ge=0, le=1e18)]
_Name: TypeAlias = Annotated[str, Meta(max_length=30)]
_Word: TypeAlias = Annotated[str, Meta(max_length=40)]
Facts: TypeAlias = dict[str, bool | int | float | str]
"""What a program says of its model and its run; not checked yet."""


class Told(Struct, frozen=True, kw_only=True):
    """What it says; what it does not know is left out or null."""

    steps: _Whole
    timed: _Whole = 0
    step_s: _Sum = 0.0
    step_max_s: _Sum | None = None  # of the steps that no earlier datagram told of
    slow_steps: _Whole | None = None
    waits: _Whole = 0
    wait_s: _Sum = 0.0
    h2ds: _Whole = 0
    h2d_s: _Sum = 0.0
    comms: _Whole = 0
    comm_s: _Sum = 0.0
    samples: _Sum = 0.0
    sampled_s: _Sum = 0.0
    tokens: _Sum = 0.0
    tokens_s: _Sum = 0.0
    loss: float | None = None
    loss_not_finite: _Whole = 0
    loss_still: _Whole | None = None
    loss_scale: float | None = None
    grad_norm: float | None = None
    grad_norm_spikes: _Whole | None = None
    alloc_peak_bytes: _Whole | None = None
    alloc_retries: _Whole | None = None
    reserved_peak_bytes: _Whole | None = None
    alloc_ooms: _Whole | None = None
    ooms: _Whole | None = None
    checkpoints: _Whole | None = None
    checkpoint_s: _Sum | None = None
    checkpoint_bytes: _Whole | None = None
    since_checkpoint_s: _Sum | None = None
    described: Annotated[dict[_Name, bool | int | float | _Word], Meta(max_length=MAX_FACTS)] | None = None
    dropped: _Whole = 0


decode: Final = msgspec.json.Decoder(Told).decode

_MEANS: Final = {
    "step_time_s": ("step_s", "timed"),
    "data_wait_s": ("wait_s", "waits"),
    "h2d_s": ("h2d_s", "h2ds"),
    "comm_s": ("comm_s", "comms"),
    "samples_per_s": ("samples", "sampled_s"),
    "tokens_per_s": ("tokens", "tokens_s"),
}
"""A mean, the sum that it is of and what that is divided by."""


def means(base: Told | None, told: Told) -> Answers:
    """Means of the steps between two datagrams; a figure that no step told is `not_found`."""
    if base is None:
        return dict.fromkeys(_MEANS, "no_previous")
    found: Answers = {}
    for name, (total, count) in _MEANS.items():
        between = getattr(told, count) - getattr(base, count)
        found[name] = (getattr(told, total) - getattr(base, total)) / between if between > 0 else "not_found"
    if found["step_time_s"] == "not_found":
        found["step_time_s"] = "no_previous"
    return found


def lasting(told: Told, since_s: float) -> Answers:
    """What stands however long ago it was told; `since_s` is how long ago that was."""
    counted = [count for count in (told.ooms, told.alloc_ooms) if count is not None]
    since = told.since_checkpoint_s
    return {
        "steps_total": told.steps,
        "loss_not_finite_total": told.loss_not_finite,
        "slow_steps_total": _or_absent(told.slow_steps),
        "grad_norm_spikes_total": _or_absent(told.grad_norm_spikes),
        "alloc_retries_total": _or_absent(told.alloc_retries),
        "ooms_total": max(counted) if counted else "not_found",
        "checkpoints_total": _or_absent(told.checkpoints),
        "checkpoint_save_s": _or_absent(told.checkpoint_s),
        "checkpoint_bytes": _or_absent(told.checkpoint_bytes),
        "since_checkpoint_s": "not_found" if since is None else round(since + since_s, 1),
    }


def passing(told: Told) -> Answers:
    """What stands while the steps go on."""
    return {
        "loss": told.loss if told.loss is not None else "not_a_number" if told.loss_not_finite else "not_found",
        "loss_still_steps": _or_absent(told.loss_still),
        "loss_scale": _or_absent(told.loss_scale),
        "grad_norm": _or_absent(told.grad_norm, "not_found" if told.grad_norm_spikes is None else "not_a_number"),
        "alloc_peak_bytes": _or_absent(told.alloc_peak_bytes),
        "reserved_peak_bytes": _or_absent(told.reserved_peak_bytes),
    }


def _or_absent(value: float | None, reason: str = "not_found") -> float | str:
    return reason if value is None else value
