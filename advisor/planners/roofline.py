"""Roofline of serving: the least time of a generated token and of a prompt, and where a card turns from memory to math."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from advisor.planners import inputs
from advisor.planners.idle import without
from advisor.planners.inputs import InputError
from advisor.planners.planner import Parameter, Planner, shown
from advisor.planners.plot import Axis, Line, Mark, Plot
from advisor.text import _


@dataclass(frozen=True, slots=True)
class Roofline:
    """Bounds that no engine beats; None where the input that they follow from was not given."""

    balance_flop_per_byte: float | None = shown(_("Machine balance: below it memory is the limit"), "flop_per_byte")
    token_s: float = shown(_("Least time of a generated token"), "seconds")
    tokens_per_s: float = shown(_("Most tokens of one stream"), "per_second")
    first_token_s: float | None = shown(_("Least time to the first token"), "seconds")


def balance(peak_flop_per_s: float, bandwidth_bytes_per_s: float) -> float:
    """Operations for each byte at which a card's math and memory take the same time."""
    inputs.positive(peak_flop_per_s=peak_flop_per_s, bandwidth_bytes_per_s=bandwidth_bytes_per_s)
    return peak_flop_per_s / bandwidth_bytes_per_s


def token_s(read_bytes: float, bandwidth_bytes_per_s: float, gpus: int = 1) -> float:
    """Least seconds of one decoding step, which reads weights and cache once from memory."""
    inputs.positive(read_bytes=read_bytes, bandwidth_bytes_per_s=bandwidth_bytes_per_s)
    inputs.whole(gpus=gpus)
    return read_bytes / (gpus * bandwidth_bytes_per_s)


def first_token_s(
    parameters: float,
    tokens: float,
    peak_flop_per_s: float,
    gpus: int = 1,
    efficiency: float = 1.0,
    layers: int = 0,
    heads: int = 0,
    head_dim: int = 0,
) -> float:
    """Least seconds to compute a prompt; without the shape of the model its attention is not counted, with it half of it (causal)."""
    inputs.positive(parameters=parameters, tokens=tokens, peak_flop_per_s=peak_flop_per_s)
    inputs.not_negative(layers=layers, heads=heads, head_dim=head_dim)
    inputs.whole(gpus=gpus)
    inputs.share(efficiency=efficiency)
    work = 2 * parameters * tokens + 4.0 * layers * heads * head_dim * tokens * tokens / 2
    return work / (gpus * peak_flop_per_s * efficiency)


def roofline(
    weights_bytes: float,
    bandwidth_bytes_per_s: float,
    kv_bytes: float = 0.0,
    gpus: int = 1,
    peak_flop_per_s: float | None = None,
    parameters: float | None = None,
    prompt_tokens: float | None = None,
    efficiency: float = 0.5,
    layers: int = 0,
    heads: int = 0,
    head_dim: int = 0,
) -> Roofline:
    """The bounds of a model whose weights and cache are spread over `gpus` GPUs."""
    inputs.positive(weights_bytes=weights_bytes)
    inputs.not_negative(kv_bytes=kv_bytes)
    a_token = token_s(weights_bytes + kv_bytes, bandwidth_bytes_per_s, gpus)
    first = None
    if parameters is not None and prompt_tokens is not None:
        if peak_flop_per_s is None:
            raise InputError(_("The time to the first token needs peak_flop_per_s or a card."), "peak_flop_per_s")
        first = first_token_s(parameters, prompt_tokens, peak_flop_per_s, gpus, efficiency, layers, heads, head_dim)
    return Roofline(
        balance_flop_per_byte=None if peak_flop_per_s is None else balance(peak_flop_per_s, bandwidth_bytes_per_s),
        token_s=a_token,
        tokens_per_s=1 / a_token,
        first_token_s=first,
    )


def _roof(taken: Mapping[str, Any], result: Roofline, flop_per_byte: float) -> Mapping[str, float | None]:
    """Operations/s of all GPUs at that intensity: those of memory, or of math where that is less."""
    if result.balance_flop_per_byte is None:
        return {}
    least = min(flop_per_byte, result.balance_flop_per_byte)
    return {"reached_flop_per_s": least * taken["gpus"] * taken["bandwidth_bytes_per_s"]}


def _phases(taken: Mapping[str, Any], result: Roofline) -> list[Mark]:
    """Where decoding one stream and computing the prompt stand: both read the weights once, for one token or for all."""
    marks = []
    if parameters := taken["parameters"]:
        marks.append(Mark(_("one token"), 2 * parameters / (taken["weights_bytes"] + taken["kv_bytes"])))
    if result.balance_flop_per_byte is not None:
        marks.append(Mark(_("balance"), result.balance_flop_per_byte))
    if parameters and (tokens := taken["prompt_tokens"]):
        marks.append(Mark(_("prompt"), 2 * parameters * tokens / taken["weights_bytes"]))
    return marks


PLANNER: Final = Planner(
    name="roofline",
    title=_("Roofline and bounds of serving"),
    about=_("The least time of a token and of a prompt, from the card's memory and math"),
    formula=(
        _("time of a token >= (weights read + KV read)/(GPUs*bandwidth); tokens/s of one stream <= 1/that"),
        _("time to first token >= (2*N*tokens + 4*L*H*Q*tokens^2/2)/(GPUs*peak*efficiency); balance = peak/bandwidth"),
    ),
    assumptions=(
        _("Weights read are those that a token touches: of a mixture of experts the active ones alone."),
        _("Launches and communication between GPUs are not in it: they come on top."),
        _("Efficiency is what matrix products reach of the peak; half is usual for prompts of a few thousand tokens."),
        _("A cache or a shape of attention that is not given is not counted: the true bound is higher then."),
    ),
    sources=("https://doi.org/10.1145/1498765.1498785",),
    parameters=(
        Parameter("weights_bytes", "bytes", _("Weights that a token reads"), low=1, slider=(1e9, 2e12)),
        Parameter("bandwidth_bytes_per_s", "bytes_per_second", _("Memory bandwidth of a GPU"), low=1, slider=(1e11, 1e13), of_card="memory_bytes_per_s"),
        Parameter("kv_bytes", "bytes", _("KV cache that a token reads"), default=0.0, slider=(0, 1e11)),
        Parameter("gpus", "count", _("GPUs that share the model"), default=1, low=1, high=1e5, slider=(1, 16), whole=True),
        Parameter("peak_flop_per_s", "flop_per_second", _("Dense peak of a GPU"), optional=True, low=1, slider=(1e13, 1e16), of_card="peak"),
        Parameter("parameters", "count", _("Active parameters, for the prompt"), optional=True, low=1, slider=(1e9, 2e12)),
        Parameter("prompt_tokens", "count", _("Tokens of the prompt"), optional=True, low=1, high=1e9, slider=(128, 131072)),
        Parameter("efficiency", "ratio", _("Of the peak, what prompts reach"), default=0.5, low=0.001, high=1, slider=(0.1, 1)),
        Parameter("layers", "count", _("Layers, to count attention"), default=0, high=1e5, slider=(0, 256), whole=True),
        Parameter("heads", "count", _("Attention heads, to count attention"), default=0, high=1e5, slider=(0, 256), whole=True),
        Parameter("head_dim", "count", _("Size of a head, to count attention"), default=0, high=1e5, slider=(0, 512), whole=True),
    ),
    call=roofline,
    result=Roofline,
    example={"weights_bytes": "141.1GB", "gpus": "8", "card": "H100 SXM", "parameters": "70.55B", "prompt_tokens": "4096"},
    answers=("token_s", "tokens_per_s", "first_token_s"),
    idle=(
        without("parameters", "prompt_tokens"),
        without("prompt_tokens", "parameters"),
        without("efficiency layers heads head_dim", "parameters", "prompt_tokens"),
        without("layers heads head_dim", "layers", "heads", "head_dim"),
    ),
    plots=(
        Plot(
            _("What the GPUs reach over the operations for each byte"), Axis(_("Operations for each byte of memory"), "flop_per_byte", 0.1, 1e4),
            (Line("reached_flop_per_s", _("Reached at most"), "flop_per_second"),), log_y=True, curve=_roof, marks=_phases,
        ),
        Plot(_("Least time of a token over the cache that it reads"), "kv_bytes", ("token_s",)),
    ),
)  # fmt: skip
