"""Batch and pipeline arithmetic: the worked examples."""

from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.planners.batch import batch, bytes_per_sample, global_batch, largest_micro_batch, pipeline_bubble

GIB = 2.0**30


def test_global_batch() -> None:
    """Micro-batch 4, accumulation 8, 16 ranks."""
    assert global_batch(4, 8, 16) == 512


@pytest.mark.parametrize(("micro_batches", "pct"), [(8, 46.7), (32, 17.9), (64, 9.9)])
def test_bubble_of_eight_stages(micro_batches: int, pct: float) -> None:
    """More micro-batches fill it."""
    assert pipeline_bubble(8, micro_batches) * 100 == pytest.approx(pct, rel=0.005)


def test_largest_micro_batch_of_two_measurements() -> None:
    """22 GiB with 4, 34 GiB with 8, on 80 GiB: 3 GiB each, 20 in all."""
    assert bytes_per_sample(4, 22 * GIB, 8, 34 * GIB) == pytest.approx(3 * GIB)
    assert largest_micro_batch(4, 22 * GIB, 8, 34 * GIB, 80 * GIB) == 20
    assert largest_micro_batch(4, 22 * GIB, 8, 34 * GIB, 8 * GIB) == 0


def test_the_plan_holds_all_three() -> None:
    """Accumulation fills the pipeline; without measurements nothing is guessed."""
    told = batch(
        4, 8, 16, 8, first_batch=4, first_peak_bytes=22 * GIB, second_batch=8, second_peak_bytes=34 * GIB, memory_bytes=80 * GIB
    )
    bare = batch(4)

    assert (told.global_batch, told.largest_micro_batch) == (512, 20)
    assert told.bubble_ratio == pytest.approx(7 / 15)
    assert (bare.bubble_ratio, bare.bytes_per_sample, bare.largest_micro_batch) == (0, None, None)


@settings(deadline=None)
@given(st.integers(1, 64), st.integers(1, 512), st.integers(1, 16))
def test_a_bubble_is_a_share_and_chunks_shorten_it(stages: int, micro_batches: int, chunks: int) -> None:
    """One stage has none."""
    plain = pipeline_bubble(stages, micro_batches)

    assert 0 <= pipeline_bubble(stages, micro_batches, chunks) <= plain < 1
    assert pipeline_bubble(1, micro_batches, chunks) == 0


@settings(deadline=None)
@given(st.floats(1e9, 5e10), st.floats(1e7, 1e10), st.floats(6e10, 3e11))
def test_the_largest_micro_batch_fits_and_one_more_does_not(base: float, a_sample: float, memory: float) -> None:
    """By the line through the two measurements."""
    first, second = base + 2 * a_sample, base + 4 * a_sample
    largest = largest_micro_batch(2, first, 4, second, memory)

    assert largest == 0 or base + largest * a_sample <= 0.9 * memory * (1 + 1e-9)
    assert base + (largest + 1) * a_sample > 0.9 * memory * (1 - 1e-9)


@pytest.mark.parametrize("bad", [0, -1, nan, inf, 1e30, 2.5])
def test_numbers_that_cannot_be_are_refused(bad: float) -> None:
    """With a sentence that names them."""
    with pytest.raises(ValueError, match=r"^micro_batch must be .*\.$"):
        global_batch(bad, 8, 16)  # type: ignore[arg-type]


def test_measurements_that_tell_nothing_are_refused() -> None:
    """The same batch twice, one that takes less, half a measurement."""
    with pytest.raises(ValueError, match="must differ"):
        bytes_per_sample(4, GIB, 4, 2 * GIB)
    with pytest.raises(ValueError, match="must take more memory"):
        bytes_per_sample(4, 2 * GIB, 8, GIB)
    with pytest.raises(ValueError, match="needs two measurements"):
        batch(4, first_batch=4)
