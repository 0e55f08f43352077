"""Collectives: the worked examples."""

from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.planners.collectives import (
    OPERATIONS,
    bus_factor,
    collective_s,
    collectives,
    data_parallel_bytes,
    tensor_parallel_bytes,
)

GB = 1e9
CLOSE = 0.005


@pytest.mark.parametrize(
    ("message", "ranks", "bus", "told"),
    [
        (14 * GB, 8, 480 * GB, 0.0510),
        (14 * GB, 8, 360 * GB, 0.0681),
        (14 * GB, 8, 230 * GB, 0.1065),
        (14 * GB, 8, 20 * GB, 1.225),
        (14 * GB, 2, 0.125 * GB, 112),
        (14 * GB, 2, 12.5 * GB, 1.12),
        (1 * GB, 8, 230 * GB, 7.61e-3),
        (0.1 * GB, 8, 230 * GB, 0.761e-3),
        (1e6, 8, 230 * GB, 7.6e-6),
        (16.06 * GB, 64, 48.5 * GB, 0.6519),
    ],
)
def test_an_all_reduce_takes_at_least(message: float, ranks: int, bus: float, told: float) -> None:
    """7B gradients over NVLink, PCIe and Ethernet; small messages; 64 GPUs with a NIC each."""
    assert collective_s("all-reduce", message, ranks, bus) == pytest.approx(told, rel=CLOSE)


def test_fsdp_makes_three_collectives_a_step() -> None:
    """8.03e9 parameters in BF16 over 8 GPUs at 360 GB/s."""
    moved = data_parallel_bytes(8.03e9, 2, 8, sharded=True)

    assert moved / (360 * GB) == pytest.approx(0.1171, rel=CLOSE)
    assert collectives(16.06 * GB, 8, 360 * GB, "all-gather", times=3).least_s == pytest.approx(0.1171, rel=CLOSE)
    assert data_parallel_bytes(8.03e9, 2, 8) == pytest.approx(moved * 2 / 3)


def test_tensor_parallel_reduces_four_times_a_layer() -> None:
    """Twice forward, twice backward."""
    assert tensor_parallel_bytes(32, 8192, 1, 4096, 2, 8) == pytest.approx(4 * 32 * 1.75 * 8192 * 4096 * 2)


def test_latency_counts_for_each_and_a_step_is_compared() -> None:
    """A hundred small ones take their latency a hundred times."""
    told = collectives(1e6, 8, 230 * GB, times=100, latency_s=20e-6, step_s=0.01)

    assert told.latency_s is not None
    assert told.latency_s == pytest.approx(2e-3)
    assert told.least_s == pytest.approx(told.transfer_s + told.latency_s)
    assert told.step_ratio == pytest.approx(told.least_s / 0.01)


def test_without_a_latency_none_is_told() -> None:
    """Absent is not zero; one of zero is told, and not the hair that a difference of two sums leaves."""
    told = collectives(16.06e9, 8, 360e9, "all-gather", times=3)
    given_zero = collectives(16.06e9, 8, 360e9, "all-gather", times=3, latency_s=0.0)

    assert (told.latency_s, given_zero.latency_s) == (None, 0.0)
    assert told.least_s == given_zero.least_s == told.transfer_s


@settings(deadline=None)
@given(st.sampled_from(OPERATIONS), st.integers(1, 100_000))
def test_more_ranks_never_take_less_and_an_all_reduce_is_a_scatter_and_a_gather(operation: str, ranks: int) -> None:
    """One rank alone takes nothing."""
    assert bus_factor(operation, 1) == 0
    assert bus_factor(operation, ranks) <= bus_factor(operation, ranks + 1) < 2
    assert bus_factor("all-reduce", ranks) == pytest.approx(bus_factor("reduce-scatter", ranks) + bus_factor("all-gather", ranks))


@pytest.mark.parametrize("bad", [0, -1, nan, inf, 1e30])
def test_numbers_that_cannot_be_are_refused(bad: float) -> None:
    """With a sentence that names them."""
    with pytest.raises(ValueError, match=r"^bus_bytes_per_s must be .*\.$"):
        collective_s("all-reduce", 1e9, 8, bad)
    with pytest.raises(ValueError, match="operation must be one of all-reduce"):
        bus_factor("allreduce", 8)
