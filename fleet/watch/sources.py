"""Sources that lag or stand still: samples that come late, a driver or an exporter that does not answer, a log that is not read, a wrong clock."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.conf import settings
from django.db.models import Count
from django.utils.translation import gettext_noop

from advisor.finding import Evidence
from advisor.inventory_rules import FROZEN_CARDS, FROZEN_ENGINE, FROZEN_LOG, FROZEN_VALUES
from advisor.text import Value
from fleet.inventory.models import STILL_THERE, Absence, Engine
from fleet.watch.alerts import MAINTENANCE, Alerts
from fleet.watch.nodes import Watched
from fleet.watch.stillness import STILL_S
from wire.messages import KERNEL_LOG

LAGGING: Final = "source-lagging"
FROZEN: Final = "source-frozen"
SKEW: Final = "clock-skew"
LASTS_S: Final = 8.0
"""Two looks."""
ABSENT_FOR: Final = timedelta(seconds=60)
"""A call that is late now and then, an exporter between two of its rounds, are none that stand still."""
LEAST_READINGS: Final = 3
"""Of one GPU: one reading that a driver no longer answers is no driver that hangs."""
ENGINE_SILENT_S: Final = 120.0
FROM_THE_START: Final = timedelta(seconds=60)
"""A log that was never read since the agent began may not be read there: that is how it was set up."""
REASONS: Final = {"timeout": "driver", "frozen": "dcgm"}
"""Why readings are absent whose source stands still, and which source that is."""
IN_TIME: Final = gettext_noop("Samples arrive in time again.")
ANSWERS: Final = gettext_noop("The source answers again.")
RIGHT: Final = gettext_noop("The node's clock is right.")


class _Still(NamedTuple):
    """A source of a node that stands still."""

    summary: str | None
    params: Mapping[str, Value]


def lag(alerts: Alerts, nodes: Sequence[Watched], heard: Collection[int]) -> None:
    """Samples of nodes that are heard and whose newest is old."""
    limit_s = settings.FETTLE_SOURCE_LATE_S
    for one in nodes:
        if one.pk not in heard or one.received_at is None or one.newest_at is None:
            continue
        target, late_s = str(one.pk), (one.received_at - one.newest_at).total_seconds()
        if alerts.lasts(f"{LAGGING} {target}", late_s > limit_s and not one.maintenance, LASTS_S):
            evidence = (Evidence("late_s", round(late_s), "seconds", limit_s, ">"),)
            alerts.tell(LAGGING, target, {"late_s": round(late_s)}, evidence, node=one.pk, name=one.name)
        elif late_s <= limit_s / 2 or one.maintenance:
            alerts.end(LAGGING, target, MAINTENANCE if one.maintenance else IN_TIME)


def skew(alerts: Alerts, nodes: Sequence[Watched], heard: Collection[int]) -> None:
    """Clocks that are off; of a clock that is not known nothing is said."""
    limit_s = settings.FETTLE_CLOCK_SKEW_S
    for one in nodes:
        if one.pk not in heard or one.skew_s is None:
            continue
        target, off_s = str(one.pk), abs(one.skew_s)
        if alerts.lasts(f"{SKEW} {target}", off_s > limit_s, LASTS_S):
            evidence = (Evidence("clock_skew_s", round(one.skew_s, 1), "seconds", limit_s, ">"),)
            alerts.tell(SKEW, target, {"skew_s": round(one.skew_s, 1)}, evidence, node=one.pk, name=one.name)
        elif off_s <= limit_s / 2:
            alerts.end(SKEW, target, RIGHT)


def frozen(alerts: Alerts, nodes: Sequence[Watched], heard: Collection[int], still: Mapping[int, int]) -> None:
    """Sources of nodes that are heard and that tell nothing new. `still`: by node how many GPUs' readings do not move."""
    found = _absent(alerts.at) | _engines(alerts)
    for node, gpus in still.items():
        found[node, "cards"] = _Still(FROZEN_CARDS, {"gpus": gpus, "still_s": STILL_S})
    by_key = {one.pk: one for one in nodes}
    for (node, source), what in found.items():
        one = by_key.get(node)
        if one is None or node not in heard or one.maintenance or (source == "kernel-log" and _never_read(what, one)):
            continue
        params = {name: value for name, value in what.params.items() if name != "since"}
        readings = params.get("readings")
        evidence = () if readings is None else (Evidence("absent_readings", float(readings), "readings", LEAST_READINGS, ">="),)
        alerts.tell(FROZEN, f"{node}/{source}", params, evidence, node=node, name=one.name, summary=what.summary)
    for target in alerts.of_rule(FROZEN):
        node, source = int(target.partition("/")[0]), target.partition("/")[2]
        if (node, source) not in found and node in heard:
            alerts.end(FROZEN, target, ANSWERS)
        elif node in by_key and by_key[node].maintenance:
            alerts.end(FROZEN, target, MAINTENANCE)


def _absent(at: datetime) -> dict[tuple[int, str], _Still]:
    rows = Absence.objects.filter(until=None, refused=False, since__lte=at - ABSENT_FOR)
    found: dict[tuple[int, str], _Still] = {}
    counts: dict[tuple[int, str], list[int]] = defaultdict(list)
    of_cards = rows.filter(reason__in=REASONS, gpu__isnull=False, gpu__present=True)
    for node, _gpu, reason, count in of_cards.order_by().values_list("node", "gpu", "reason").annotate(Count("pk")):
        if count >= LEAST_READINGS:
            counts[node, REASONS[reason]].append(count)
    for (node, source), readings in counts.items():
        params = {"readings": sum(readings), "gpus": len(readings)}
        found[node, source] = _Still(FROZEN_VALUES if source == "dcgm" else None, params)
    for node, since in rows.filter(metric=KERNEL_LOG, gpu=None).values_list("node", "since"):
        found[node, "kernel-log"] = _Still(FROZEN_LOG, {"since": since.timestamp()})
    return found


def _never_read(what: _Still, one: Watched) -> bool:
    since = what.params["since"]
    return one.connected_at is None or float(since) < (one.connected_at + FROM_THE_START).timestamp()


def _engines(alerts: Alerts) -> dict[tuple[int, str], _Still]:
    """Engines that are there and have told nothing at all for a while."""
    found = {}
    there = Engine.objects.filter(last_seen_at__gte=alerts.at - STILL_THERE)
    for node, name, why in there.values_list("node_id", "name", "why_silent"):
        if alerts.lasts(f"engine {node} {name}", bool(why), ENGINE_SILENT_S):
            found[node, f"engine {name}"[:200]] = _Still(FROZEN_ENGINE, {"engine": name})
    return found
