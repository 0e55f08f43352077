"""The message of one delivery, from templates/notify/: of one finding, or of several of one kind that came together."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import F, Min, Sum
from django.template.loader import render_to_string
from django.utils.translation import override

from fleet.findings import cost, words
from fleet.findings.content import render
from fleet.findings.models import Finding, Transition
from fleet.inventory.models import Gpu
from fleet.notify import webhook
from fleet.notify.deliver import Kind, Message, service
from fleet.notify.models import Delivery
from fleet.notify.plain import INDENT, code, named
from fleet.verdicts import words as verdict_words
from fleet.verdicts.models import Verification

FIRST: Final = 5
"""Findings that a message about many of them names."""
EVIDENCE: Final = 8
"""Measured numbers that a message shows."""
CODE_LINES: Final = 16
"""Lines of a change that a message shows; the page shows all of it."""
_KIND: Final[dict[str, Kind]] = {"critical": "failure", "warn": "warning", "advice": "info", "info": "info"}

_VERDICT_KIND: Final[dict[str, Kind]] = {"helped": "success", "worse": "warning"}


def message(delivery: Delivery) -> Message:
    """Title and body of a delivery in the site's language: severity, place, numbers, the change, a link.

    Both are plain text; what machines named in them is made safe by `plain.named`, and a line of code begins with `plain.INDENT`.
    """
    transition = delivery.transition
    finding = transition.finding
    shares = Delivery.objects.filter(lead=delivery)
    others = shares.count()
    with override(settings.LANGUAGE_CODE):
        if transition.axis == "advice":
            return _verdict(delivery, finding, transition)
        context = _one(finding, transition) | {"delivery": delivery, "over": transition.after == "resolved"}
        if others:
            rows = shares.select_related("transition__finding__node").prefetch_related("transition__finding__gpus")
            dearest = F("transition__finding__gpu_hours_a_day").desc(nulls_last=True)  # they are of one rule and one severity
            shown = [finding, *(row.transition.finding for row in rows.order_by(dearest, "pk")[: FIRST - 1])]
            shown.sort(key=lambda one: -(one.gpu_hours_a_day or 0.0))
            of_all = shares.aggregate(
                since=Min("transition__finding__opened_at"), hours=Sum("transition__finding__gpu_hours_a_day")
            )
            hours = [one for one in (finding.gpu_hours_a_day, of_all["hours"]) if one is not None]
            nodes = set(shares.order_by().values_list("transition__finding__node", flat=True).distinct()) | {finding.node_id}
            context |= {
                "total": others + 1,
                "nodes": len(nodes - {None}),
                "shown": [{"where": _where(one, list(one.gpus.all())), "summary": named(render(one).summary)} for one in shown],
                "left": others + 1 - len(shown),
                "since": min(finding.opened_at, of_all["since"]),
                "cost": cost.sentence(sum(hours) if hours else None),
                "link": _link(f"/findings/?{urlencode(_filters(finding, transition, nodes))}"),
            }
        return Message(
            title=" ".join(render_to_string("notify/title.txt", context).split()),
            body=_tidy(render_to_string("notify/many.txt" if others else "notify/body.txt", context)),
            kind="success" if transition.after == "resolved" else _KIND.get(finding.severity, "info"),
            key=delivery.key,
            extras=webhook.extras(delivery) if service(delivery.route.url) in webhook.SCHEMES else None,
        )


def _verdict(delivery: Delivery, finding: Finding, transition: Transition) -> Message:
    """What was measured of advice that was applied."""
    row = Verification.objects.filter(finding=finding, verdict=transition.after).defer("before_samples", "after_samples").first()
    context = _one(finding, transition) | {
        "delivery": delivery,
        "severity": words.word(words.ADVICE, transition.after),
        "reason": named(verdict_words.reason(row)) if row else words.word(words.ADVICE, transition.after),
        "recovered": cost.total(row.recovered_gpu_hours) if row else "",
        "is_worse": transition.after == "worse",
    }
    return Message(
        title=" ".join(render_to_string("notify/title.txt", context).split()),
        body=_tidy(render_to_string("notify/verdict.txt", context)),
        kind=_VERDICT_KIND.get(transition.after, "info"),
        key=delivery.key,
    )


def _one(finding: Finding, transition: Transition) -> dict[str, Any]:
    """What the templates say of one finding, each part of it safe."""
    says = render(finding)
    gpus = list(finding.gpus.all())
    worse = transition.before == "firing" and transition.after == "firing"
    lines = [(step.kind, line) for step in says.change for line in code(step.text)]
    return {
        "title": named(says.title),
        "summary": named(says.summary),
        "severity": words.note(transition.note) if worse and transition.note else words.word(words.SEVERITY, finding.severity),
        "finding": finding,
        "transition": transition,
        "where": _where(finding, gpus),
        "node": named(finding.node) if finding.node else "",
        "job": named(finding.target) if finding.scope in ("job", "service") else "",
        "indices": ", ".join(str(gpu.index) for gpu in gpus),
        "gpus": [{"index": gpu.index, "model": named(gpu.model), "uuid": named(gpu.uuid)} for gpu in gpus],
        "since": finding.opened_at,
        "cost": cost.sentence(finding.gpu_hours_a_day),
        "lasted_s": (transition.at - finding.opened_at).total_seconds(),
        "note": "" if worse else named(words.note(transition.note)),
        "evidence": says.evidence[:EVIDENCE],
        "evidence_left": max(0, len(says.evidence) - EVIDENCE),
        "change": [line for _, line in lines[:CODE_LINES]],
        "change_left": max(0, len(lines) - CODE_LINES),
        "gain": says.expected_gain,
        "risk": named(says.risk),
        "rollback": named(says.rollback),
        "link": _link(f"/findings/{finding.pk}/"),
    }


def _where(finding: Finding, gpus: Sequence[Gpu]) -> str:
    """The target by the name that people use: a job's, a GPU's with its node's, or a node's."""
    if finding.scope in ("job", "service"):
        return named(finding.target)
    if not finding.node:
        return named(finding.target)
    return named(" ".join([finding.node.name, *(f"GPU {gpu.index}" for gpu in gpus[:1] if len(gpus) == 1)]))


def _filters(finding: Finding, transition: Transition, nodes: set[int | None]) -> dict[str, str]:
    """The query of the findings page that shows what a message about many is about."""
    asked = {"state": "resolved"} if transition.after == "resolved" else {}
    asked |= {"rule": finding.rule, "severity": finding.severity}
    return asked | ({"node": finding.node.name} if finding.node and len(nodes) == 1 else {})


def _link(path: str) -> str:
    """The page's address; "" where nobody said where the pages are."""
    base = settings.FETTLE_BASE_URL.rstrip("/")
    return f"{base}{path}" if base else ""


def _tidy(text: str) -> str:
    """The text with at most one empty line in a row and none at its ends; code keeps its own."""
    lines = [line if line.startswith(INDENT) else line.rstrip() for line in text.split("\n")]
    return "\n".join(line for number, line in enumerate(lines) if line or (number and lines[number - 1])).strip("\n")
