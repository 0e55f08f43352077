"""Model FLOP utilisation of a job: what its script told of the model, over what its cards could do (the planner PL-3)."""

from datetime import UTC, datetime
from typing import Final

import polars as pl

from advisor.planned import mfu
from fleet.inventory.models import Process
from fleet.reports.ranks import Reported
from fleet.reports.spans import Held

_NUMBERS: Final = ("told.params", "told.flops_per_sample")
_WORDS: Final = ("told.dtype", "flag.dtype", "flag.mixed-precision")
_SWITCHES: Final = ("flag.bf16", "flag.fp16")


def model_flop_utilisation(held: Held, told: Reported) -> tuple[float | None, str]:
    """The part of the cards' dense peak from 0 to 1; None with why: `no_rate`, `no_model`, `no_peak`."""
    if told.samples_per_s is None and told.tokens_per_s is None:
        return None, "no_rate"
    labels = _labels(held)
    numbers = {name: _number(labels.get(name)) for name in _NUMBERS}
    if all(value is None for value in numbers.values()):
        return None, "no_model"
    models = set(held.cards.order_by().values_list("model", flat=True))
    if len(models) != 1:
        return None, "no_peak"
    row = {
        **{_column(name): value for name, value in numbers.items()},
        **{_column(name): labels.get(name) for name in _WORDS},
        **{_column(name): labels[name].lower() not in ("false", "0") if name in labels else None for name in _SWITCHES},
        "samples_per_s": told.samples_per_s,
        "tokens_per_s": told.tokens_per_s,
        "gpu_model": models.pop(),
        "gpus": len(held.gpus),
    }
    share = mfu(pl.DataFrame([row])).item()
    return (None, "no_peak") if share is None else (float(share), "")


def _labels(held: Held) -> dict[str, str]:
    """What processes on the job's nodes told of the model while it ran; of several the one that told most."""
    start, end = (datetime.fromtimestamp(at, UTC) for at in (held.start, held.end))
    rows = Process.objects.filter(node__in=held.cards.values("node"), first_seen_at__lt=end, last_seen_at__gte=start).order_by(
        "-last_seen_at"
    )
    wanted = {*_NUMBERS, *_WORDS, *_SWITCHES}
    best: dict[str, str] = {}
    for labels in rows.values_list("labels", flat=True)[:1000]:
        known = {name: str(value) for name, value in labels.items() if name in wanted}
        best = max(best, known, key=len)
    return best


def _column(name: str) -> str:
    return name.replace(".", "_").replace("-", "_")


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and 0 < value < 1e30 else None
