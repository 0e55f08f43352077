"""Scaling efficiency: the worked examples."""

from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.planners.scaling import efficiency_when_slower, karp_flatt, scaling, strong_speedup, weak_efficiency


def test_eight_gpus_at_seven_times_the_rate() -> None:
    """Weak scaling of 0.9."""
    assert weak_efficiency(7200, 1000, 8) == pytest.approx(0.90)


def test_serial_fraction_of_a_speedup() -> None:
    """7.2 times on 8 GPUs."""
    assert karp_flatt(7.2, 8) == pytest.approx(0.0159, rel=0.005)


def test_a_slower_link_takes_its_share_of_the_efficiency() -> None:
    """20 % slower than a node of 0.95."""
    assert efficiency_when_slower(0.95, 0.20) == pytest.approx(0.76)


def test_rates_and_times_tell_the_same() -> None:
    """Weak by rates, strong by times."""
    weak = scaling(8, rate_of_one=1000, rate_of_all=7200)
    strong = scaling(8, time_of_one_s=72, time_of_all_s=10)

    assert weak.speedup == pytest.approx(strong.speedup)
    assert strong.efficiency_ratio == pytest.approx(0.9)
    assert weak.lost_gpus == pytest.approx(0.8)
    assert scaling(1, rate_of_one=10, rate_of_all=10).serial_ratio is None


@settings(deadline=None)
@given(st.floats(0.0, 1.0), st.integers(2, 10_000))
def test_the_serial_fraction_is_that_of_amdahls_law(serial: float, gpus: int) -> None:
    """A job of that serial part is told to have it."""
    speedup = 1 / (serial + (1 - serial) / gpus)

    assert karp_flatt(speedup, gpus) == pytest.approx(serial, abs=1e-9)


@pytest.mark.parametrize("bad", [0, -1, nan, inf, 1e30])
def test_numbers_that_cannot_be_are_refused(bad: float) -> None:
    """With a sentence that names them."""
    with pytest.raises(ValueError, match=r"^rate_of_one must be .*\.$"):
        weak_efficiency(7200, bad, 8)
    with pytest.raises(ValueError, match=r"^time_of_all_s must be .*\.$"):
        strong_speedup(10, bad)


def test_what_does_not_go_together_is_refused() -> None:
    """A rate with a time, one GPU's serial fraction, a link that takes everything."""
    with pytest.raises(ValueError, match="both rates"):
        scaling(8, rate_of_one=1000, time_of_all_s=3)
    with pytest.raises(ValueError, match="at least 2"):
        karp_flatt(1, 1)
    with pytest.raises(ValueError, match="slower_ratio must be below 1"):
        efficiency_when_slower(0.95, 1)
