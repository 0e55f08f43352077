"""Which resolution answers a request for a series, hour by hour."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fleet.store.layout import HOUR_S, RAW, RESOLUTIONS, ROLLED, Resolution, covered, days, read_day
from fleet.store.reader import Reader

_SLACK: Final = 4


def fitting(step_s: int) -> Resolution:
    """The coarsest resolution of which a bucket of `step_s` is made: one that divides it, or that it is four times as long as."""
    return [of for of in RESOLUTIONS if step_s % of.step_s == 0 or of.step_s * _SLACK <= step_s][-1]


Count = Callable[[Resolution, Sequence[int]], Mapping[int, int]]
"""How many samples of the entity a resolution has in each of some hours (rising)."""


def plan(
    readers: Mapping[Resolution, Reader], entity: int, start: int, end: int, step_s: int, count: Count
) -> dict[Resolution, list[int]]:
    """The hours (numbered from the epoch) that each resolution answers; an hour of which nothing is known is in none.

    The best resolution for the step answers, else the coarsest of those that are finer, else the finest of the coarser ones.
    Raw rows answer for an hour until they are settled and rolled up, and again while late ones wait to be. So they do where
    an edge of the span cuts a roll-up in two. Not so where they are fewer than a roll-up was made of: stragglers, of an hour whose
    rows are gone.
    """
    best = fitting(step_s)
    asked = range(start // HOUR_S, -(-end // HOUR_S))
    raw, late = _raw_hours(readers[RAW], entity, start, end)
    for of in ROLLED:
        if doubtful := sorted(late & covered(readers[of].root, of, start, end, entity, readers[of].damaged)):
            known, rolled = count(RAW, doubtful), count(of, doubtful)
            raw = {hour: settled for hour, settled in raw.items() if known.get(hour, 0) >= rolled.get(hour, 0)}
            break
    cut = {at // HOUR_S for at in (start, end) if at % best.step_s}
    first = {hour for hour, settled in raw.items() if best is RAW or not settled or hour in cut}
    found: dict[Resolution, list[int]] = {RAW: sorted(first)} if first else {}
    rest = set(asked) - first
    order = [of for of in RESOLUTIONS[::-1] if of.step_s <= best.step_s] + [of for of in ROLLED if of.step_s > best.step_s]
    for of in order:
        if of is RAW:
            there = rest & raw.keys()  # settled, and without the roll-ups that were looked for
        else:
            there = rest & covered(readers[of].root, of, start, end, entity, readers[of].damaged)
        if there:
            found[of] = sorted(there.union(found.get(of, ())))
            rest -= there
        if not rest:
            break
    return found


def _raw_hours(reader: Reader, entity: int, start: int, end: int) -> tuple[dict[int, bool], set[int]]:
    """The hours with raw rows of the entity, True where all that is there is settled and rolled up; and those that arrived after their end."""
    hours: dict[int, bool] = {}
    late: set[int] = set()
    for path in days(reader.root, start, end):
        for hour, sets in read_day(path).hours.items():
            if start < (hour + 1) * HOUR_S and end > hour * HOUR_S:
                held = [one for one in sets.live if one.holds(entity)]
                if held:
                    hours[hour] = all(one.first.level == "d" for one in held)
                    if held[0].first.q0 >= (hour + 1) * HOUR_S * 1000:
                        late.add(hour)
    return hours, late
