"""Model FLOPs utilisation: the operations that a model needs for each token, against what the GPU could do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from advisor.planners import inputs
from advisor.planners.idle import Idle, without
from advisor.planners.planner import Caution, Parameter, Planner, shown
from advisor.planners.plot import Plot
from advisor.text import _

PASSES: Final[dict[str, tuple[int, int]]] = {
    "training": (6, 12),
    "frozen-base": (4, 12),
    "full-recompute": (8, 16),
    "forward": (2, 4),
}
"""Operations of a token for each parameter, and for each product of layers, heads, head size and sequence. A frozen base (LoRA) needs
no gradients of its weights. With full recompute the quotient is HFU: hardware operations, more than the model needs."""


@dataclass(frozen=True, slots=True)
class ModelFlops:
    """`mfu_ratio` is None where no throughput was given, `tokens_per_s_at_target` where no target was."""

    flop_per_token: float = shown(_("Operations for a token"), "flop")
    achieved_flop_per_s: float | None = shown(_("Achieved on a GPU"), "flop_per_second")
    mfu_ratio: float | None = shown(_("Model FLOPs utilisation"), "ratio")
    of_measured_ratio: float | None = shown(_("Of the fastest matrix product measured"), "ratio")
    tokens_per_s_at_target: float | None = shown(_("Tokens of a GPU at the target"), "per_second")


def flop_per_token(
    parameters: float, layers: int, heads: int, head_dim: int, sequence: int, passes: str = "training", causal: bool = False
) -> float:
    """Operations for one token. `parameters` are the active ones, without the embedding's lookup; `causal` counts half of the attention."""
    inputs.positive(parameters=parameters)
    inputs.whole(layers=layers, heads=heads, head_dim=head_dim, sequence=sequence)
    inputs.one_of("passes", passes, tuple(PASSES))
    weights, attention = PASSES[passes]
    return weights * parameters + float(attention) * layers * heads * head_dim * sequence * (0.5 if causal else 1.0)


def mfu(flop_of_a_token: float, tokens_per_s_per_gpu: float, peak_flop_per_s: float) -> float:
    """Share of the dense peak that the model's own operations reach."""
    inputs.positive(flop_of_a_token=flop_of_a_token, tokens_per_s_per_gpu=tokens_per_s_per_gpu, peak_flop_per_s=peak_flop_per_s)
    return flop_of_a_token * tokens_per_s_per_gpu / peak_flop_per_s


def tokens_per_s_at(flop_of_a_token: float, mfu_ratio: float, peak_flop_per_s: float) -> float:
    """Tokens a second of one GPU at that utilisation."""
    inputs.positive(flop_of_a_token=flop_of_a_token, peak_flop_per_s=peak_flop_per_s)
    inputs.share(mfu_ratio=mfu_ratio)
    return mfu_ratio * peak_flop_per_s / flop_of_a_token


def model_flops(
    parameters: float,
    layers: int,
    heads: int,
    head_dim: int,
    sequence: int,
    peak_flop_per_s: float,
    passes: str = "training",
    causal: bool = False,
    tokens_per_s: float | None = None,
    target_mfu: float | None = None,
    matmul_flop_per_s: float | None = None,
) -> ModelFlops:
    """Operations for a token, the utilisation at a throughput and the throughput at a utilisation; tokens are those of one GPU."""
    a_token = flop_per_token(parameters, layers, heads, head_dim, sequence, passes, causal)
    achieved = None if tokens_per_s is None else a_token * tokens_per_s
    if matmul_flop_per_s is not None:
        inputs.positive(matmul_flop_per_s=matmul_flop_per_s)
    return ModelFlops(
        flop_per_token=a_token,
        achieved_flop_per_s=achieved,
        mfu_ratio=None if tokens_per_s is None else mfu(a_token, tokens_per_s, peak_flop_per_s),
        of_measured_ratio=None if achieved is None or matmul_flop_per_s is None else achieved / matmul_flop_per_s,
        tokens_per_s_at_target=None if target_mfu is None else tokens_per_s_at(a_token, target_mfu, peak_flop_per_s),
    )


def _up_to_peak(taken: Mapping[str, Any], _result: ModelFlops, x: float) -> Mapping[str, float | None]:
    """Utilisation at `x` tokens/s; nothing beyond the peak, where no GPU goes."""
    there = model_flops(**{**taken, "tokens_per_s": x})
    if there.mfu_ratio is None or there.mfu_ratio > 1:
        return {}
    return {"mfu_ratio": there.mfu_ratio, "of_measured_ratio": there.of_measured_ratio}


PLANNER: Final = Planner(
    name="model-flops",
    title=_("Model FLOPs utilisation (MFU)"),
    about=_("Operations a token, and how much of the GPU's peak a throughput is"),
    formula=(
        _("training 6*N + 12*L*H*Q*T; frozen base 4*N + 12*L*H*Q*T; full recompute 8*N + 16*L*H*Q*T; forward 2*N + 4*L*H*Q*T"),
        _("MFU = operations of a token*tokens/s of a GPU/dense peak"),
    ),
    assumptions=(
        _("N are the active parameters, L layers, H heads, Q the size of a head, T the sequence; attention is counted in full unless causal."),
        _("The peak is dense and of the number format of most matrix products; figures with sparsity are twice that."),
        _("With full recompute the quotient is HFU, what the hardware does, not MFU."),
        _("The matrix product that the card table tells was measured in BF16 alone."),
    ),
    sources=("https://arxiv.org/abs/2204.02311", "https://arxiv.org/abs/2402.15627"),
    parameters=(
        Parameter("parameters", "count", _("Active parameters"), low=1, slider=(1e8, 1e12)),
        Parameter("layers", "count", _("Layers"), low=1, high=1e5, slider=(1, 256), whole=True),
        Parameter("heads", "count", _("Attention heads"), low=1, high=1e5, slider=(1, 256), whole=True),
        Parameter("head_dim", "count", _("Size of a head"), default=128, low=1, high=1e5, slider=(32, 512), whole=True),
        Parameter("sequence", "count", _("Tokens in a sequence"), low=1, high=1e9, slider=(512, 131072), whole=True),
        Parameter("peak_flop_per_s", "flop_per_second", _("Dense peak of the GPU"), low=1, slider=(1e13, 1e16), of_card="peak"),
        Parameter("passes", "words", _("What is computed for a token"), default="training", choices=tuple(PASSES)),
        Parameter("causal", "flag", _("Whether attention is causal and counts by half"), default=False),
        Parameter("tokens_per_s", "per_second", _("Tokens a second of one GPU"), optional=True, low=1e-9, slider=(1, 1e5)),
        Parameter("target_mfu", "ratio", _("A utilisation to reach"), optional=True, low=1e-6, high=1, slider=(0.1, 0.8)),
        Parameter("matmul_flop_per_s", "flop_per_second", _("The fastest matrix product measured"), optional=True, low=1, slider=(1e13, 1e16), of_card="bf16_matmul_flop_per_s"),
    ),
    call=model_flops,
    result=ModelFlops,
    example={"parameters": "8.03B", "layers": "32", "heads": "32", "sequence": "8192", "tokens_per_s": "7000", "card": "H100 SXM"},
    answers=("mfu_ratio", "achieved_flop_per_s", "tokens_per_s_at_target"),
    cautions=(
        Caution("mfu_ratio", lambda ratio: ratio > 1, _("That is more than the peak: are the tokens those of one GPU, and is the peak of the format that is used?")),
        Caution("of_measured_ratio", lambda ratio: ratio > 1, _("That is more than the fastest matrix product that was measured: check the tokens a second.")),
    ),
    idle=(
        without("matmul_flop_per_s", "tokens_per_s"),
        Idle(("peak_flop_per_s",), lambda taken: taken["tokens_per_s"] is None and taken["target_mfu"] is None, "tokens_per_s / target_mfu"),
    ),
    plots=(Plot(_("Utilisation over the tokens a second of a GPU"), "tokens_per_s", ("mfu_ratio", "of_measured_ratio"), curve=_up_to_peak, from_zero=True, span=2.5),),
)  # fmt: skip
