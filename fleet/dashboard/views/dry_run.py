"""Where an alert would go: the dry run, route by route."""

from typing import Any, Final

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from advisor.finding import SEVERITIES
from fleet.accounts.plain_text import REFUSED, is_plain
from fleet.dashboard import alert_words, words
from fleet.findings.content import render as said
from fleet.findings.models import Finding
from fleet.notify import dry_run
from fleet.notify.dry_run import Way
from fleet.notify.matchers import LONGEST, Labels
from fleet.notify.models import LABELS

AFTERS: Final = ("firing", "resolved")


@login_required
@require_safe
def try_it(request: HttpRequest) -> HttpResponse:
    """The page `/alerts/routes/try/`: what each route would do with a finding, or with an alert of these labels. Nothing is written or sent."""
    asked = {name: request.GET.get(name, "").strip() for name in ("finding", "after", *LABELS)}
    after = asked["after"] if asked["after"] in AFTERS else "firing"
    labels: Labels = {label: (asked[label],) for label in LABELS if asked[label]}
    finding, ways, wrong = None, None, ""
    if asked["finding"]:
        key = asked["finding"]
        rows = Finding.objects.select_related("node", "cause")
        finding = rows.filter(pk=int(key)).first() if key.isdecimal() and len(key) < 19 else None
        if finding is None:
            wrong = gettext("There is no finding of this number.")
        else:
            labels, ways = dry_run.of_finding(finding, timezone.now(), after)
    elif labels:
        if not all(is_plain(value[0]) and len(value[0]) <= LONGEST for value in labels.values()):
            wrong, labels = str(REFUSED), {}
        elif asked["severity"] and asked["severity"] not in SEVERITIES:
            wrong = gettext("severity is one of: {words}.").format(words=", ".join(SEVERITIES))
        else:
            ways = dry_run.of_labels(labels, timezone.now(), after)
    context = {
        "section": "alerts",
        "part": "routes",
        "asked": asked if not wrong else asked | {name: value for name, value in asked.items() if is_plain(value)},
        "after": after,
        "wrong": wrong,
        "finding": finding,
        "title": said(finding).title if finding else "",
        "ways": None if ways is None else [_way(one) for one in ways],
        "getting": sum(one.decision.what == "told" for one in ways or ()),
        "told_labels": [(words.word(alert_words.LABEL, label), ", ".join(values)) for label, values in labels.items()],
        "fields": [
            {"name": label, "word": words.word(alert_words.LABEL, label), "value": asked[label] if is_plain(asked[label]) else ""}
            for label in LABELS
            if label != "severity"
        ],
        "severities": [(slug, words.word(words.SEVERITY, slug)) for slug in SEVERITIES],
    }
    return render(request, "dashboard/try.html", context, status=400 if wrong else 200)


def _way(one: Way) -> dict[str, Any]:
    """What a route would do, in words."""
    return {
        "way": one,
        "what": words.word(alert_words.WHAT, one.decision.what),
        "why": str(one.decision.why or ""),
        "group": [(words.word(alert_words.LABEL, label), value or "–") for label, value in one.group.items()],
        "held": one.decision.not_before is not None,
    }
