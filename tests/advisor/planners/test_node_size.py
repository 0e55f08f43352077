"""Node sizing: the worked examples."""

from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.planners.collectives import collective_s
from advisor.planners.node_size import checkpoint_write_bytes_per_s, cores, host_memory_bytes, network_bytes_per_s, node_size

GB = 1e9
CLOSE = 0.005


@pytest.mark.parametrize(("workers", "told"), [(2, 28), (4, 44)])
def test_cores_for_eight_gpus(workers: int, told: int) -> None:
    """With two and four workers each."""
    assert cores(8, workers) == told


def test_host_memory_for_eight_gpus() -> None:
    """One and a half times 640 GB, or what the work takes."""
    assert host_memory_bytes(8, 80 * GB) == pytest.approx(960 * GB)
    assert host_memory_bytes(8, 80 * GB, 1.5e12) == pytest.approx(1.5e12)


def test_four_cores_and_16_gb_a_gpu_are_too_little_memory() -> None:
    """128 GB are a fifth of the GPUs' memory; 32 cores do for text."""
    told = node_size(8, 80 * GB, workers_per_gpu=2, cores_present=32, host_memory_present_bytes=128 * GB)

    assert (told.cores_suffice, told.host_memory_suffices) == (True, False)
    assert told.host_to_gpu_memory_ratio == pytest.approx(0.2)


@pytest.mark.parametrize("present", [16, 32])
def test_two_to_four_cores_a_gpu_are_too_few_for_images(present: int) -> None:
    """44 are needed."""
    assert node_size(8, 80 * GB, workers_per_gpu=4, cores_present=present).cores_suffice is False


def test_a_checkpoint_of_70b_in_a_minute() -> None:
    """987.7 GB at 16.5 GB/s."""
    told = node_size(8, 80 * GB, parameters=70.55e9)

    assert told.checkpoint_bytes == pytest.approx(987.7 * GB, rel=CLOSE)
    assert told.checkpoint_write_bytes_per_s == pytest.approx(16.5 * GB, rel=CLOSE)
    assert checkpoint_write_bytes_per_s(987.7 * GB, 60) == pytest.approx(16.5 * GB, rel=CLOSE)


def test_reads_network_and_power() -> None:
    """Each from its own inputs, unknown without them."""
    told = node_size(
        8, 80 * GB, samples_per_s=731.4, disk_size_bytes=110e3, message_bytes=16.06 * GB, ranks=64, step_s=2.0, tdp_w=700, host_power_w=2000
    )  # fmt: skip
    bare = node_size(8, 80 * GB)

    assert told.disk_read_bytes_per_s == pytest.approx(0.644 * GB, rel=CLOSE)
    assert told.power_w == pytest.approx(1.15 * 7600)
    assert told.network_bytes_per_s is not None
    assert collective_s("all-reduce", 16.06 * GB, 64, told.network_bytes_per_s) == pytest.approx(0.6)
    assert (bare.disk_read_bytes_per_s, bare.network_bytes_per_s, bare.power_w, bare.checkpoint_bytes) == (None,) * 4
    assert (bare.cores_suffice, bare.host_memory_suffices) == (None, None)


@settings(deadline=None)
@given(st.integers(1, 64), st.integers(0, 32), st.floats(1e9, 1e12))
def test_what_is_needed_suffices(gpus: int, workers: int, memory: float) -> None:
    """A node of that size is told to do, one core less is not."""
    need = node_size(gpus, memory, workers)
    exact = node_size(
        gpus, memory, workers, cores_present=need.cores_needed, host_memory_present_bytes=need.host_memory_needed_bytes
    )
    short = node_size(gpus, memory, workers, cores_present=need.cores_needed - 1)

    assert (exact.cores_suffice, exact.host_memory_suffices, short.cores_suffice) == (True, True, False)


@pytest.mark.parametrize("bad", [0, -1, nan, inf, 1e30])
def test_numbers_that_cannot_be_are_refused(bad: float) -> None:
    """With a sentence that names them."""
    with pytest.raises(ValueError, match=r"^gpu_memory_bytes must be .*\.$"):
        node_size(8, bad)
    with pytest.raises(ValueError, match=r"^step_s must be .*\.$"):
        network_bytes_per_s(1e9, 8, bad)
