"""The course of a figure over runs: known changes are found at their place, noise is none, a slow change is a drift."""

import math

import numpy as np
import pytest

from advisor.course import Course, course
from bench.change_points import false_alarms, hits

DAY_S = 86_400.0


def of(values: list[float], every_d: float = 1.0) -> Course:
    """The course of runs that began one after the other."""
    return course(tuple(place * every_d * DAY_S for place in range(len(values))), tuple(values))


def noisy(count: int, spread: float = 0.02, seed: int = 7) -> list[float]:
    """Step times about half a second."""
    return [0.5 * math.exp(one) for one in np.random.default_rng(seed).normal(0, spread, count)]


def test_a_change_at_run_17_is_found_there() -> None:
    """Ten percent in noise of two: sixteen runs before, eight since."""
    values = [value * (1.1 if place >= 16 else 1.0) for place, value in enumerate(noisy(24))]

    assert of(values).changes == (16,)


def test_two_changes_are_two() -> None:
    """Slower from the 11th run on, and as before from the 21st."""
    values = [value * (1.3 if 10 <= place < 20 else 1.0) for place, value in enumerate(noisy(30))]

    assert of(values).changes == (10, 20)


@pytest.mark.parametrize("place", [0, 10, 23])
def test_one_run_that_is_far_off_is_no_change(place: int) -> None:
    """Wherever it lies, the newest too: nobody knows yet whether the next is like it."""
    values = noisy(24)
    values[place] *= 3

    assert of(values).changes == ()


def test_runs_alike_to_a_hair_do_not_make_a_percent_a_change() -> None:
    """Their noise is nothing; a change below three percent is none that anybody would look for."""
    assert of([0.5] * 10 + [0.51] * 10).changes == ()
    assert of([0.5] * 10 + [0.52] * 10).changes == (10,)


def test_a_slow_change_is_a_drift_and_no_stairs() -> None:
    """One percent a day: 1.01 ** 29 over thirty runs, within the interval."""
    found = of([value * 1.01**place for place, value in enumerate(noisy(30, 0.01))])

    assert found.changes == ()
    assert found.drift is not None
    assert found.drift.is_sure
    assert found.drift.days == pytest.approx(29)
    assert found.drift.low_ratio < 1.01**29 < found.drift.high_ratio
    assert found.drift.ratio == pytest.approx(1.01**29, rel=0.03)


def test_the_slope_is_that_of_theil_and_sen() -> None:
    """Exactly one percent a day, but for one run that is far off."""
    values = [0.5 * 1.01**place for place in range(9)]
    values[4] *= 2
    found = of(values).drift

    assert found is not None
    assert found.ratio == pytest.approx(1.01**8)


def test_a_drift_is_of_the_newest_level_alone() -> None:
    """A change for good is none."""
    found = of([value * (1.5 if place >= 12 else 1.0) for place, value in enumerate(noisy(24))])

    assert found.changes == (12,)
    assert found.drift is not None
    assert found.drift.days == pytest.approx(11)
    assert not found.drift.is_sure


@pytest.mark.parametrize(("count", "every_d"), [(7, 1.0), (20, 0.01)])
def test_a_few_runs_or_hours_have_no_drift(count: int, every_d: float) -> None:
    """Seven runs; twenty within five hours."""
    assert of(noisy(count), every_d).drift is None


@pytest.mark.parametrize("values", [[], [0.5], [0.5] * 5])
def test_few_runs_have_no_course(values: list[float]) -> None:
    """Neither changes nor a drift."""
    assert of(values) == Course((), None)


def test_runs_that_began_at_one_moment_have_no_slope() -> None:
    """An array's tasks: a change among them is one of their order alone."""
    assert course((0.0,) * 20, tuple([0.5] * 10 + [1.0] * 10)) == Course((10,), None)


@pytest.mark.parametrize("noise", ["normal", "heavy", "outliers"])
def test_noise_seldom_has_a_change(noise: str) -> None:
    """Below one family in twenty, with twelve runs, whose noise is known badly, as with forty."""
    assert false_alarms(noise, 12, 200) < 0.05
    assert false_alarms(noise, 40, 200) < 0.05


def test_a_change_of_five_times_the_noise_is_found_at_its_place() -> None:
    """Of ten percent, when four runs have it, in nine families of ten: to the run, or its neighbour."""
    assert hits(1.10, 12, 200) > 0.85
    assert hits(1.10, 40, 200) > 0.95
