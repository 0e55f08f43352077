"""Inference memory: the worked examples of weights, cache and concurrency."""

from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.planners.inference_memory import (
    inference_memory,
    kv_bytes_per_token,
    kv_pool_bytes,
    mla_bytes_per_token,
    weights_bytes,
)

GB = 1e9
GIB = 2.0**30
CLOSE = 0.005


@pytest.mark.parametrize(
    ("bits", "gb", "gib"), [(16, 14.0, 13.04), (8, 7.0, 6.52), (4.5, 3.94, 3.667)], ids=["FP16", "INT8", "4-bit"]
)
def test_weights_of_a_7b_model(bits: float, gb: float, gib: float) -> None:
    """INT8 needs more than 6 GB, whatever is said."""
    told = weights_bytes([(7e9, bits, 0.0)])

    assert told == pytest.approx(gb * GB, rel=CLOSE)
    assert told / GIB == pytest.approx(gib, rel=CLOSE)


@pytest.mark.parametrize(
    ("layers", "heads", "size", "told"),
    [(32, 8, 2, 131_072), (80, 8, 2, 327_680), (126, 8, 2, 516_096), (32, 32, 2, 524_288), (80, 8, 1, 163_840)],
    ids=["8B", "70B", "405B", "Llama-2-7B", "70B, FP8"],
)
def test_cache_of_a_token(layers: int, heads: int, size: float, told: int) -> None:
    """Keys and values of heads of 128."""
    assert kv_bytes_per_token(layers, heads, 128, size) == told


@pytest.mark.parametrize(("size", "told"), [(2, 70_272), (1, 35_136)])
def test_latent_cache_of_a_token(size: float, told: int) -> None:
    """61 layers, 512 latent and 64 rotary values."""
    assert mla_bytes_per_token(61, 512, 64, size) == told


@pytest.mark.parametrize(
    ("parameters", "bits", "layers", "kv_bytes", "gpus", "memory", "overhead", "pool_gb", "tokens", "requests"),
    [
        (70.55e9, 16, 80, 2, 4, 79.6 * GIB, 4e9, 157.43, 480_435, 117),
        (70.55e9, 8, 80, 2, 2, 79.6 * GIB, 4e9, 78.71, 240_217, 58),
        (70.55e9, 8, 80, 1, 2, 79.6 * GIB, 4e9, 78.71, 480_435, 117),
        (8.03e9, 16, 32, 2, 1, 79.6 * GIB, 4e9, 58.57, 446_870, 109),
        (8.03e9, 16, 32, 2, 1, 22.5 * GIB, 1.5e9, 4.666, 35_602, 8),
    ],
)
def test_tokens_and_requests_that_fit(
    parameters: float, bits: float, layers: int, kv_bytes: float, gpus: int, memory: float, overhead: float,
    pool_gb: float, tokens: int, requests: int,
) -> None:  # fmt: skip
    """A fraction of 0.92, requests of 4,096 tokens, FP8 without scales."""
    told = inference_memory(parameters, layers, memory, bits, kv_bytes_per_value=kv_bytes, gpus=gpus, overhead_bytes=overhead)

    assert told.kv_pool_bytes == pytest.approx(pool_gb * GB, rel=CLOSE)
    assert told.tokens == pytest.approx(tokens, rel=1e-4)
    assert told.concurrency == requests
    assert told.fits


def test_one_long_sequence_of_llama_2_7b() -> None:
    """4,096 tokens of all heads."""
    assert 4096 * kv_bytes_per_token(32, 32, 128, 2) == pytest.approx(2.147 * GB, rel=CLOSE)


def test_weights_that_do_not_fit_leave_no_token() -> None:
    """Not a negative number of them."""
    told = inference_memory(70.55e9, 80, 80e9)

    assert (told.tokens, told.concurrency, told.fits) == (0, 0, False)
    assert told.kv_pool_bytes < 0


def test_more_gpus_than_heads_hold_copies() -> None:
    """16 GPUs and 8 heads: each token takes twice the memory; a latent cache is on every GPU."""
    assert (
        inference_memory(8e9, 32, 80e9, gpus=16).kv_bytes_per_token
        == 2 * inference_memory(8e9, 32, 80e9, gpus=8).kv_bytes_per_token
    )
    assert inference_memory(8e9, 61, 80e9, latent_dim=512, gpus=4).kv_bytes_per_token == 4 * 70_272


@settings(deadline=None)
@given(st.floats(1e8, 3e10), st.floats(1.0, 16.0), st.floats(8e9, 3e11), st.integers(1, 16))
def test_all_memory_is_somewhere(parameters: float, bits: float, memory: float, gpus: int) -> None:
    """Weights, cache and overhead are what the engine may take."""
    told = inference_memory(parameters, 32, memory, bits, gpus=gpus)

    assert told.weights_bytes + told.kv_pool_bytes + gpus * 4e9 == pytest.approx(gpus * memory * 0.92)
    assert told.tokens * told.kv_bytes_per_token <= max(0.0, told.kv_pool_bytes)


@pytest.mark.parametrize("bad", [0, -1, nan, inf, 1e30])
def test_numbers_that_cannot_be_are_refused(bad: float) -> None:
    """With a sentence that names them."""
    with pytest.raises(ValueError, match=r"^bits must be .*\.$"):
        weights_bytes([(7e9, bad, 0.0)])
    with pytest.raises(ValueError, match=r"^bytes_per_value must be .*\.$"):
        kv_bytes_per_token(32, 8, 128, bad)
    with pytest.raises(ValueError, match=r"^memory_fraction .*\.$"):
        kv_pool_bytes(1, 80e9, 1.2, 0, 0)
