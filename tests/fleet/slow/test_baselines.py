"""Baselines of families: their level, since which run it is worse, and what becomes the usual."""

from datetime import timedelta

import pytest

from fleet.slow.baselines import ENERGY, NEWEST_RUNS, STEP_TIME, THROUGHPUT, Baseline, Measure, baseline
from fleet.slow.past_runs import Past, alike
from tests.fleet.slow.past import NOON

DAY = timedelta(days=1)


def runs(*steps: float | None, gpus: int = 1) -> list[Past]:
    """Runs of an hour, one a day, of these step times with batches of 50; the last began an hour ago."""
    return [
        Past(
            number, f"west/{number}", "west/ann/train", "NVIDIA H200", gpus, begun := NOON - (len(steps) - number) * DAY,
            begun + DAY / 24, 60, step, 0.001, 50 / step if step else None, 10 * step if step else None,
        )
        for number, step in enumerate(steps, start=1)
    ]  # fmt: skip


def of(steps: list[float], measure: Measure = STEP_TIME) -> Baseline:
    """The baseline of the last of these runs."""
    told = runs(*steps)
    found = baseline(measure, told[-1], alike(told[-1], told), NOON)
    assert found is not None
    return found


def noisy(level: float, count: int) -> list[float]:
    """Step times within a percent."""
    return [level * (1 + 0.005 * (number * 7 % 5 - 2)) for number in range(count)]


def test_a_change_at_run_17_is_named() -> None:
    """Sixteen runs of 0.50 s, five of 0.60: the level before is the baseline, the 17th the first bad run."""
    found = of(noisy(0.5, 16) + noisy(0.6, 5))

    assert found.median == pytest.approx(0.5, rel=0.005)
    assert found.ratio == pytest.approx(1.2, rel=0.02)
    assert found.first_bad is not None
    assert found.last_good is not None
    assert (found.last_good.job, found.first_bad.job, found.bad_runs) == ("west/16", "west/17", 5)
    assert [(one.last.job, one.first.job) for one in found.levels] == [("west/16", "west/17")]
    assert (found.levels[0].before, found.levels[0].after) == pytest.approx((0.5, 0.6), rel=0.01)


@pytest.mark.parametrize(("measure", "before", "after"), [(THROUGHPUT, 100.0, 50 / 0.6), (ENERGY, 5.0, 6.0)])
def test_other_figures_name_it_too(measure: Measure, before: float, after: float) -> None:
    """Fewer samples a second are worse, more joules are."""
    found = of(noisy(0.5, 16) + noisy(0.6, 5), measure)

    assert (found.median, found.value) == pytest.approx((before, after), rel=0.02)
    assert found.first_bad is not None
    assert found.first_bad.job == "west/17"


@pytest.mark.parametrize("slow", [1, 2])
def test_the_newest_runs_are_named_before_they_are_a_level(slow: int) -> None:
    """The newest run alone is the first bad one, and so is the first of two in a row."""
    found = of([*noisy(0.5, 16), *[0.6] * slow])

    assert found.first_bad is not None
    assert (found.first_bad.job, found.bad_runs) == ("west/17", slow)
    assert found.levels == ()


def test_one_slow_run_before_is_not_the_first() -> None:
    """It was over with the next."""
    found = of([*noisy(0.5, 8), 0.7, *noisy(0.5, 6), 0.6])

    assert found.first_bad is not None
    assert found.first_bad.job == "west/16"


def test_a_regression_does_not_become_the_usual_by_staying() -> None:
    """Ten runs later it still is one; one more, and it is the usual."""
    still = of(noisy(0.5, 16) + noisy(0.6, NEWEST_RUNS))
    usual = of(noisy(0.5, 16) + noisy(0.6, NEWEST_RUNS + 1))

    assert still.median == pytest.approx(0.5, rel=0.005)
    assert still.first_bad is not None
    assert usual.median == pytest.approx(0.6, rel=0.005)
    assert usual.first_bad is None


def test_a_better_level_is_the_baseline_at_once() -> None:
    """Going back to the old one is a regression then."""
    found = of([*noisy(0.6, 12), *noisy(0.5, 5), 0.6])

    assert found.median == pytest.approx(0.5, rel=0.005)
    assert found.first_bad is not None
    assert found.first_bad.job == "west/18"


def test_a_run_that_is_as_good_as_before_has_no_first_bad_one() -> None:
    """Whatever lay between."""
    found = of([*noisy(0.5, 12), *noisy(0.6, 5), 0.5])

    assert found.median == pytest.approx(0.5, rel=0.005)
    assert (found.first_bad, found.bad_runs) == (None, 0)


def test_a_slightly_other_batch_is_compared_by_the_sample() -> None:
    """A step of 55 samples takes a tenth longer than one of 50: nothing is worse."""
    told = runs(*[0.5] * 5, 0.55)
    told[-1].samples_per_s = 100.0
    found = baseline(STEP_TIME, told[-1], alike(told[-1], told), NOON)

    assert found is not None
    assert found.ratio == pytest.approx(1.0)


def test_runs_on_other_gpus_never_count() -> None:
    """Nor those of another batch, nor later ones."""
    told = runs(*[0.5] * 6)
    told[0].gpus, told[1].gpu_model, told[2].samples_per_s = 2, "NVIDIA H100", 1000.0

    assert [one.pk for one in alike(told[4], told)] == [4]
    assert baseline(STEP_TIME, told[4], alike(told[4], told), NOON) is None


def test_a_run_that_has_hardly_begun_moves_nothing() -> None:
    """Its figure is compared, and is no run of a level."""
    told = runs(*noisy(0.5, 16), 0.9)
    told[-1].minutes = 2
    found = baseline(STEP_TIME, told[-1], alike(told[-1], told), NOON)

    assert found is not None
    assert found.ratio == pytest.approx(1.8, rel=0.01)
    assert found.first_bad is None
