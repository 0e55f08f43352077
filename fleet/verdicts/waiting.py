"""Advice that was applied becomes a row that waits, with what was measured before it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db.models import Exists, OuterRef

from advisor.job_family import job_family
from advisor.verification.stretch import Stretch
from fleet.findings.models import Diagnosis, Finding, Transition
from fleet.inventory.models import Gpu
from fleet.slow.models import JobRun
from fleet.verdicts.models import Verification
from fleet.verdicts.serving import engine_of
from fleet.verdicts.serving import read as read_engine
from fleet.verdicts.stretches import packed, read

AT_ONCE: Final = 100
JUST_NOW: Final = timedelta(minutes=2)
"""A time that was told and is older is when it was applied, and not when somebody said so."""
COUNTED: Final = timedelta(minutes=2)
"""A run that goes on was seen last so long ago: its minutes are counted when they are over."""
MOST_GPUS: Final = 64
"""Of one side; a job of more is compared by so many of them."""


@dataclass(frozen=True, slots=True)
class Before:
    """What a finding was made of, as far as a verdict asks."""

    family: str
    cards: list[Gpu]
    start: datetime
    end: datetime
    told: Mapping[str, str]


def begin(now: datetime) -> int:
    """Make a row of each advice that is applied and has none; how many. StoreError when the store cannot be read."""
    known = Verification.objects.filter(finding=OuterRef("pk"))
    rows = Finding.objects.filter(~Exists(known), advice="applied").select_related("node").order_by("pk")[:AT_ONCE]
    for finding in rows:
        said = Transition.objects.filter(finding=finding, axis="advice", after="applied").order_by("pk").last()
        at = said.at if said else now
        wait(finding, at if now - at > JUST_NOW else _began(finding, at), now)
    return len(rows)


def _began(finding: Finding, said_at: datetime) -> datetime:
    """When what somebody has just said began: with the run in which the trouble was never seen, where there is one already.

    People change a program, start it, and then say that they did.
    """
    if finding.scope != "job":
        return said_at
    before = before_of(finding, said_at)
    runs = JobRun.objects.filter(program=before.family, first_seen__gte=finding.last_seen_at, first_seen__lte=said_at)
    run = runs.order_by("first_seen").first()
    return run.first_seen if run else said_at


def wait(finding: Finding, applied_at: datetime, now: datetime, *, by_advisor: bool = False) -> Verification:
    """The row of one finding whose advice was applied."""
    before = before_of(finding, applied_at)
    gain: dict[str, Any] = (finding.content.get("expected_gain") or {}) if isinstance(finding.content, dict) else {}
    stretch = stretch_before(finding, before)
    row = Verification(
        finding=finding,
        rule=finding.rule,
        scope=finding.scope,
        target=finding.target,
        family=before.family,
        applied_at=applied_at,
        by_advisor=by_advisor,
        due_at=max(applied_at, now) + timedelta(days=settings.FETTLE_VERIFY_WAIT_D),
        gpus=len(before.cards),
        gpu_model=before.cards[0].model if before.cards else "",
        told=dict(before.told),
        promised_low=gain.get("low"),
        promised_high=gain.get("high"),
        rollback=finding.content.get("rollback") or {} if isinstance(finding.content, dict) else {},
    )
    if stretch is not None:
        row.before_from, row.before_until, row.before_samples = before.start, before.end, packed(stretch)
        row.before_side = {"phases": list(stretch.phases), "others": stretch.others, "program": stretch.program}
        if finding.scope == "fleet":
            row.before_side["gpus"] = [card.pk for card in before.cards]
    row.save()
    return row


def before_of(finding: Finding, applied_at: datetime) -> Before:
    """Where and when to look for what was before: the newest time in which the finding was seen, at most the span of a verdict."""
    cards = list(finding.gpus.select_related("node").order_by("pk")[:MOST_GPUS])
    if not cards and finding.node is not None:
        cards = list(finding.node.gpus.filter(present=True).select_related("node").order_by("pk")[:MOST_GPUS])
    end = min(applied_at, finding.last_seen_at)
    seen_since = finding.opened_at - timedelta(seconds=settings.FETTLE_ADVISOR_WINDOW_S)
    start = max(end - timedelta(seconds=settings.FETTLE_VERIFY_SPAN_S), min(seen_since, end))
    family, told = "", {}
    if finding.scope == "job":
        run = JobRun.objects.filter(job=finding.target, first_seen__lte=end).order_by("-last_seen").first()
        family = run.program if run else job_family(finding.target, finding.node.name if finding.node else None)
        told = {name: text for name, text in run.told.items() if isinstance(text, str)} if run else {}
    elif finding.scope == "fleet":
        cards = _sufferers(finding, start, end)
    return Before(family, cards, start, end, told)


def _sufferers(finding: Finding, start: datetime, end: datetime) -> list[Gpu]:
    """The GPUs of the jobs that a finding on the whole fleet is of: those that its bottleneck held back at that time."""
    jobs = Diagnosis.objects.filter(scope="job", bottleneck=finding.bottleneck or "", window_end__gt=start, window_start__lt=end)
    runs = JobRun.objects.filter(job__in=jobs.order_by().values("target"), first_seen__lte=start, last_seen__gte=end - COUNTED)
    held = sorted({gpu for gpus in runs.order_by("pk").values_list("gpu_ids", flat=True)[:MOST_GPUS] for gpu in gpus})
    return list(Gpu.objects.filter(pk__in=held[:MOST_GPUS]).select_related("node").order_by("pk"))


def stretch_before(finding: Finding, before: Before) -> Stretch | None:
    """What was measured before; None where nothing was stored, or nobody knows of which GPUs it would be."""
    if finding.scope == "service":
        engine = engine_of(finding)
        model = before.cards[0].model if before.cards else ""
        return read_engine(engine, before.start, before.end, model, len(before.cards)) if engine is not None else None
    if not before.cards:
        return None
    return read(before.cards, before.start, before.end, before.family, before.told, finding.target)
