"""How the ranks of a job differ, and what its script reported: step times, samples and tokens a second, by GPU."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from fleet.inventory.models import Gpu
from fleet.reports.spans import Held
from fleet.store import clock
from fleet.store.series import rounded

BUCKETS: Final = 120
SHOWN: Final = 8
"""So many of the slowest and of the fastest are named; of fewer, all."""
_METRICS: Final = ("step_time_s", "samples_per_s", "tokens_per_s", "cpu_pct")


@dataclass(slots=True)
class Reported:
    """By GPU the medians of what its processes told, and the job's sums of rates; None where nobody told any."""

    step_time_s: dict[int, float] = field(default_factory=dict)
    steps: list[float] = field(default_factory=list)
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    present: set[int] = field(default_factory=set)
    """GPUs that a process was listed on at some time."""


def reported(held: Held) -> Reported:
    """What the processes on the job's own GPUs told, in BUCKETS stretches. StoreError when the store cannot be read."""
    found = Reported()
    step_s = rounded(max(10, (held.end - held.start) // BUCKETS))
    rates: dict[str, list[float]] = {"samples_per_s": [], "tokens_per_s": []}
    ahead = clock.ahead("gpu", held.gpus)
    ends: dict[int, tuple[int, int]] = {}
    for span in held.spans:
        first, last = ends.get(span.gpu, (span.start, span.end))
        ends[span.gpu] = min(first, span.start), max(last, span.end)
    for gpu, (start, end) in ends.items():
        frame = clock.series("process", gpu, _METRICS, start, end, step_s, ahead=ahead)
        if frame.is_empty():
            continue
        found.present.add(gpu)
        steps = frame["step_time_s"].drop_nulls()
        if len(steps):
            found.step_time_s[gpu] = float(steps.median())  # type: ignore[arg-type]
            found.steps += steps.to_list()
        for name, values in rates.items():
            told = frame[name].drop_nulls()
            if len(told):
                values.append(float(told.mean()))  # type: ignore[arg-type]
    found.samples_per_s = sum(rates["samples_per_s"]) if rates["samples_per_s"] else None
    found.tokens_per_s = sum(rates["tokens_per_s"]) if rates["tokens_per_s"] else None
    return found


def spread(held: Held, told: Reported, busy_p50: Mapping[int, float]) -> dict[str, Any] | None:
    """The ranks by their step time where most GPUs have one, else by how busy their engine is; None for fewer than two.

    `ratio`: the slowest over the fastest step time, or the busiest over the least busy; `rows`, the slowest first.
    """
    by_step = len(told.step_time_s) >= max(2, len(held.gpus) / 2)
    values = told.step_time_s if by_step else dict(busy_p50)
    if len(values) < 2:
        return None
    order = sorted(values, key=lambda gpu: (-values[gpu] if by_step else values[gpu], gpu))
    shown = order if len(order) <= 2 * SHOWN else [*order[:SHOWN], *order[-SHOWN:]]
    cards = {card.pk: card for card in Gpu.objects.select_related("node").filter(pk__in=shown)}
    high, low = max(values.values()), min(values.values())
    return {
        "by": "step_time_s" if by_step else "busy",
        "ranks": len(order),
        "p50": float(pl.Series(list(values.values())).median()),  # type: ignore[arg-type]
        "low": low,
        "high": high,
        "ratio": high / low if low > 0 else None,
        "rows": [
            {
                "gpu": pk,
                "node": cards[pk].node.name,
                "index": cards[pk].index,
                "step_time_s": told.step_time_s.get(pk),
                "busy": busy_p50.get(pk),
            }
            for pk in shown
            if pk in cards
        ],
    }
