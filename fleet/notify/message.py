"""The message of one delivery, from templates/notify/: of one finding, of several of one kind, or of several kinds by number."""

from collections import Counter
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import F, Min, Q, QuerySet, Sum
from django.template.loader import render_to_string
from django.utils.translation import override

from advisor.finding import SEVERITIES
from fleet.findings import cost, words
from fleet.findings.content import render
from fleet.findings.models import Finding, Transition
from fleet.notify import webhook
from fleet.notify.ack_links import ack_link
from fleet.notify.alerts import SCHEMES, alerts, place
from fleet.notify.deliver import service
from fleet.notify.models import Delivery
from fleet.notify.note import Kind, Message
from fleet.notify.plain import INDENT, code, named
from fleet.verdicts import words as verdict_words
from fleet.verdicts.models import Verification

FIRST: Final = 5
"""Findings that a message about many of them names."""
KINDS: Final = 10
"""Kinds of findings that a digest counts by name."""
_EXPLAINED: Final = Q(resolved_at=None, condition__in=("firing", "noisy"))
EVIDENCE: Final = 8
"""Measured numbers that a message shows."""
CODE_LINES: Final = 16
"""Lines of a change that a message shows; the page shows all of it."""
_KIND: Final[dict[str, Kind]] = {"critical": "failure", "warn": "warning", "advice": "info", "info": "info"}

_VERDICT_KIND: Final[dict[str, Kind]] = {"helped": "success", "worse": "warning"}


def message(delivery: Delivery) -> Message:
    """Title and body of a delivery in its route's language: severity, place, numbers, the change, a link.

    Both are plain text; what machines named in them is made safe by `plain.named`, and a line of code begins with `plain.INDENT`.
    """
    transition = delivery.transition
    finding = transition.finding
    with override(delivery.route.language or settings.LANGUAGE_CODE):
        if transition.axis == "advice":
            return _verdict(delivery, finding, transition)
        context = _one(finding, transition) | {"delivery": delivery, "over": transition.after == "resolved"}
        others = Delivery.objects.filter(lead=delivery)
        shared = _shared(finding, transition, others) if others.exists() else {}
        context |= shared
        is_digest = shared.get("counts") is not None
        firing = transition.after != "resolved" or (is_digest and any(not row["over"] for row in shared["counts"]))
        scheme = service(delivery.route.url)
        return _message(
            delivery,
            context | {"ack": ack_link(delivery) if firing else ""},
            "digest" if is_digest else "many" if shared else "body",
            "success" if not firing else _KIND.get(shared.get("severest", finding.severity), "info"),
            extras=webhook.extras(delivery) if scheme in webhook.SCHEMES else None,
            alerts=alerts(delivery) if scheme in SCHEMES else (),
        )


def _message(delivery: Delivery, context: dict[str, Any], template: str, kind: Kind, **more: Any) -> Message:
    """The message, by its templates."""

    def line(name: str, **more: str) -> str:
        return " ".join(render_to_string(f"notify/{name}.txt", context | more).split())

    title = line("digest_title" if template == "digest" else "title")
    return Message(
        title=title,
        body=_tidy(render_to_string(f"notify/{template}.txt", context)),
        kind=kind,
        key=delivery.key,
        short=line("short", line=title),
        link=context["link"],
        notice=line("_repeat"),
        tail=_tidy(render_to_string("notify/_end.txt", context)),
        **more,
    )


def _shared(finding: Finding, transition: Transition, others: QuerySet[Delivery]) -> dict[str, Any]:
    """What the templates say of several findings in one message: of one kind, or of several kinds by number."""
    total = others.count() + 1
    alike = {
        "transition__finding__rule": finding.rule,
        "transition__finding__severity": finding.severity,
        "transition__after": transition.after,
        "transition__before": transition.before,
    }
    nodes = set(others.order_by().values_list("transition__finding__node", flat=True).distinct()) | {finding.node_id}
    context: dict[str, Any] = {"total": total, "nodes": len(nodes - {None})}
    if others.exclude(**alike).exists():
        return context | _digest(finding, transition, others, nodes)
    rows = others.select_related("transition__finding__node").prefetch_related("transition__finding__gpus")
    dearest = F("transition__finding__gpu_hours_a_day").desc(nulls_last=True)  # they are of one rule and one severity
    shown = [finding, *(row.transition.finding for row in rows.order_by(dearest, "pk")[: FIRST - 1])]
    shown.sort(key=lambda one: -(one.gpu_hours_a_day or 0.0))
    of_all = others.aggregate(since=Min("transition__finding__opened_at"), hours=Sum("transition__finding__gpu_hours_a_day"))
    hours = [one for one in (finding.gpu_hours_a_day, of_all["hours"]) if one is not None]
    explained = Finding.objects.filter(_EXPLAINED, Q(cause=finding) | Q(cause__transitions__deliveries__in=others)).distinct()
    return context | {
        "shown": [{"where": place(one), "summary": named(render(one).summary)} for one in shown],
        "left": total - len(shown),
        "since": min(finding.opened_at, of_all["since"]),
        "cost": cost.sentence(sum(hours) if hours else None),
        "consequences": [],
        "consequences_total": explained.count(),
        "note": "" if others.exclude(transition__note=transition.note).exists() else words.note(transition.note),
        "link": _link(f"/findings/?{urlencode(_filters(finding, transition, nodes))}"),
    }


def _digest(finding: Finding, transition: Transition, others: QuerySet[Delivery], nodes: set[int | None]) -> dict[str, Any]:
    """How many of each rule, severity and state, the severest first; the link shows them."""
    found = Counter({(finding.rule, finding.severity, transition.after == "resolved"): 1})
    for rule, severity, after in others.order_by().values_list(
        "transition__finding__rule", "transition__finding__severity", "transition__after"
    ):
        found[rule, severity, after == "resolved"] += 1
    titles = {finding.rule: named(render(finding).title)}
    for rule in {rule for rule, _, _ in found} - titles.keys():
        example = others.filter(transition__finding__rule=rule).select_related("transition__finding").first()
        titles[rule] = named(render(example.transition.finding).title) if example else rule
    order = sorted(found, key=lambda one: (one[2], -SEVERITIES.index(one[1]) if one[1] in SEVERITIES else 0, -found[one], one[0]))
    firing = [severity for _, severity, over in order if not over]
    asked = {"node": finding.node.name} if finding.node and len(nodes) == 1 else {}
    return {
        "counts": [
            {"total": found[key], "title": titles[key[0]], "severity": words.word(words.SEVERITY, key[1]), "over": key[2]}
            for key in order[:KINDS]
        ],
        "counts_left": sum(found[key] for key in order[KINDS:]),
        "kinds": len({rule for rule, _, _ in found}),
        "ended": sum(number for (_, _, over), number in found.items() if over),
        "severest": firing[0] if firing else finding.severity,
        "severity": words.word(words.SEVERITY, firing[0]) if firing else "",
        "link": _link(f"/findings/{'?' if asked else ''}{urlencode(asked)}"),
    }


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
    return _message(delivery, context, "verdict", _VERDICT_KIND.get(transition.after, "info"))


def _one(finding: Finding, transition: Transition) -> dict[str, Any]:
    """What the templates say of one finding, each part of it safe."""
    says = render(finding)
    gpus = list(finding.gpus.all())
    worse = transition.before == "firing" and transition.after == "firing"
    lines = [(step.kind, line) for step in says.change for line in code(step.text)]
    explained = Finding.objects.filter(_EXPLAINED, cause=finding).select_related("node").order_by("-severity_rank", "opened_at")
    return {
        "title": named(says.title),
        "summary": named(says.summary),
        "severity": words.note(transition.note) if worse and transition.note else words.word(words.SEVERITY, finding.severity),
        "finding": finding,
        "transition": transition,
        "where": place(finding),
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
        "cause": _named(finding.cause) if finding.cause else None,
        "consequences": [_named(one) for one in explained[:FIRST]],
        "consequences_total": explained.count(),
        "consequences_left": max(0, explained.count() - FIRST),
    }


def _named(finding: Finding) -> dict[str, str]:
    """A finding that another names: where and what, and its page."""
    return {"where": place(finding), "title": named(render(finding).title), "link": _link(f"/findings/{finding.pk}/")}


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
