"""Arithmetic of times, each from when to before when; an end of None: it has none yet."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias

Time: TypeAlias = tuple[datetime, datetime | None]

_EVER: Final = datetime.max.replace(tzinfo=UTC)


def joined(times: Iterable[Time]) -> list[Time]:
    """The times in order; those that touch or overlap are one."""
    found: list[tuple[datetime, datetime]] = []
    for first, last in sorted(_closed(times)):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return _opened(found)


def without(times: Iterable[Time], taken: Sequence[Time]) -> list[Time]:
    """What is left of the times; those that are `taken` are in order, and none overlaps another (`joined`)."""
    left: list[tuple[datetime, datetime]] = []
    closed = _closed(taken)
    for first, last in _closed(times):
        at = first
        for since, until in closed:
            if until <= at or since >= last:
                continue
            if since > at:
                left.append((at, since))
            at = until
        if at < last:
            left.append((at, last))
    return _opened(left)


def common(times: Iterable[Time], others: Iterable[Time]) -> list[Time]:
    """What the times have in common with others."""
    closed = _closed(others)
    both = ((max(first, since), min(last, until)) for first, last in _closed(times) for since, until in closed)
    return _opened((first, last) for first, last in both if first < last)


def _closed(times: Iterable[Time]) -> list[tuple[datetime, datetime]]:
    return [(first, last or _EVER) for first, last in times]


def _opened(times: Iterable[tuple[datetime, datetime]]) -> list[Time]:
    return [(first, None if last == _EVER else last) for first, last in times]
