"""Roofline and bounds of serving: the worked examples."""

from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.planners.cards import named
from advisor.planners.roofline import balance, first_token_s, roofline, token_s

CLOSE = 0.005
TB = 1e12


@pytest.mark.parametrize(("weights", "ms", "tokens"), [(141.1e9, 5.26, 189.9), (70.55e9, 2.63, 379.9)], ids=["BF16", "FP8"])
def test_a_70b_model_on_eight_h100(weights: float, ms: float, tokens: float) -> None:
    """Each token reads all weights once."""
    told = roofline(weights, 3.35 * TB, gpus=8)

    assert told.token_s * 1000 == pytest.approx(ms, rel=CLOSE)
    assert told.tokens_per_s == pytest.approx(tokens, rel=CLOSE)


@pytest.mark.parametrize(("bandwidth", "ms"), [(3.35, 4.79), (4.8, 3.35), (0.3, 53.5)], ids=["H100", "H200", "L4"])
def test_an_8b_model_on_one_card(bandwidth: float, ms: float) -> None:
    """16.06 GB of weights."""
    assert token_s(16.06e9, bandwidth * TB) * 1000 == pytest.approx(ms, rel=CLOSE)


@pytest.mark.parametrize(
    ("peak", "bandwidth", "told"),
    [(125, 0.90, 139), (312, 1.555, 201), (312, 2.04, 153), (989, 3.35, 295), (989, 4.8, 206), (2250, 8.0, 281), (121, 0.30, 403)],
    ids=["V100", "A100-40", "A100-80", "H100", "H200", "B200", "L4"],
)  # fmt: skip
def test_machine_balance(peak: float, bandwidth: float, told: float) -> None:
    """Operations a byte."""
    assert balance(peak * TB, bandwidth * TB) == pytest.approx(told, rel=CLOSE)


@pytest.mark.parametrize(
    ("card", "dtype", "told"),
    [("V100 SXM2 32GB", "fp16", 139), ("A100 SXM 40GB", "bf16", 201), ("A100 SXM 80GB", "bf16", 153), ("H100 SXM", "bf16", 295),
     ("H200 SXM", "bf16", 206), ("B200 SXM", "bf16", 281), ("L4", "bf16", 403)],
)  # fmt: skip
def test_machine_balance_of_the_card_table(card: str, dtype: str, told: float) -> None:
    """The table's figures give the same."""
    row = named(card)

    assert row.memory_bytes_per_s is not None
    assert balance(row.dense_flop_per_s[dtype], row.memory_bytes_per_s) == pytest.approx(told, rel=CLOSE)


def test_a_prompt_of_4096_tokens() -> None:
    """70.55e9 parameters on eight H100 at half of their peak; attention comes on top."""
    assert first_token_s(70.55e9, 4096, 989 * TB, 8, 0.5) == pytest.approx(0.146, rel=CLOSE)
    assert first_token_s(70.55e9, 4096, 989 * TB, 8, 0.5, 80, 64, 128) == pytest.approx(
        (2 * 70.55e9 * 4096 + 2 * 80 * 64 * 128 * 4096**2) / (8 * 989 * TB * 0.5)
    )


@settings(deadline=None)
@given(st.floats(1e8, 1e12), st.floats(0, 1e11), st.floats(1e11, 1e13), st.integers(1, 64))
def test_cache_makes_a_token_slower_and_gpus_faster(weights: float, cache: float, bandwidth: float, gpus: int) -> None:
    """In proportion."""
    told = roofline(weights, bandwidth, cache, gpus)

    assert told.token_s >= token_s(weights, bandwidth, gpus)
    assert told.token_s * gpus == pytest.approx(roofline(weights, bandwidth, cache).token_s)
    assert told.balance_flop_per_byte is None


@pytest.mark.parametrize("bad", [0, -1, nan, inf, 1e30])
def test_numbers_that_cannot_be_are_refused(bad: float) -> None:
    """With a sentence that names them."""
    with pytest.raises(ValueError, match=r"^bandwidth_bytes_per_s must be .*\.$"):
        token_s(1e9, bad)
    with pytest.raises(ValueError, match="needs peak_flop_per_s or a card"):
        roofline(1e9, 1e12, parameters=8e9, prompt_tokens=10)
