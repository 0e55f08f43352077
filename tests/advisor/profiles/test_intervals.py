"""Unions, differences and lengths against the same done on sets of whole numbers."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.profiles import intervals
from advisor.profiles.intervals import EMPTY, Fold, Spans, both, gaps, join, length_ns, minus, union

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=25)


def spans(pairs: list[tuple[int, int]]) -> Spans:
    """The union of (start, length) pairs."""
    starts = np.array([start for start, _length in pairs], np.int64)
    return union(starts, starts + np.array([length for _start, length in pairs], np.int64))


def points(pairs: list[tuple[int, int]]) -> set[int]:
    """The unit cells that the pairs cover."""
    return {cell for start, length in pairs for cell in range(start, start + length)}


def cells(some: Spans) -> set[int]:
    """The unit cells of a set, which must be in order and touch nowhere."""
    found = list(zip(some[0].tolist(), some[1].tolist(), strict=True))
    assert all(start < end for start, end in found)
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    return {cell for start, end in found for cell in range(start, end)}


@settings(max_examples=150, deadline=None)
@given(INTERVALS, INTERVALS)
def test_they_agree_with_sets_of_cells(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    """Union, join, intersection, difference and length, whatever overlaps, touches or is empty."""
    first, second = spans(one), spans(other)

    assert cells(first) == points(one)
    assert length_ns(first) == len(points(one))
    assert cells(join(first, second)) == points(one) | points(other)
    assert cells(both(first, second)) == points(one) & points(other)
    assert cells(minus(first, second)) == points(one) - points(other)


@given(INTERVALS)
def test_a_union_joins_what_touches(pairs: list[tuple[int, int]]) -> None:
    """Between two intervals of a union there is always a hole, and `gaps` are those holes."""
    some = spans(pairs)
    covered = points(pairs)
    holes = set(range(min(covered), max(covered) + 1)) - covered if covered else set()

    assert (some[0][1:] > some[1][:-1]).all()
    assert cells(gaps(some)) == holes


def test_nothing_is_a_set_too() -> None:
    """No interval at all has no length and takes nothing away."""
    some = spans([(1, 3)])

    assert length_ns(EMPTY) == 0
    assert cells(minus(some, EMPTY)) == {1, 2, 3}
    assert cells(minus(EMPTY, some)) == cells(both(some, EMPTY)) == cells(join()) == cells(gaps(EMPTY)) == set()


def test_a_fold_holds_few_of_many_nested_intervals() -> None:
    """Operators within operators: 200,000 intervals in ten outer ones are held as few and come out as ten."""
    fold = Fold()
    for outer in range(10):
        for inner in range(20_000):
            fold.add(outer * 100_000 + inner, outer * 100_000 + inner + 2)
            assert len(fold) <= intervals.FOLD_AT

    assert fold.spans()[0].tolist() == [outer * 100_000 for outer in range(10)]
    assert length_ns(fold.spans()) == 10 * 20_001
