"""Numbers of records, and the inclusive ranges of them that acks and the spool's notes name."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers as ranges in order that neither overlap nor touch; one that ends before it begins has none."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if low > high:
            continue
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def inside(seqs: Collection[int], ranges: Iterable[tuple[int, int]]) -> Iterator[list[int]]:
    """Those of `seqs` (a set, or a dict's keys) that lie in each range, in order; nothing of a range that has none.

    Looks each number of the ranges up where they name few, else sorts `seqs` once: neither wide ranges nor many cost more than that.
    """
    spans = merged(ranges)
    if sum(high - low + 1 for low, high in spans) <= len(seqs):
        for low, high in spans:
            if found := [seq for seq in range(low, high + 1) if seq in seqs]:
                yield found
        return
    ordered = sorted(seqs)
    for low, high in spans:
        begin = bisect_left(ordered, low)
        end = bisect_right(ordered, high, begin)
        if begin < end:
            yield ordered[begin:end]
