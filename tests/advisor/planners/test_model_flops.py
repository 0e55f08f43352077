"""Model FLOPs utilisation: the worked examples."""

from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.planners.model_flops import PASSES, flop_per_token, mfu, model_flops, tokens_per_s_at

CLOSE = 0.005
H100 = 989.4e12


@pytest.mark.parametrize(
    ("parameters", "layers", "heads", "sequence", "told"),
    [(8.03e9, 32, 32, 8192, 6.1065e10), (70.55e9, 80, 64, 8192, 4.8772e11), (175e9, 96, 96, 2048, 1.07899e12)],
    ids=["8B", "70B", "175B"],
)
def test_operations_of_a_token(parameters: float, layers: int, heads: int, sequence: int, told: float) -> None:
    """Heads of 128, full attention."""
    assert flop_per_token(parameters, layers, heads, 128, sequence) == pytest.approx(told, rel=1e-4)


def test_utilisation_of_an_h100() -> None:
    """An 8B model at 7,000 and a 70B one at 900 tokens/s."""
    small = model_flops(8.03e9, 32, 32, 128, 8192, H100, tokens_per_s=7000, matmul_flop_per_s=794.5e12)
    large = model_flops(70.55e9, 80, 64, 128, 8192, H100, tokens_per_s=900)

    assert small.achieved_flop_per_s == pytest.approx(427.5e12, rel=CLOSE)
    assert small.mfu_ratio == pytest.approx(0.432, rel=CLOSE)
    assert small.of_measured_ratio == pytest.approx(427.5 / 794.5, rel=CLOSE)
    assert large.mfu_ratio == pytest.approx(0.444, rel=CLOSE)
    assert large.of_measured_ratio is None


def test_throughput_at_a_utilisation() -> None:
    """The 175B shape at 0.552 of an A100; a speed-up of 1.34 times began at 0.412."""
    told = model_flops(175e9, 96, 96, 128, 2048, 312e12, target_mfu=0.552)

    assert told.tokens_per_s_at_target == pytest.approx(159.6, rel=CLOSE)
    assert (told.mfu_ratio, told.achieved_flop_per_s) == (None, None)
    assert mfu(told.flop_per_token, 159.6 / 1.34, 312e12) == pytest.approx(0.412, rel=CLOSE)


def test_causal_attention_counts_by_half() -> None:
    """And the weights do not change."""
    full, half = (flop_per_token(8e9, 32, 32, 128, 8192, causal=causal) for causal in (False, True))

    assert full - half == pytest.approx((full - 6 * 8e9) / 2)


def test_each_pass_has_its_factors() -> None:
    """Forward is a third of training, a frozen base needs no gradients of its weights, full recompute one forward more."""
    told = {passes: flop_per_token(8e9, 32, 32, 128, 8192, passes) for passes in PASSES}

    assert told["forward"] == pytest.approx(told["training"] / 3)
    assert told["full-recompute"] == pytest.approx(told["training"] + told["forward"])
    assert told["frozen-base"] == pytest.approx(told["training"] - 2 * 8e9)


@settings(deadline=None)
@given(st.floats(1e-3, 1.0), st.floats(1e8, 1e13), st.floats(1e12, 1e16))
def test_utilisation_and_throughput_are_inverse(share: float, flop: float, peak: float) -> None:
    """Either way round."""
    assert mfu(flop, tokens_per_s_at(flop, share, peak), peak) == pytest.approx(share)


@pytest.mark.parametrize("bad", [0, -1, nan, inf, 1e30])
def test_numbers_that_cannot_be_are_refused(bad: float) -> None:
    """With a sentence that names them."""
    with pytest.raises(ValueError, match=r"^peak_flop_per_s must be .*\.$"):
        mfu(6e10, 7000, bad)
    with pytest.raises(ValueError, match=r"^mfu_ratio .*\.$"):
        tokens_per_s_at(6e10, 1.5, 1e15)
    with pytest.raises(ValueError, match="passes must be one of training"):
        flop_per_token(8e9, 32, 32, 128, 8192, "backward")
