"""What a JSON webhook gets beside title and message, so that a program need not read sentences: the findings, as data."""

from typing import Any, Final

from fleet.findings.models import Transition
from fleet.findings.targets import names
from fleet.notify.models import Delivery

SCHEMES: Final = ("json", "jsons")
"""Of Apprise's URLs, those whose receivers are programs."""
MOST: Final = 500
"""Findings in one request; `findings_total` counts all."""


def extras(delivery: Delivery) -> dict[str, Any]:
    """Fields of the body beside title and message. The key is the same when the request comes again, and `may_repeat` says that it may have."""
    rows = [delivery.transition, *(one.transition for one in _others(delivery)[: MOST - 1])]
    return {
        "event": _event(delivery.transition),
        "kind": delivery.kind,
        "key": delivery.key,
        "may_repeat": delivery.may_repeat,
        "findings_total": 1 + _others(delivery).count(),
        "findings": [_finding(row) for row in rows],
    }


def _others(delivery: Delivery) -> Any:
    shares = Delivery.objects.filter(lead=delivery).order_by("pk")
    return shares.select_related("transition__finding__node").prefetch_related("transition__finding__gpus")


def _event(transition: Transition) -> str:
    """opened, worse, noisy or resolved; of what was measured of advice, the verdict."""
    if transition.axis == "advice" or transition.after in ("resolved", "noisy"):
        return transition.after
    return "worse" if transition.before == "firing" else "opened"


def _finding(transition: Transition) -> dict[str, Any]:
    row = transition.finding
    return {
        "id": row.pk,
        "fingerprint": row.fingerprint,
        "rule": row.rule,
        "severity": row.severity,
        "scope": row.scope,
        "target": row.target,
        "target_name": names([(row.scope, row.target)])[row.scope, row.target],
        "node": None if row.node is None else row.node.name,
        "gpus": [{"gpu": gpu.pk, "index": gpu.index, "uuid": gpu.uuid} for gpu in row.gpus.all()],
        "condition": transition.after,
        "at": transition.at.isoformat(),
        "opened_at": row.opened_at.isoformat(),
        "cause": row.cause_id,
    }
