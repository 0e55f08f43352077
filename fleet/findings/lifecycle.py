"""Opens, refreshes and closes findings; every change of state is a Transition row.

The condition follows telemetry. It fires after two judgements in a row that saw it (a critical one at once) and
resolves after two that saw it clear, over a whole window of steady work (steady.py). No judgement, because the node is stale,
its driver hangs, a metric is missing or the job only just started, changes nothing. A judgement is known by the end of its
window: judging one window twice, or an older window, does nothing.
A job that is not there is no judgement either: it may be restarting. Only one that stays away has ended, and its findings with it; where
its scheduler says that it has ended, they end at once.
One that opens for the fourth time within an hour is noisy: nobody is told of it until it has kept still for a while. What ended
with its job does not count as an opening.

The advice follows people: proposed, accepted or dismissed, applied; the verdict on what was applied is measured.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from django.db import IntegrityError, transaction
from django.db.models import Exists, Max, OuterRef
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from advisor.finding import SEVERITIES
from advisor.finding import Finding as Found
from fleet.accounts.models import User
from fleet.findings import opened, permitted
from fleet.findings.content import as_content
from fleet.findings.models import Finding, Transition
from fleet.findings.permitted import Permitted
from fleet.findings.rows import update
from fleet.findings.signals import transitions_written

CONFIRM: Final = 2
"""Judgements in a row before it fires, and before it resolves."""
FLAP_OPENINGS: Final = 4
FLAP_SPAN: Final = timedelta(hours=1)
QUIET: Final = timedelta(minutes=15)
"""How long a noisy finding must keep still: firing all the while, or clear all the while."""
JOB_GRACE: Final = timedelta(minutes=10)
"""How long a job may be away, from when its finding was last seen, and come back as the same: crash, queue and start take minutes."""
JOB_ENDED: Final = gettext_noop("the job ended")
SERVICE_ENDED: Final = gettext_noop("the service ended")
"""The notes of the transitions that resolve a finding because its job or service stayed away."""
EVENT_QUIET: Final = timedelta(days=1)
"""How long a device must run without a repeat before what an event reported counts as clear, unless its rule says."""

_COME_AND_GO: Final = ("job", "service")

MOVES: Final[Mapping[str, tuple[str, ...]]] = {
    "proposed": ("accepted", "dismissed", "applied"),
    "accepted": ("applied", "dismissed"),
    "dismissed": ("proposed",),
}
"""What people may make of advice; the verdicts after `applied` are measured, not given."""

Target: TypeAlias = tuple[str, str]  # scope, key


class MoveError(Exception):
    """The advice cannot go from where it is to where somebody wants it; the message says where it can go."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a target lives."""

    node: int | None
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """What one fresh window judged: these targets, by these rules, less the pairs that lacked a metric."""

    rules: Collection[str] = frozenset()
    targets: Collection[Target] = frozenset()
    missing: Collection[tuple[str, str]] = frozenset()  # rule, target
    fresh_nodes: Collection[int] = frozenset()
    gpus: Collection[int] = frozenset()  # that gave values, and whose holders are known
    quiet: Mapping[str, timedelta] = field(default_factory=dict)  # by rule, for what events reported
    resting: Collection[Target] = frozenset()  # jobs of which no GPU worked
    unused: Collection[Target] = frozenset()  # jobs that hold GPUs, on which no process was listed
    over: Collection[Target] = frozenset()  # jobs that are not there, and of which their scheduler told the end
    may: Permitted | None = None  # None: every rule may say what it likes

    def is_gone(self, row: Finding, gpus: Collection[int]) -> bool:
        """True for a job's or service's finding when node and every GPU of it, `gpus`, report, who holds them is known, and it does not.

        A job that still has its GPUs and runs nothing there is gone too, but for what idleness itself was found by.
        """
        if row.scope not in _COME_AND_GO or row.origin == "event":
            return False
        if (row.scope, row.target) in self.targets:
            return (row.scope, row.target) in self.unused and row.bottleneck != "idle"
        return row.node_id in self.fresh_nodes and all(gpu in self.gpus for gpu in gpus)

    def saw_clear(self, row: Finding, at: datetime) -> bool:
        """True when the window shows that the trouble of the row is over; silence alone does not."""
        present = (row.scope, row.target) in self.targets
        if row.origin == "event":
            return present and at - row.last_seen_at >= self.quiet.get(row.rule, EVENT_QUIET)
        # One that does nothing shows no more than one that is away: it may be starting.
        if (row.scope, row.target) in self.resting and row.bottleneck != "idle" and at - row.last_seen_at < JOB_GRACE:
            return False
        return present and row.rule in self.rules and (row.rule, row.target) not in self.missing


def reconcile(at: datetime, found: Sequence[Found], judged: Judged, places: Mapping[Target, Place]) -> list[Transition]:
    """Bring the rows to what the window that ended `at` shows; the transitions that were written."""
    try:
        return _reconcile(at, found, judged, places)
    except IntegrityError:  # another worker opened one of them between our look and our write
        return _reconcile(at, found, judged, places)


def _reconcile(at: datetime, found: Sequence[Found], judged: Judged, places: Mapping[Target, Place]) -> list[Transition]:
    seen = {one.fingerprint: one for one in found}
    with transaction.atomic():
        book = _Book(at)
        rows = list(Finding.objects.select_for_update().filter(resolved_at=None).defer(*_UNREAD))
        held = _held([row.pk for row in rows if row.scope in _COME_AND_GO and (row.scope, row.target) not in judged.targets])
        for row in rows:
            one = seen.pop(row.fingerprint, None)
            if row.judged_at is not None and row.judged_at >= at:
                continue
            if judged.may is not None and (why := judged.may.why_not(row)):
                book.ends(row, why)
                continue
            if one is not None:
                before = row.severity
                rose = _refresh(row, one, at)
                book.saw(row)
                if rose and row.condition == "firing":
                    book.moves(row, "firing", f"{before} -> {row.severity}")
            elif judged.saw_clear(row, at):
                book.saw_clear(row)
            elif (row.scope, row.target) in judged.over and row.origin != "event":
                book.ends(row, JOB_ENDED)
            elif at - row.last_seen_at >= JOB_GRACE and judged.is_gone(row, held.get(row.pk, ())):
                book.ends(row, JOB_ENDED if row.scope == "job" else SERVICE_ENDED)
        for one in _news(at, seen):
            place = places.get((one.scope, one.target), Place(None))
            opening = _row(one, at, place)
            opening.shadow = judged.may is not None and one.rule in judged.may.shadow
            book.opens(opening, place.gpus)
        return book.write()


def withdraw(at: datetime, may: Permitted) -> list[Transition]:
    """End the open findings that their rules may not keep open any more; the transitions that were written."""
    with transaction.atomic():
        book = _Book(at)
        for row in Finding.objects.select_for_update().filter(resolved_at=None):
            if why := may.why_not(row):
                book.ends(row, why)
        return book.write()


def report(
    at: datetime, found: Found, place: Place, *, count: int = 1, since: datetime | None = None, shadow: bool = False
) -> Finding:
    """The finding that `count` events from `since` to `at` belong to: opened, or merged into the one that is open.

    Events older than the end of the last such finding join that one and open nothing.
    """
    with transaction.atomic():
        same = Finding.objects.select_for_update().filter(fingerprint=found.fingerprint)
        row = same.filter(resolved_at=None).first() or same.filter(resolved_at__gte=at).order_by("-resolved_at").first()
        book = _Book(at)
        if row is None:
            row = _row(found, at, place)
            row.origin, row.seen_total, row.opened_at, row.shadow = "event", count, since or at, shadow
            book.opens(row, place.gpus)
        elif row.resolved_at is None:
            _refresh(row, found, max(at, row.last_seen_at), count)
            row.origin = "event"
            book.saw(row)
        else:
            row.seen_total += count
            book.changed.append(row)
        book.write()
    return row


def end(fingerprint: str, at: datetime, note: str) -> bool:
    """Resolve an open finding on one certain word, such as a lost GPU that is back; False when there is none."""
    with transaction.atomic():
        row = Finding.objects.select_for_update().filter(fingerprint=fingerprint, resolved_at=None, last_seen_at__lte=at).first()
        if row is None:
            return False
        book = _Book(at)
        book.ends(row, note)
        book.write()
    return True


def advise_transition(
    finding: Finding, after: str, user: User | None, note: str = "", *, at: datetime | None = None
) -> Transition:
    """Move the advice to `after` on a person's word; `at`: when it was applied, where that was before now.

    MoveError when the finding has ended, the advice cannot go there, or somebody moved it first. What was applied may be told of a
    finding that has ended: to apply a change a job is often restarted, and its finding ends with it.
    """
    before = finding.advice
    if finding.resolved_at is not None and not (after == "applied" and after in MOVES.get(before, ())):
        raise MoveError(gettext("The finding has ended; its advice stays {before}.").format(before=before))
    allowed = MOVES.get(before, ())
    if after not in allowed:
        can = gettext("The advice is {before}; it can become one of: {after}.") if allowed else gettext("The advice is {before}.")
        raise MoveError(can.format(before=before, after=", ".join(allowed)))
    with transaction.atomic():
        still = Finding.objects.filter(pk=finding.pk, advice=before)
        if after != "applied":
            still = still.filter(resolved_at=None)
        if not still.update(advice=after):
            raise MoveError(gettext("Somebody else changed the advice meanwhile, or the finding ended; look again."))
        written = Transition.objects.create(
            finding=finding, axis="advice", before=before, after=after, at=at or timezone.now(), by=user, note=note[:500]
        )
    finding.advice = after
    return written


def _refresh(row: Finding, one: Found, at: datetime, count: int = 1) -> bool:
    """Take over what is said now, and tell whether its severity rose. An event's words stay while a rule agrees."""
    row.last_seen_at = at
    row.seen_total += count
    if row.origin == "event" and not any(line.name == "xid" for line in one.evidence):
        return False
    rose = SEVERITIES.index(one.severity) > row.severity_rank
    row.severity, row.severity_rank = one.severity, SEVERITIES.index(one.severity)
    row.bottleneck = one.bottleneck or ""
    row.confidence = one.confidence
    row.recoverable = one.recoverable
    row.gpus_total, row.gpu_hours_a_day = one.gpus, one.gpu_hours_a_day
    row.content = as_content(one)
    return rose


def _row(one: Found, at: datetime, place: Place) -> Finding:
    return Finding(
        fingerprint=one.fingerprint,
        rule=one.rule,
        severity=one.severity,
        severity_rank=SEVERITIES.index(one.severity),
        scope=one.scope,
        target=one.target,
        node_id=place.node,
        bottleneck=one.bottleneck or "",
        confidence=one.confidence,
        recoverable=one.recoverable,
        gpus_total=one.gpus,
        gpu_hours_a_day=one.gpu_hours_a_day,
        content=as_content(one),
        opened_at=at,
        last_seen_at=at,
    )


def _held(jobs: Sequence[int]) -> Mapping[int, list[int]]:
    """The GPUs of these findings."""
    held: dict[int, list[int]] = defaultdict(list)
    if jobs:
        through = Finding.gpus.through
        for finding, gpu in through.objects.filter(finding__in=jobs).values_list("finding_id", "gpu_id"):
            held[finding].append(gpu)
    return held


def _news(at: datetime, seen: Mapping[str, Found]) -> Iterable[Found]:
    """What has no open row, less what a newer window has closed: late data opens nothing again."""
    ended = dict(
        Finding.objects.filter(fingerprint__in=list(seen), resolved_at__gte=at)
        .values_list("fingerprint")
        .annotate(newest=Max("resolved_at"))
    )
    return (one for fingerprint, one in seen.items() if fingerprint not in ended)


def _tell() -> None:
    transitions_written.send(sender=None)


_UNREAD: Final = ("content", "confidence", "recoverable", "advice", "opened_at", "resolved_at")
"""What no judgement looks at: of thousands of rows it would take longer to read than all the rest."""
_KEPT: Final = (
    "severity", "severity_rank", "bottleneck", "confidence", "recoverable", "gpus_total", "gpu_hours_a_day", "condition", "content",
    "origin", "last_seen_at", "resolved_at", "judged_at", "streak", "streak_since", "seen_total",
)  # fmt: skip


class _Book:
    """The changes of one judgement, written together at its end."""

    def __init__(self, at: datetime) -> None:
        self.at = at
        self.changed: list[Finding] = []
        self.opened: list[Finding] = []
        self.transitions: list[Transition] = []
        self._gpus: list[tuple[int, ...]] = []  # beside `opened`
        self._candidates: list[Finding] = []

    def opens(self, row: Finding, gpus: tuple[int, ...]) -> None:
        """A new row, seen once."""
        row.streak, row.streak_since, row.judged_at = 1, self.at, self.at
        self.opened.append(row)
        self.transitions.append(Transition(finding=row, axis="condition", before="", after="pending", at=self.at))
        self._gpus.append(gpus)
        if row.severity == "critical" or row.origin == "event":
            self._candidates.append(row)

    def saw(self, row: Finding) -> None:
        """An open row was seen again."""
        self._judge(row, 1)
        if row.condition == "pending" and (row.severity == "critical" or row.origin == "event" or row.streak >= CONFIRM):
            self._candidates.append(row)
        elif row.condition == "noisy" and self._kept_still(row):
            self.moves(row, "firing")

    def saw_clear(self, row: Finding) -> None:
        """An open row's trouble was seen to be over."""
        self._judge(row, -1)
        if row.streak <= -CONFIRM and (row.condition != "noisy" or self._kept_still(row)):
            self.moves(row, "resolved")

    def ends(self, row: Finding, note: str) -> None:
        """An open row is over on one certain word."""
        self.moves(row, "resolved", note)
        self.changed.append(row)

    def moves(self, row: Finding, after: str, note: str = "") -> None:
        """The row's condition becomes `after`."""
        self.transitions.append(
            Transition(finding=row, axis="condition", before=row.condition, after=after, at=self.at, note=note)
        )
        row.condition = after
        if after == "resolved":
            row.resolved_at = self.at

    def write(self) -> list[Transition]:
        """Store everything; the transitions, in order."""
        self._fire()
        if self.opened:
            # in one order, so that two judgements do not lock each other out
            Finding.objects.bulk_create(sorted(self.opened, key=lambda row: row.fingerprint), batch_size=200)
            opened.count(row.rule for row in self.opened if not row.shadow)
            through = Finding.gpus.through
            through.objects.bulk_create(
                [
                    through(finding_id=row.pk, gpu_id=gpu)
                    for row, gpus in zip(self.opened, self._gpus, strict=True)
                    for gpu in gpus
                ],
                batch_size=500,
            )
        update(self.changed, _KEPT)
        Transition.objects.bulk_create(self.transitions, batch_size=500)
        if self.transitions:
            transaction.on_commit(_tell, robust=True)
        return self.transitions

    def _judge(self, row: Finding, sign: int) -> None:
        if row.streak * sign > 0:
            row.streak += sign
        else:
            row.streak, row.streak_since = sign, self.at
        row.judged_at = self.at if row.judged_at is None else max(self.at, row.judged_at)
        self.changed.append(row)

    def _kept_still(self, row: Finding) -> bool:
        return row.streak_since is not None and self.at - row.streak_since >= QUIET

    def _fire(self) -> None:
        """Let the candidates fire, or turn noisy those that did so three times within the hour before.

        An opening that ended with its job, or because its rule was changed, is none: the finding did not flap.
        """
        if not self._candidates:
            return
        for_another_reason = Transition.objects.filter(
            finding=OuterRef("finding"), axis="condition", after="resolved", note__in=(JOB_ENDED, *permitted.NOTES)
        )
        openings = Counter(
            Transition.objects.filter(
                ~Exists(for_another_reason),
                finding__fingerprint__in=[row.fingerprint for row in self._candidates],
                axis="condition",
                before="pending",
                after__in=("firing", "noisy"),
                at__gt=self.at - FLAP_SPAN,
            ).values_list("finding__fingerprint", flat=True)
        )
        for row in self._candidates:
            self.moves(row, "noisy" if openings[row.fingerprint] >= FLAP_OPENINGS - 1 else "firing")
