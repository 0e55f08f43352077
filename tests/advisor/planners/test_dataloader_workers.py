"""DataLoader workers: the worked examples."""

from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.planners.dataloader_workers import dataloader_workers, read_bytes_per_s, shm_bytes, workers_cap, workers_needed

GIB = 2.0**30
IMAGE = 3 * 224 * 224
CLOSE = 0.005


@pytest.mark.parametrize(("sample_time_s", "batch", "step_s", "told"), [(0.012, 256, 0.35, 11), (0.004, 64, 0.25, 2)])
def test_workers_that_keep_up(sample_time_s: float, batch: int, step_s: float, told: int) -> None:
    """A quarter more than 8.78 and 1.02."""
    assert workers_needed(sample_time_s, batch, step_s) == told


@pytest.mark.parametrize(("cores", "ranks", "told"), [(16, 1, 15), (96, 8, 11), (8, 8, 0), (4, 8, 0)])
def test_workers_that_there_are_cores_for(cores: int, ranks: int, told: int) -> None:
    """Beside each rank's own process; never below none."""
    assert workers_cap(cores, ranks) == told


@pytest.mark.parametrize(("size", "gib"), [(4, 9.19), (1, 2.30)], ids=["FP32", "uint8"])
def test_shared_memory_of_prefetched_images(size: int, gib: float) -> None:
    """16 workers, 4 batches of 256 ahead; eight ranks take eight times that."""
    assert shm_bytes(16, 4, 256, IMAGE * size) / GIB == pytest.approx(gib, rel=CLOSE)
    assert shm_bytes(16, 4, 256, IMAGE * size, 8) / GIB == pytest.approx(8 * gib, rel=CLOSE)


def test_shared_memory_of_eight_ranks() -> None:
    """73.5 GiB in FP32."""
    assert shm_bytes(16, 4, 256, IMAGE * 4, 8) / GIB == pytest.approx(73.5, rel=CLOSE)


def test_reads_of_a_gpu_and_of_a_node() -> None:
    """731.4 images of 110 kB a second."""
    assert read_bytes_per_s(256, 0.35, 1) == pytest.approx(731.4, rel=CLOSE)
    assert read_bytes_per_s(256, 0.35, 110e3) == pytest.approx(80.5e6, rel=CLOSE)
    assert read_bytes_per_s(256, 0.35, 110e3, 8) == pytest.approx(0.644e9, rel=CLOSE)


def test_a_node_with_too_few_cores_is_told() -> None:
    """The workers are then what there are cores for."""
    short = dataloader_workers(0.012, 256, 0.35, cores=64, ranks=8, sample_size_bytes=IMAGE)
    enough = dataloader_workers(0.012, 256, 0.35, cores=96, ranks=8)

    assert (short.workers_needed, short.workers_cap, short.workers, short.cpu_bound) == (11, 7, 7, True)
    assert (enough.workers, enough.cpu_bound, enough.shm_bytes, enough.read_bytes_per_s) == (11, False, None, None)
    assert short.shm_bytes == 7 * 2 * 256 * IMAGE * 8


@settings(deadline=None)
@given(st.floats(1e-5, 1), st.integers(1, 1000), st.floats(0.01, 10), st.integers(1, 256), st.integers(1, 8))
def test_no_rank_gets_more_workers_than_cores(sample_time_s: float, batch: int, step_s: float, cores: int, ranks: int) -> None:
    """Whatever it needs."""
    told = dataloader_workers(sample_time_s, batch, step_s, cores, ranks)

    assert told.workers <= told.workers_needed
    assert (told.workers + 1) * ranks <= max(cores, ranks)


@pytest.mark.parametrize("bad", [0, -1, nan, inf, 1e30])
def test_numbers_that_cannot_be_are_refused(bad: float) -> None:
    """With a sentence that names them."""
    with pytest.raises(ValueError, match=r"^step_s must be .*\.$"):
        workers_needed(0.01, 256, bad)
    with pytest.raises(ValueError, match="check their units"):
        workers_needed(1e6, 1e9, 1e-9)
