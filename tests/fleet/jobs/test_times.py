"""Arithmetic of times."""

import pytest

from fleet.jobs.times import Time, common, joined, without
from tests.fleet.rows import NOON, minutes


def time(first: int, last: int | None) -> Time:
    """From so many minutes past noon to so many."""
    return NOON + minutes(first), None if last is None else NOON + minutes(last)


@pytest.mark.parametrize(
    ("times", "whole"),
    [
        ([(5, 9), (0, 3)], [(0, 3), (5, 9)]),
        ([(0, 3), (3, 5)], [(0, 5)]),
        ([(0, 9), (2, 4), (8, 12)], [(0, 12)]),
        ([(0, None), (4, 6)], [(0, None)]),
        ([(4, None), (0, 2)], [(0, 2), (4, None)]),
    ],
)
def test_times_that_touch_are_one(times: list[tuple[int, int | None]], whole: list[tuple[int, int | None]]) -> None:
    """In order; one without an end takes all that follows."""
    assert joined(time(*one) for one in times) == [time(*one) for one in whole]


def test_what_is_left_and_what_is_common_are_all_of_a_time() -> None:
    """Of 0 to no end, with 2-3 and 5-6 taken; and of what lies before or after, nothing is taken."""
    taken = [time(2, 3), time(5, 6)]
    assert without([time(0, None)], taken) == [time(0, 2), time(3, 5), time(6, None)]
    assert common([time(0, None)], taken) == taken
    assert without([time(3, 5)], taken) == [time(3, 5)]
    assert common([time(3, 5)], taken) == []
    assert without([time(2, 3)], [time(0, None)]) == []
