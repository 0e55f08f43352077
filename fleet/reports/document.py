"""The report of one job, as JSON: made of the store, and kept in JobSummary.

What was not measured is absent: it has no number, and `absent` has a word for why. Devices that a job shared count in no figure but
`shared_gpu_hours`.
"""

from datetime import datetime
from typing import Any, Final

from django.conf import settings

from fleet.inventory.models import Node
from fleet.jobs.devices import stands_for
from fleet.jobs.models import Job
from fleet.reports import flops, happened, idling, ranks, timeline, usage
from fleet.reports.bins import bin_s, summed
from fleet.reports.spans import Held, held

VERSION: Final = 1
MOST_NAMED: Final = 64
"""Devices and nodes that are named; the rest are counted."""


def document(job: Job, at: datetime, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """The report of the job until it ended, or until `at`. `before`: the one made last, whose bins of the timeline are taken over.

    StoreError when the store cannot be read.
    """
    own = held(job, at)
    intervals = dict(Node.objects.filter(pk__in=own.cards.values("node")).values_list("pk", "interval_s"))
    used = usage.used(own, intervals, at.timestamp())
    figures, absent = usage.figures(own, used)
    idle, why_not_idle = idling.figures(own, used, at)
    told = ranks.reported(own, at.timestamp())
    bins = timeline.timeline(own, (before or {}).get("bins", ()), (before or {}).get("until", 0))
    verdict = summed(bins)
    spread = ranks.spread(own, told, used.busy_p50)
    mfu, why = flops.model_flop_utilisation(own, told)
    happening, events_total = happened.events(own)
    steps = _quantiles(told.steps)
    if steps:
        figures["quantiles"]["step_time_s"] = steps
    absent |= why_not_idle | _absent(own, bool(spread), bool(verdict["bottleneck"]), bool(steps), mfu, why, figures["coverage"])
    return {
        "version": VERSION,
        "since": own.start,
        "until": own.end,
        "held": own.mark,
        **figures,
        **idle,
        "gpus": len(own.gpus) + sum(stands_for(device) for _node, device in own.unknown),
        "models": sorted(set(own.cards.order_by().values_list("model", flat=True))),
        "nodes": list(own.nodes[:MOST_NAMED]),
        "nodes_total": len(own.nodes),
        "shared": [list(one) for one in own.shared[:MOST_NAMED]],
        "shared_total": len(own.shared),
        "unknown": [list(one) for one in own.unknown[:MOST_NAMED]],
        "unknown_total": len(own.unknown),
        **verdict,
        "bin_s": bin_s(own),
        "bins": bins,
        "ranks": spread,
        "samples_per_s": told.samples_per_s,
        "tokens_per_s": told.tokens_per_s,
        "mfu": mfu,
        "price": settings.FETTLE_GPU_HOUR_PRICE,
        "currency": settings.FETTLE_CURRENCY if settings.FETTLE_GPU_HOUR_PRICE is not None else None,
        "energy_of_module": own.cards.filter(power_scope="module").exists(),
        "events": happening,
        "events_total": events_total,
        "findings": happened.kept_findings(job),
        "absent": absent,
    }


def _absent(
    own: Held, has_ranks: bool, has_label: bool, has_steps: bool, mfu: float | None, why: str, coverage: float
) -> dict[str, str]:
    """Why a part of the report is not there, by its name."""
    found = {}
    nothing = "shared" if not own.spans and own.shared_s else "unknown_devices" if not own.spans else "no_readings"
    if not has_label:
        found["bottleneck"] = nothing if not coverage else "not_judged"
    if not has_ranks:
        found["ranks"] = nothing if not coverage else "one_rank" if len(own.gpus) < 2 else "not_measured"
    if not has_steps:
        found["quantiles.step_time_s"] = "no_steps"
    if mfu is None:
        found["mfu"] = why
    if settings.FETTLE_GPU_HOUR_PRICE is None:
        found["cost"] = "no_price"
    return found


def _quantiles(values: list[float]) -> dict[str, float] | None:
    if not values:
        return None
    order = sorted(values)
    return {f"p{one}": order[min(len(order) - 1, int(len(order) * one / 100))] for one in usage.QUANTILES}
