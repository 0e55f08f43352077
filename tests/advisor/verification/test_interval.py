"""How sure a ratio is, of samples that hang together."""

import math

import numpy as np
import pytest

from advisor.verification.interval import MIN_BLOCKS, Values, blocks, holds_on, ratio

PAIRS = 60


def series(rng: np.random.Generator, n: int, phi: float) -> Values:
    """AR(1) around 10 with a standard deviation of 0.5."""
    noise = rng.normal(size=n + 100)
    values = np.zeros(n + 100)
    for k in range(1, n + 100):
        values[k] = phi * values[k - 1] + noise[k]
    return 10 + 0.5 * values[100:] * math.sqrt(1 - phi * phi)


@pytest.mark.parametrize(("n", "phi"), [(300, 0.0), (300, 0.7), (60, 0.5)])
def test_intervals_cover_one_where_nothing_changed(n: int, phi: float) -> None:
    """Nominal 95 % of pairs; 87 % and more of sixty pairs."""
    rng = np.random.default_rng(3)
    told = [ratio([series(rng, n, phi)], [series(rng, n, phi)], "median") for _ in range(PAIRS)]
    known = [one for one in told if one is not None]

    assert len(known) > PAIRS / 2
    assert sum(one.low <= 1 <= one.high for one in known) >= 0.87 * len(known)


def test_samples_that_hold_on_count_once() -> None:
    """AR(1) with 0.9 holds on for 19 samples; independent ones for one."""
    rng = np.random.default_rng(4)

    assert 10 < holds_on(series(rng, 4000, 0.9)) < 30
    assert holds_on(series(rng, 4000, 0.0)) < 2
    assert blocks(series(rng, 600, 0.9), "median").size < 30


def test_readings_that_hardly_vary_are_as_good_as_independent() -> None:
    """A slow drift within one per cent."""
    assert holds_on(np.linspace(1.0, 1.01, 50)) == 1.0


def test_too_few_blocks_are_none() -> None:
    """A ramp hangs together from end to end."""
    assert blocks(np.linspace(1.0, 9.0, 40), "median").size == 0
    assert ratio([np.ones(MIN_BLOCKS - 1)], [np.ones(50)], "median") is None


def test_a_change_that_is_there_is_found_at_its_size() -> None:
    """A fifth faster, with noise of five per cent."""
    rng = np.random.default_rng(6)
    found = ratio([series(rng, 300, 0.5)], [1.2 * series(rng, 300, 0.5)], "median")

    assert found is not None
    assert found.value == pytest.approx(1.2, rel=0.03)
    assert 1.1 < found.low < found.value < found.high < 1.3
    assert found.p < 1e-3


def test_the_same_samples_give_the_same_interval() -> None:
    """Nobody wants a verdict that depends on the hour."""
    rng = np.random.default_rng(8)
    a, b = series(rng, 100, 0.2), series(rng, 100, 0.2)

    assert ratio([a], [b], "mean") == ratio([a], [b], "mean")


def test_what_never_varies_has_an_interval_of_nothing() -> None:
    """Two constants."""
    found = ratio([np.full(50, 2.0)], [np.full(50, 3.0)], "median")

    assert found is not None
    assert (found.low, found.value, found.high) == (1.5, 1.5, 1.5)
