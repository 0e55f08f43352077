"""Changes that nobody told of: a later run of the family that carries what the advice asks for.

Claimed is only what can be seen: flags and variables that the advice names with a value, which the run before had otherwise; or the
finding is over, its rule found nothing in the later run, on as many GPUs of the same model, and the share of time that it named has
halved. What was changed in the program then, nobody can say: the note says so.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.utils.translation import gettext_noop

from fleet.findings.concluded import apply_seen
from fleet.findings.models import Diagnosis, Finding
from fleet.slow.models import JobRun
from fleet.slow.runs import ACTIVE
from fleet.verdicts.waiting import wait
from wire.labels import FLAG_NAMES

LATELY: Final = timedelta(days=7)
"""A finding that ended longer ago is not looked after."""
AT_ONCE: Final = 200
BY_FLAGS: Final = gettext_noop("a later run carries what the advice names")
BY_CONDITION: Final = gettext_noop("in a later run the trouble is gone; what was changed was not told")

_FLAG: Final = re.compile(r"(?<![\w-])--([A-Za-z][A-Za-z0-9_-]*)(?:[= ]([A-Za-z0-9][A-Za-z0-9._+-]*))?(?![\w$({-])")
_VARIABLE: Final = re.compile(r"(?<![\w-])([A-Z][A-Z0-9_]{2,})=([A-Za-z0-9][A-Za-z0-9._:,+-]*)(?![\w$({])")


def asked(change: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The labels that the steps ask for, by name: flags and variables that stand there with a value. Placeholders ask for nothing."""
    found: dict[str, str] = {}
    for step in change:
        kind, text = step.get("kind"), re.sub(r"\s#.*", "", str(step.get("text", "")), flags=re.MULTILINE)
        if kind == "flag":
            for name, value in _FLAG.findall(text):
                plain = name.lower().replace("_", "-")
                found[f"flag.{FLAG_NAMES.get(plain, plain)}"] = value.lower() or "true"
        elif kind == "env":
            found |= {f"env.{name}": value for name, value in _VARIABLE.findall(text)}
    return found


def carried(change: Iterable[Mapping[str, Any]], before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Names of what the advice asks for that the run after has, and the run before had otherwise or not at all."""
    return [
        name
        for name, value in asked(change).items()
        if after.get(name, "").lower() == value.lower() and before.get(name, "").lower() != value.lower()
    ]


def look(now: datetime) -> int:
    """Mark as applied what later runs show to be; how many. StoreError when the store cannot be read."""
    rows = list(
        Finding.objects.filter(scope="job", shadow=False, advice__in=("proposed", "accepted"), last_seen_at__gte=now - LATELY)
        .exclude(severity="info")
        .select_related("node")
        .order_by("-last_seen_at", "pk")[:AT_ONCE]
    )
    if not rows:
        return 0
    before = _runs_before(rows)
    later = _later({run.program for run in before.values()}, now)
    count = 0
    for row in rows:
        was = before.get(row.pk)
        if was is None:
            continue
        run = next((one for one in later[was.program] if one.pk != was.pk and one.first_seen >= row.last_seen_at), None)
        note = _why(row, was, run, now) if run is not None else ""
        if run is None or not note:
            continue
        if apply_seen(row, run.first_seen, note):
            wait(row, run.first_seen, now, by_advisor=True)
            count += 1
    return count


def _runs_before(rows: Sequence[Finding]) -> dict[int, JobRun]:
    """The run in which each finding was seen."""
    runs: dict[str, list[JobRun]] = defaultdict(list)
    for run in JobRun.objects.filter(job__in={row.target for row in rows}).order_by("-last_seen"):
        runs[run.job].append(run)
    found = ((row.pk, next((run for run in runs[row.target] if run.first_seen <= row.last_seen_at), None)) for row in rows)
    return {pk: run for pk, run in found if run is not None}


def _later(families: Iterable[str], now: datetime) -> dict[str, list[JobRun]]:
    found: dict[str, list[JobRun]] = defaultdict(list)
    for run in JobRun.objects.filter(program__in=set(families), first_seen__gte=now - LATELY).order_by("first_seen"):
        found[run.program].append(run)
    return found


def _why(row: Finding, was: JobRun, run: JobRun, now: datetime) -> str:
    """The note of the transition; "" where nothing shows that the change was made."""
    content: dict[str, Any] = row.content if isinstance(row.content, dict) else {}
    if carried(content.get("change") or (), was.told, run.told):
        return BY_FLAGS
    warm = timedelta(seconds=settings.FETTLE_ADVISOR_PATIENCE_S + settings.FETTLE_ADVISOR_WINDOW_S)
    judged = run.last_seen >= run.first_seen + warm
    if row.resolved_at is None or not judged or (was.gpu_model, was.gpus) != (run.gpu_model, run.gpus):
        return ""
    again = Finding.objects.filter(rule=row.rule, scope="job", target=run.job, last_seen_at__gte=run.first_seen)
    return BY_CONDITION if row.bottleneck and not again.exists() and _is_gone(row, run, now) else ""


def _is_gone(row: Finding, run: JobRun, now: datetime) -> bool:
    """True where the later run was diagnosed by itself and its bottleneck, the finding's, has less than half of the share it had."""
    seen = Diagnosis.objects.filter(scope="job", target=run.job, window_start__gte=run.first_seen, bottleneck__gt="").first()
    if seen is None or run.last_seen < now - ACTIVE:
        return False
    named = {line.get("name"): line.get("value") for line in row.content.get("evidence") or ()}
    share = named.get(f"share_{row.bottleneck}")
    if not isinstance(share, float) or seen.bottleneck == row.bottleneck:
        return False
    return bool(seen.shares.get(row.bottleneck, 0.0) < share / 2)
