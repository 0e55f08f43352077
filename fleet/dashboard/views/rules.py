"""The catalogue of rules, and one rule in full: what, when, why, and what the site makes of it."""

from typing import Any, Final

from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from advisor import prose
from advisor.finding import SEVERITIES
from advisor.rule import Rule
from advisor.spelled import spelled
from fleet.accounts.models import User
from fleet.accounts.plain_text import is_plain
from fleet.dashboard import rule_words, words
from fleet.dashboard.listing import line
from fleet.dashboard.threshold_words import threshold_label
from fleet.dashboard.trials import shown
from fleet.findings import catalogue
from fleet.findings.catalogue import Entry
from fleet.findings.content import step, to_fill
from fleet.findings.models import Finding
from fleet.tuning import durations
from fleet.tuning.changes import MAY, TuneError, set_override, set_state, tried
from fleet.tuning.models import MATCHERS, STATES, Override, RuleChange, Trial
from fleet.tuning.own_rules import GROUPS, OwnRuleError

FINDINGS: Final = 20
CHANGES: Final = 50


@login_required
@require_safe
def rules(request: HttpRequest) -> HttpResponse:
    """The page `/rules/`: every rule, narrowed by the query string."""
    chosen = {name: request.GET.get(name, "").strip() for name in ("q", "group", "state", "kind")}
    entries = catalogue.entries()
    found = [one for one in entries if _matches(one, chosen)]
    return render(
        request,
        "dashboard/rules.html",
        {
            "section": "rules",
            "rows": [_row(one) for one in found],
            "total": len(found),
            "counts": [
                {"word": words.word(rule_words.STATE, state), "total": sum(one.state == state for one in entries)}
                for state in STATES
            ],
            "chosen": chosen if is_plain(chosen["q"]) else chosen | {"q": ""},
            "groups": [(slug, words.word(rule_words.GROUP, slug)) for slug in GROUPS],
            "states": [(slug, words.word(rule_words.STATE, slug)) for slug in STATES],
            "kinds": [(slug, words.word(rule_words.KIND, slug)) for slug in catalogue.KINDS],
            "may_tune": request.user.has_perm(MAY),
        },
    )


@login_required
@require_safe
def rule(request: HttpRequest, rule_id: str) -> HttpResponse:
    """The page `/rules/<id>/`."""
    entry = _entry(rule_id)
    overrides = list(Override.objects.filter(rule=entry.id))
    trial = Trial.objects.filter(rule=entry.own).first() if entry.own else None
    findings = Finding.objects.filter(rule=entry.id).select_related("node").prefetch_related("gpus").order_by("-opened_at", "-id")
    return render(
        request,
        "dashboard/rule.html",
        {
            "section": "rules",
            "entry": entry,
            **_row(entry),
            **_said(entry, overrides),
            "states": [
                {"slug": slug, "word": words.word(rule_words.STATE, slug), "means": rule_words.STATE_MEANS[slug]}
                for slug in STATES
            ],
            "matchers": [(slug, words.word(rule_words.MATCHER, slug)) for slug in MATCHERS],
            "overrides": [
                {
                    "row": row,
                    "label": threshold_label(row.threshold),
                    "where": row.pattern or words.word(rule_words.MATCHER, "site"),
                    "matcher": words.word(rule_words.MATCHER, row.matcher),
                    "value": rule_words.written(row.value, _unit(entry.rule, row.threshold)),
                }
                for row in overrides
            ],
            "changes": [
                {"row": row, "said": rule_words.change_said(row.what, row.before, row.after)}
                for row in RuleChange.objects.filter(rule=entry.id)[:CHANGES]
            ],
            "findings": [line(one, with_gpus=True) for one in findings[:FINDINGS]],
            "trial": shown(trial) if trial else None,
            "was_tried": entry.own is not None and tried(entry.own) is not None,
            "may_tune": request.user.has_perm(MAY),
        },
    )


@login_required
@permission_required(MAY, raise_exception=True)
@require_POST
def state(request: HttpRequest, rule_id: str) -> HttpResponse:
    """Set the rule's state, then show the rule again."""
    assert isinstance(request.user, User)  # noqa: S101 - login_required
    try:
        set_state(rule_id, request.POST.get("state", ""), request.user, request.POST.get("comment", "").strip())
    except (TuneError, OwnRuleError) as error:
        messages.warning(request, str(error))
    return redirect(f"{reverse('rule', args=[rule_id])}#state-title")


@login_required
@permission_required(MAY, raise_exception=True)
@require_POST
def override(request: HttpRequest, rule_id: str) -> HttpResponse:
    """Set one threshold, or take an override away, then show the rule again."""
    assert isinstance(request.user, User)  # noqa: S101 - login_required
    asked = {name: request.POST.get(name, "").strip() for name in ("threshold", "matcher", "pattern", "value", "comment")}
    try:
        set_override(
            rule_id,
            asked["threshold"],
            None if request.POST.get("remove") else _number(asked["value"]),
            request.user,
            matcher=asked["matcher"],
            pattern="" if asked["matcher"] == "site" else asked["pattern"],
            comment=asked["comment"],
        )
    except TuneError as error:
        messages.warning(request, str(error))
    return redirect(f"{reverse('rule', args=[rule_id])}#thresholds-title")


def _entry(rule_id: str) -> Entry:
    found = catalogue.entry(rule_id)
    if found is None:
        raise Http404
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise TuneError(gettext("“{text}” is no number; write it as 0.35.").format(text=text[:40])) from None


def _matches(entry: Entry, chosen: dict[str, str]) -> bool:
    asked = chosen["q"].casefold()
    if asked and asked not in entry.id and asked not in f"{entry.title} {entry.summary}".casefold():
        return False
    return all(not chosen[name] or getattr(entry, name) == chosen[name] for name in ("group", "state", "kind"))


def _row(entry: Entry) -> dict[str, Any]:
    """The words of one rule in a list."""
    return {
        "entry": entry,
        "outline": rule_words.outline(entry.summary),
        "group": words.word(rule_words.GROUP, entry.group),
        "kind": words.word(rule_words.KIND, entry.kind),
        "scope": words.word(words.SCOPE, entry.scope),
        "severity": words.word(words.SEVERITY, entry.severity) if entry.severity in SEVERITIES else "",
        "state": words.word(rule_words.STATE, entry.state),
        "bottleneck": words.word(words.BOTTLENECK, entry.bottleneck) if entry.bottleneck else "",
    }


def _said(entry: Entry, overrides: list[Override]) -> dict[str, Any]:
    """What the rule says: when, why, what to change, on what it rests; of a rule of events its own words."""
    site = {row.threshold: row.value for row in overrides if row.matcher == "site"}
    one, health = entry.rule, entry.health
    if one is None:
        texts: Any = health
        steps = [(change.kind, change.text) for change in health.change] if health else []
    else:
        texts = one
        steps = [(said.kind, said.text) for said in one.change]
    lines = [step(kind, rule_words.outline(text)) for kind, text in steps]
    return {
        "conditions": [{"word": rule_words.CONDITION[name], "sql": sql} for name, sql in (catalogue.when(entry, site)).items()],
        "needs": [
            {
                "names": [words.evidence(name) for name in need.features],
                "confidence": words.word(words.CONFIDENCE, need.confidence),
                "opens": spelled(need.opens, catalogue.in_words(one, site)) if one and need.opens is not None else "",
                "clears": spelled(need.clears, catalogue.in_words(one, site)) if one and need.clears is not None else "",
            }
            for need in (one.needs if one else ())
        ],
        "thresholds": [
            {
                "name": threshold.name,
                "label": threshold_label(threshold.name),
                "default": rule_words.written(threshold.default, threshold.unit),
                "low": f"{threshold.low:.12g}",
                "high": f"{threshold.high:.12g}",
                "site": rule_words.written(site[threshold.name], threshold.unit) if threshold.name in site else "",
            }
            for threshold in (durations.settable(one) if one else ())
        ],
        "why": _why(entry),
        "steps": [{"word": words.word(words.CHANGE_KIND, one.kind), "line": one} for one in lines],
        "to_fill": to_fill(lines),
        "gain": rule_words.outline(gettext(one.gain.basis)) if one and one.gain else "",
        "told": [
            (label, rule_words.outline(gettext(text), _in_force(one, site)))
            for label, text in (
                (gettext("Risk"), texts.risk if texts else ""),
                (gettext("To undo it"), texts.rollback if texts else ""),
                (gettext("How it will be verified"), texts.verify if texts else ""),
            )
            if text
        ],
        "sources": [words.source(source) for source in (one.sources if one else catalogue.sources_of(health) if health else ())],
        "yields_to": one.yields_to if one else (),
    }


def _in_force(rule: Rule | None, site: dict[str, float]) -> dict[str, float]:
    """The thresholds' values on the whole site, by the names that texts have for them."""
    values = {one.name: site.get(one.name, one.default) for one in (rule.thresholds if rule else ())}
    return values | {
        f"{name.removesuffix('_bytes')}_gib": value / (1 << 30) for name, value in values.items() if name.endswith("_bytes")
    }


def _why(entry: Entry) -> list[str]:
    """The paragraphs that tell why the rule stands where it does, in the active language."""
    return [gettext(part) for part in prose.why(entry.id)] if entry.kind == "shipped" else []


def _unit(rule: Rule | None, threshold: str) -> str:
    return next((one.unit for one in durations.settable(rule) if one.name == threshold), "") if rule else ""
