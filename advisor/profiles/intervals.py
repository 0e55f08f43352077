"""Sets of time intervals as two sorted arrays of nanoseconds: unions, differences and lengths.

A `Spans` is (starts, ends) with starts < ends, in order, none touching another. All arithmetic is exact: whole nanoseconds.
"""

from array import array
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Times: TypeAlias = NDArray[np.int64]
Spans: TypeAlias = tuple[Times, Times]

EMPTY: Final[Spans] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
FOLD_AT: Final = 65_536
"""Intervals that a `Fold` holds before it first joins those that overlap."""


def union(starts: Times, ends: Times) -> Spans:
    """What at least one of the given intervals covers; they may come in any order, overlap and be empty."""
    some = ends > starts
    starts, ends = starts[some], ends[some]
    if not starts.size:
        return EMPTY
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate(([True], starts[1:] > ends[:-1]))
    last = np.concatenate((first[1:], [True]))
    return starts[first], ends[last]


def join(*sets: Spans) -> Spans:
    """What at least one of the sets covers."""
    return union(np.concatenate([one[0] for one in sets]), np.concatenate([one[1] for one in sets])) if sets else EMPTY


def gaps(spans: Spans) -> Spans:
    """The holes between the first start and the last end."""
    return spans[1][:-1], spans[0][1:]


def minus(spans: Spans, taken: Spans) -> Spans:
    """What `spans` covers and `taken` does not."""
    if not spans[0].size or not taken[0].size:
        return spans
    outside = (
        np.concatenate(([min(spans[0][0], taken[0][0]) - 1], taken[1])),
        np.concatenate((taken[0], [max(spans[1][-1], taken[1][-1]) + 1])),
    )
    return both(spans, outside)


def both(one: Spans, other: Spans) -> Spans:
    """What both sets cover."""
    if not one[0].size or not other[0].size:
        return EMPTY
    # for each interval of `one`, the range of intervals of `other` that reach into it
    low = np.searchsorted(other[1], one[0], side="right")
    high = np.searchsorted(other[0], one[1], side="left")
    count = np.maximum(high - low, 0)
    of_one = np.repeat(np.arange(count.size), count)
    of_other = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    return np.maximum(one[0][of_one], other[0][of_other]), np.minimum(one[1][of_one], other[1][of_other])


def length_ns(spans: Spans) -> int:
    """How long the set is in all."""
    return int((spans[1] - spans[0]).sum())


class Fold:
    """A union that grows one interval at a time and holds 16 bytes for each of its intervals, however many were added.

    Nested and overlapping ones are joined each time the number held has doubled: operators within operators cost nothing.
    """

    __slots__ = ("_ends", "_limit", "_starts")

    def __init__(self) -> None:
        self._starts, self._ends, self._limit = array("q"), array("q"), FOLD_AT

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, start_ns: int, end_ns: int) -> None:
        """Cover [start, end) too."""
        self._starts.append(start_ns)
        self._ends.append(end_ns)
        if len(self._starts) >= self._limit:
            self.spans()
            self._limit = max(FOLD_AT, 2 * len(self._starts))

    def spans(self) -> Spans:
        """The union so far."""
        starts, ends = union(as_times(self._starts), as_times(self._ends))
        self._starts, self._ends = array("q", starts.tobytes()), array("q", ends.tobytes())
        return starts, ends


def as_times(values: "array[int]") -> Times:
    """The array's own memory as numpy sees it: not a copy."""
    return np.frombuffer(values, np.int64) if values else EMPTY[0]
