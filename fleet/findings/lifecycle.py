"""Opens, refreshes and closes findings; every change of state is a Transition row.

The condition follows telemetry. It fires after two judgements in a row that saw it (a critical one at once), and after its rule's minimum
duration where the site set one; it resolves after two that saw it clear, over a whole window of steady work (steady.py). No judgement,
because the node is stale, its driver hangs, a metric is missing or the job only just started, changes nothing. A judgement is known by the
end of its window: judging one window twice, or an older window, does nothing.
A job that is not there is no judgement either: it may be restarting. Only one that stays away has ended, and its findings with it; where
its scheduler says that it has ended, they end at once.
One that opens for the fourth time within an hour is noisy: people are told so once, and nothing more until it has kept still for a while.
What ended with its job does not count as an opening.

book.py has the states, judged.py what a window says of a finding, causes.py which finding explains which. The advice follows people:
advised.py.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from django.db import IntegrityError, transaction
from django.db.models import Max
from django.utils import timezone

from advisor.finding import SEVERITIES
from advisor.finding import Finding as Found
from fleet.findings import joined, witnesses
from fleet.findings.advised import MOVES, MoveError, advise_transition
from fleet.findings.book import CONFIRM, SET_BACK, Book
from fleet.findings.content import as_content
from fleet.findings.flapping import JOB_ENDED, SERVICE_ENDED
from fleet.findings.judged import COME_AND_GO, EVENT_QUIET, JOB_GRACE, QUIET, Judged, Place, Target
from fleet.findings.models import Finding, Transition
from fleet.findings.permitted import Permitted
from fleet.findings.witnesses import Seen

__all__ = [
    "CONFIRM", "EVENT_QUIET", "JOB_ENDED", "JOB_GRACE", "MOVES", "QUIET", "SERVICE_ENDED", "Judged", "MoveError", "Place", "Target",
    "advise_transition", "end", "end_all", "join", "reconcile", "released", "report", "report_all", "withdraw",
]  # fmt: skip

_IN_ONE_QUERY: Final = 500
_UNREAD: Final = ("content", "confidence", "recoverable", "advice", "opened_at", "resolved_at")
"""What no judgement looks at: of thousands of rows it would take longer to read than all the rest."""


def reconcile(at: datetime, found: Sequence[Found], judged: Judged, places: Mapping[Target, Place]) -> list[Transition]:
    """Bring the rows to what the window that ended `at` shows; the transitions that were written."""
    try:
        return _reconcile(at, found, judged, places)
    except IntegrityError:  # another worker opened one of them between our look and our write
        return _reconcile(at, found, judged, places)


def _reconcile(at: datetime, found: Sequence[Found], judged: Judged, places: Mapping[Target, Place]) -> list[Transition]:
    seen = {one.fingerprint: one for one in found}
    with transaction.atomic():
        book = Book(at, judged)
        rows = list(Finding.objects.select_for_update().filter(resolved_at=None).defer(*_UNREAD))
        held = _held([row.pk for row in rows if row.scope in COME_AND_GO and (row.scope, row.target) not in judged.targets])
        joined.count_devices(seen, rows, at)
        joined.read_job_logs(rows, at)
        for row in rows:
            one = seen.pop(row.fingerprint, None)
            if row.judged_at is not None and at <= row.judged_at <= at + SET_BACK:
                continue
            if judged.may is not None and (why := judged.may.why_not(row)):
                book.ends(row, why)
                continue
            if one is not None:
                before = row.severity
                rose = _refresh(row, one, at)
                book.saw(row)
                if rose and row.condition == "firing":
                    book.rose(row, before)
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


def released(at: datetime) -> list[Transition]:
    """As `reconcile`, of a time that nobody can judge: what is left of causes that are over is told; the transitions that were written."""
    with transaction.atomic():
        return Book(at, Judged()).write()


def withdraw(at: datetime, may: Permitted) -> list[Transition]:
    """End the open findings that their rules may not keep open any more; the transitions that were written."""
    with transaction.atomic():
        book = Book(at)
        for row in Finding.objects.select_for_update().filter(resolved_at=None):
            if why := may.why_not(row):
                book.ends(row, why)
        return book.write()


def report(
    at: datetime,
    found: Found,
    place: Place,
    *,
    count: int = 1,
    since: datetime | None = None,
    shadow: bool = False,
    seen: Mapping[str, Seen] | None = None,
    over_at: datetime | None = None,
) -> Finding:
    """The finding that `count` events from `since` to `at` belong to: opened, or merged into the one that is open.

    `seen`: who told of them, by kind of witness. Events older than the end of the last such finding join that one and open nothing.
    With `over_at`, of events that arrived so late that they are over, what would open is history: nobody is told of it.
    """
    since = since or at
    seen = seen if seen is not None else {witnesses.of_report(found.rule): Seen(since, at, count)}
    with transaction.atomic():
        row = _theirs(found.fingerprint, at)
        book = Book(at)
        if row is None:
            row = _row(found, at, place)
            row.origin, row.seen_total, row.opened_at, row.shadow = "event", count, since, shadow
            witnesses.note_all(row, seen)
            if over_at is None:
                book.opens(row, place.gpus)
            else:
                book.keeps(row, place.gpus, over_at)
        elif row.resolved_at is None:
            before = row.severity
            rose = _refresh(row, found, max(at, row.last_seen_at), count, by_event=True)
            row.origin, row.opened_at = "event", min(row.opened_at, since)
            witnesses.note_all(row, seen)
            book.saw(row)
            if rose and row.condition == "firing":
                book.rose(row, before)
        else:
            _add_history(row, since, count, seen)
            book.changed.append(row)
        book.write()
    return row


def join(row: Finding, at: datetime, *, count: int = 1, seen: Mapping[str, Seen] | None = None) -> None:
    """Count more events up to `at` with a finding that they are a part of: what it says stays as it is, open or over."""
    with transaction.atomic():
        kept = Finding.objects.select_for_update().get(pk=row.pk)
        book = Book(at)
        if kept.resolved_at is None:
            kept.last_seen_at = max(at, kept.last_seen_at)
            kept.seen_total += count
            witnesses.note_all(kept, seen or {})
            book.saw(kept)
        else:
            _add_history(kept, at, count, seen or {})
            book.changed.append(kept)
        book.write()


def end(fingerprint: str, at: datetime, note: str) -> bool:
    """Resolve an open finding on one certain word, such as a lost GPU that is back; False when there is none.

    One that comes and goes stays open until it has kept still.
    """
    with transaction.atomic():
        row = Finding.objects.select_for_update().filter(fingerprint=fingerprint, resolved_at=None, last_seen_at__lte=at).first()
        if row is None:
            return False
        book = Book(at)
        book.ends(row, note)
        book.write()
    return True


def report_all(at: datetime, told: Iterable[tuple[Found, Place, bool]], kind: str) -> None:
    """Open many findings that one kind of witness saw at once, each with its place and whether it is in shadow; those that are open stay."""
    wanted = {found.fingerprint: (found, place, shadow) for found, place, shadow in told}
    with transaction.atomic():
        book = Book(at)
        for part in _parts(list(wanted)):
            there = set(Finding.objects.filter(fingerprint__in=part, resolved_at=None).values_list("fingerprint", flat=True))
            for found, place, shadow in (wanted[fingerprint] for fingerprint in part if fingerprint not in there):
                row = _row(found, at, place)
                row.origin, row.shadow = "event", shadow
                witnesses.note_all(row, {kind: Seen(at, at)})
                book.opens(row, place.gpus)
        book.write()


def end_all(at: datetime, notes: Mapping[str, str]) -> None:
    """As `end`, of many findings by fingerprint, in one piece: each with its note."""
    with transaction.atomic():
        book = Book(at)
        for part in _parts(list(notes)):
            rows = Finding.objects.select_for_update().filter(fingerprint__in=part, resolved_at=None, last_seen_at__lte=at)
            for row in rows:
                book.ends(row, notes[row.fingerprint])
        book.write()


def _parts(fingerprints: Sequence[str]) -> list[Sequence[str]]:
    return [fingerprints[first : first + _IN_ONE_QUERY] for first in range(0, len(fingerprints), _IN_ONE_QUERY)]


def _theirs(fingerprint: str, at: datetime) -> Finding | None:
    """The finding that events of `at` belong to: the open one, else the first that ended after them; None where they are news.

    An end that lies ahead of now was written by a clock that ran ahead, and takes in nothing.
    """
    same = Finding.objects.select_for_update().filter(fingerprint=fingerprint)
    ended = same.filter(resolved_at__gte=at, resolved_at__lte=timezone.now() + SET_BACK)
    return same.filter(resolved_at=None).first() or ended.order_by("resolved_at").first()


def _add_history(row: Finding, since: datetime, count: int, seen: Mapping[str, Seen]) -> None:
    """Add what arrived late to a finding that is over, and stays so."""
    row.seen_total += count
    row.opened_at = min(row.opened_at, since)
    witnesses.note_all(row, seen)


def _refresh(row: Finding, one: Found, at: datetime, count: int = 1, *, by_event: bool = False) -> bool:
    """Take over what is said now, and tell whether its severity rose. An event's words stay while a rule agrees."""
    row.last_seen_at = at
    row.seen_total += count
    if row.origin == "event" and not by_event:
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
        Finding.objects.filter(fingerprint__in=list(seen), resolved_at__gte=at, resolved_at__lte=at + SET_BACK)
        .values_list("fingerprint")
        .annotate(newest=Max("resolved_at"))
    )
    return (one for fingerprint, one in seen.items() if fingerprint not in ended)
