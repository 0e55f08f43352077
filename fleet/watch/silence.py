"""Nodes that have gone silent: one by one, or most of them at once, which speaks of the network or of this server and not of them.

A node is expected to be heard from once it was, until its agent is stopped in order or somebody works on it. Whoever was not
heard for a day before the watch began is nobody that it waits for.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.utils.translation import gettext_noop

from advisor.finding import Evidence
from fleet.jobs.models import Allocation
from fleet.watch.alerts import MAINTENANCE, Alerts
from fleet.watch.nodes import Watched

ALONE: Final = "node-silent"
MANY: Final = "many-nodes-silent"
EVERYBODY: Final = "nodes"
"""The target of MANY."""
LONG_GONE: Final = timedelta(days=1)
TOGETHER: Final = timedelta(seconds=60)
"""Nodes that fell silent within so much of each other did so together: their agents send every second, and books are kept every five."""
MOST: Final = 0.5
FEW: Final = 0.25
LEAST_NODES: Final = 4
"""Of fewer nodes "more than half" says nothing of a common cause."""
AT_ONCE: Final = 2_000
"""Findings that one look opens: of more the next looks open the rest, and nobody waits long for the database meanwhile."""
HEARD: Final = gettext_noop("The node is heard again.")
BYE: Final = gettext_noop("Its agent was stopped in order.")
MOST_HEARD: Final = gettext_noop("The nodes are heard again.")


def look(alerts: Alerts, nodes: Sequence[Watched], since: datetime) -> set[int]:
    """Open and end what silence says; the nodes that are heard now. Nothing opens within the grace after `since`."""
    limit_s = settings.FETTLE_NODE_SILENT_S
    known = alerts.of_rule(ALONE)
    heard = {one.pk for one in nodes if (for_s := one.silent_s(alerts.at)) is not None and for_s <= limit_s}
    _end(alerts, nodes, heard)
    waited_for = [one for one in nodes if _is_waited_for(one, since, str(one.pk) in known)]
    silent = [one for one in waited_for if one.pk not in heard]
    in_grace = (alerts.at - since).total_seconds() < settings.FETTLE_WATCH_GRACE_S
    _many(alerts, silent, len(waited_for), in_grace)
    if in_grace:
        return heard
    fresh = [one for one in silent if str(one.pk) not in known]
    held = _held({one.pk for one in silent})
    for one in fresh[:AT_ONCE]:
        _tell(alerts, one, one.pk in held, limit_s)
    for one in silent:
        if one.pk in held and str(one.pk) in known:
            _tell(alerts, one, True, limit_s)
    return heard


def _is_waited_for(one: Watched, since: datetime, is_open: bool) -> bool:
    if one.said_bye or one.maintenance or one.heard_at is None:
        return False
    return is_open or one.heard_at > since - LONG_GONE


def _end(alerts: Alerts, nodes: Sequence[Watched], heard: Collection[int]) -> None:
    known = alerts.of_rule(ALONE)
    for one in nodes:
        if str(one.pk) in known and (
            note := HEARD if one.pk in heard else BYE if one.said_bye else MAINTENANCE if one.maintenance else ""
        ):
            alerts.end(ALONE, str(one.pk), note)


def _many(alerts: Alerts, silent: Sequence[Watched], waited_for: int, in_grace: bool) -> None:
    """Tell that most nodes are silent, where they fell silent together; theirs follow from it (advisor/causes.py)."""
    share = len(silent) / waited_for if waited_for else 0.0
    if EVERYBODY in alerts.of_rule(MANY):
        if share <= FEW:
            alerts.end(MANY, EVERYBODY, MOST_HEARD)
        return
    times = sorted(one.heard_at for one in silent if one.heard_at is not None)
    together = sum(1 for at in times if at >= times[-1] - TOGETHER) if times else 0
    if in_grace or waited_for < LEAST_NODES or together <= MOST * waited_for:
        return
    params = {"silent": len(silent), "known": waited_for}
    evidence = (
        Evidence("silent_nodes", len(silent), "nodes", MOST * waited_for, ">"),
        Evidence("known_nodes", waited_for, "nodes"),
    )
    alerts.tell(MANY, EVERYBODY, params, evidence)


def _tell(alerts: Alerts, one: Watched, holds_a_job: bool, limit_s: float) -> None:
    silent_s = one.silent_s(alerts.at) or 0.0
    alerts.tell(
        ALONE,
        str(one.pk),
        {"silent_s": round(silent_s)},
        (Evidence("silent_s", round(silent_s), "seconds", limit_s, ">"),),
        node=one.pk,
        name=one.name,
        severity="critical" if holds_a_job else None,
    )


def _held(nodes: Collection[int]) -> set[int]:
    """Those on which a job holds something."""
    if not nodes:
        return set()
    rows = Allocation.objects.filter(until_at=None, node__isnull=False).exclude(job__source="processes")
    return {node for node in rows.order_by().values_list("node", flat=True).distinct() if node in nodes and node is not None}
