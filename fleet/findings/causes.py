"""Keeps `Finding.cause`: which open finding explains which, brought up to date in the transaction that moved one of them.

Only what lies near a finding that moved is looked at again (advisor/causes.py has the rules). When a cause is over, what it explained is
over as a rule too, and is told by itself only if it is seen again, or nothing is known of it for a while: then its cause is taken away, and
a transition of the axis `cause` says so.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Final

from django.db.models import F, Q
from django.utils.translation import gettext_noop

from advisor import causes
from advisor.causes import Because
from fleet.findings.models import Finding, Transition
from fleet.findings.nearby import Nearby, Open

GRACE: Final = timedelta(minutes=2)
"""How long after the end of its cause a consequence that nobody judges is still taken as a part of it."""
AGAIN: Final = timedelta(seconds=30)
"""What moved so lately is looked at once more: two workers that write at once do not see each other's."""
ROUNDS: Final = 6
"""A chain has no more steps than there are kinds of causes; each round follows it by one."""
FOUND: Final = gettext_noop("Its cause was found.")
ANOTHER: Final = gettext_noop("An earlier cause was found.")
FREED: Final = gettext_noop("Its cause is over, and it is not.")
GONE: Final = gettext_noop("What was taken for its cause is none.")
NOTES: Final = (FOUND, ANOTHER, FREED, GONE)


def explain(keys: Collection[int], at: datetime, fresh: Collection[int] = frozenset()) -> list[Transition]:
    """Bring causes up to date after the condition of these findings moved; the transitions to write.

    Of those that are `fresh` no transition says what explains them: they just opened.
    """
    nearby, done, frontier = Nearby(at), set[int](), set(keys)
    changes: dict[int, Because | None] = {}
    for _ in range(ROUNDS):
        if not frontier:
            break
        done |= frontier
        effects, frontier = _effects(nearby, frontier), set()
        for row, because in _causes(nearby, effects):
            if because != row.cause:
                row.cause = changes[row.pk] = because
                frontier.add(row.pk)
        frontier -= done
    return _write(changes, at, fresh)


def lately(at: datetime) -> set[int]:
    """The findings that opened or ended in the last moments."""
    moved = Q(resolved_at=None, opened_at__gt=at - AGAIN) | Q(resolved_at__gt=at - AGAIN)
    return set(Finding.objects.filter(moved).order_by().values_list("pk", flat=True))


def release(at: datetime) -> list[Transition]:
    """Take the cause that is over from open findings that were seen since, or of which nothing was known for a while; the transitions to write."""
    ended = Finding.objects.filter(resolved_at=None, cause__resolved_at__isnull=False).filter(
        Q(last_seen_at__gt=F("cause__resolved_at")) | Q(cause__resolved_at__lte=at - GRACE)
    )
    rows = list(ended.values_list("pk", "cause_id"))
    _set([pk for pk, _ in rows], None)
    return [_transition(pk, cause, None, at, FREED) for pk, cause in rows]


def _effects(nearby: Nearby, moved: Collection[int]) -> dict[int, Open]:
    """What the findings that moved may explain now or no longer, and they themselves, where they are open."""
    explained = causes.explained_by(
        Finding.objects.filter(pk__in=list(moved)).order_by().values_list("rule", flat=True).distinct()
    )
    found = nearby.of(moved, explained)
    return {
        pk: row
        for pk, row in found.items()
        if explained is None or row.rule in explained or pk in moved or (row.cause is not None and row.cause.key in moved)
    }


def _causes(nearby: Nearby, effects: dict[int, Open]) -> Iterable[tuple[Open, Because | None]]:
    """Each of the effects with what explains it now; a cause that is over stays until it is released."""
    candidates = nearby.of(effects.keys(), causes.explainers(row.rule for row in effects.values())) | effects
    standing = {pk: nearby.standing(row) for pk, row in candidates.items()}
    asked = [standing[pk] for pk in effects]
    still = nearby.is_open({row.cause.key for row in candidates.values() if row.cause is not None})
    known = {pk: row.cause for pk, row in candidates.items() if pk not in effects and row.cause and row.cause.key in still}
    roots = causes.roots(asked, causes.direct(asked, standing.values()), known)
    for pk, row in effects.items():
        because = roots.get(pk)
        if because is None and row.cause is not None and row.cause.key not in still:
            because = row.cause
        yield row, because


def _write(changes: dict[int, Because | None], at: datetime, fresh: Collection[int]) -> list[Transition]:
    before = dict(Finding.objects.filter(pk__in=list(changes)).values_list("pk", "cause_id"))
    alike: dict[Because | None, list[int]] = {}
    for pk, because in changes.items():
        alike.setdefault(because, []).append(pk)
    for because, keys in alike.items():
        _set(keys, because)
    return [
        _transition(pk, before[pk], because and because.key, at, GONE if because is None else ANOTHER if before[pk] else FOUND)
        for pk, because in changes.items()
        if before[pk] != (because and because.key) and not (pk in fresh and before[pk] is None)
    ]


def _set(keys: list[int], because: Because | None) -> None:
    cause, place = (None, "") if because is None else because
    for first in range(0, len(keys), 500):
        Finding.objects.filter(pk__in=keys[first : first + 500]).update(cause=cause, cause_place=place)


def _transition(pk: int, before: int | None, after: int | None, at: datetime, note: str) -> Transition:
    return Transition(
        finding_id=pk, axis="cause", before="" if before is None else str(before), after=str(after or ""), at=at, note=note
    )
