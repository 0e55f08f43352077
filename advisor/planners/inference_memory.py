"""Inference memory: the weights, the KV cache of a token, and how many tokens and requests fit beside the weights."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from advisor.planners import inputs
from advisor.planners.idle import behind, without
from advisor.planners.planner import Caution, Parameter, Planner, shown
from advisor.planners.plot import Plot
from advisor.text import _


@dataclass(frozen=True, slots=True)
class InferenceMemory:
    """A serving engine's memory over all its GPUs; where `fits` is False the weights leave no cache."""

    weights_bytes: float = shown(_("Weights"), "bytes")
    kv_bytes_per_token: float = shown(_("KV cache of a token"), "bytes")
    kv_pool_bytes: float = shown(_("Left for the KV cache"), "bytes")
    tokens: int = shown(_("Tokens that fit"), "count")
    concurrency: int = shown(_("Requests at once"), "count")
    fits: bool = shown(_("Weights fit and leave a cache"), "flag")


def weights_bytes(groups: Iterable[tuple[float, float, float]]) -> float:
    """Bytes of weights: of each group of tensors its parameters, bits a parameter and the share that scales add."""
    total = 0.0
    for parameters, bits, scale_overhead in groups:
        inputs.positive(parameters=parameters, bits=bits)
        inputs.not_negative(scale_overhead=scale_overhead)
        total += parameters * bits / 8 * (1 + scale_overhead)
    return total


def kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, bytes_per_value: float) -> float:
    """Bytes of keys and values of one token, over all GPUs that share the heads."""
    inputs.whole(layers=layers, kv_heads=kv_heads, head_dim=head_dim)
    inputs.positive(bytes_per_value=bytes_per_value)
    return 2.0 * layers * kv_heads * head_dim * bytes_per_value


def mla_bytes_per_token(layers: int, latent_dim: int, rope_dim: int, bytes_per_value: float) -> float:
    """Bytes of the latent cache of one token of a model with multi-head latent attention, on each GPU that holds it."""
    inputs.whole(layers=layers, latent_dim=latent_dim)
    inputs.not_negative(rope_dim=rope_dim)
    inputs.positive(bytes_per_value=bytes_per_value)
    return float(layers) * (latent_dim + rope_dim) * bytes_per_value


def kv_pool_bytes(gpus: int, memory_bytes: float, memory_fraction: float, overhead_bytes: float, weights: float) -> float:
    """Bytes left for the cache over all GPUs; below 0 where the weights do not fit."""
    inputs.whole(gpus=gpus)
    inputs.positive(memory_bytes=memory_bytes)
    inputs.share(memory_fraction=memory_fraction)
    inputs.not_negative(overhead_bytes=overhead_bytes, weights=weights)
    return gpus * (memory_bytes * memory_fraction - overhead_bytes) - weights


def inference_memory(
    parameters: float,
    layers: int,
    memory_bytes: float,
    bits: float = 16.0,
    scale_overhead: float = 0.0,
    kv_heads: int = 8,
    head_dim: int = 128,
    latent_dim: int | None = None,
    rope_dim: int = 64,
    kv_bytes_per_value: float = 2.0,
    gpus: int = 1,
    memory_fraction: float = 0.92,
    overhead_bytes: float = 4e9,
    request_tokens: float = 4096.0,
) -> InferenceMemory:
    """Tokens and requests that fit on `gpus` GPUs with tensor parallelism. Heads that are fewer than the GPUs are held several times,
    and a latent cache on each GPU."""
    inputs.positive(request_tokens=request_tokens)
    weights = weights_bytes([(parameters, bits, scale_overhead)])
    if latent_dim is None:
        a_token, copies = kv_bytes_per_token(layers, kv_heads, head_dim, kv_bytes_per_value), max(1.0, gpus / kv_heads)
    else:
        a_token, copies = mla_bytes_per_token(layers, latent_dim, rope_dim, kv_bytes_per_value), float(gpus)
    pool = kv_pool_bytes(gpus, memory_bytes, memory_fraction, overhead_bytes, weights)
    tokens = max(0, math.floor(pool / (a_token * copies)))
    return InferenceMemory(weights, a_token * copies, pool, tokens, math.floor(tokens / request_tokens), tokens > 0)


PLANNER: Final = Planner(
    name="inference-memory",
    title=_("Inference memory and concurrency"),
    about=_("Weights and KV cache of a language model, and how many requests fit at once"),
    formula=(
        _("weights = parameters*bits/8*(1 + scale overhead)"),
        _("KV of a token = 2*layers*KV heads*head dim*bytes; with latent attention layers*(latent + rope)*bytes"),
        _("pool = GPUs*(memory*fraction - overhead) - weights; tokens = pool/KV of a token; requests = tokens/tokens of a request"),
    ),
    assumptions=(
        _("One engine over all GPUs by tensor parallelism; KV heads are copied where GPUs outnumber them, a latent cache is on each GPU."),
        _("Overhead is all else on a GPU at its peak: context, activations, graphs. Take it from the engine's log."),
        _("Scales add about 0.01 for FP8 by channel; NVFP4 is 4.5 bits; AWQ and GPTQ with groups of 128 add 0.03 to 0.06."),
        _("The fraction 0.92 is vLLM's default; take the 95th percentile for the tokens of a request."),
    ),
    sources=("https://docs.vllm.ai/en/stable/configuration/engine_args.html",),
    parameters=(
        Parameter("parameters", "count", _("Parameters of the model, all experts"), low=1, slider=(1e9, 2e12)),
        Parameter("bits", "count", _("Bits a weight"), default=16.0, low=1, high=64, slider=(4, 32)),
        Parameter("scale_overhead", "ratio", _("What scales add to the weights"), default=0.0, high=1, slider=(0, 0.2)),
        Parameter("layers", "count", _("Layers"), low=1, high=1e5, slider=(1, 256), whole=True),
        Parameter("kv_heads", "count", _("Heads of keys and values"), default=8, low=1, high=1e5, slider=(1, 128), whole=True),
        Parameter("head_dim", "count", _("Size of a head"), default=128, low=1, high=1e5, slider=(32, 512), whole=True),
        Parameter("latent_dim", "count", _("Size of the latent cache, for latent attention"), optional=True, low=1, high=1e6, slider=(128, 1024), whole=True),
        Parameter("rope_dim", "count", _("Size of the rotary part, for latent attention"), default=64, high=1e6, slider=(0, 256), whole=True),
        Parameter("kv_bytes_per_value", "count", _("Bytes of a value in the cache: 2 for BF16, 1 for FP8"), default=2.0, low=0.1, high=8, slider=(0.5, 4)),
        Parameter("gpus", "count", _("GPUs of the engine"), default=1, low=1, high=1e5, slider=(1, 16), whole=True),
        Parameter("memory_bytes", "bytes", _("Memory of a GPU, as its driver reports it"), low=1, slider=(8e9, 3e11), of_card="memory_bytes"),
        Parameter("memory_fraction", "ratio", _("Of the memory, what the engine may take"), default=0.92, low=0.01, high=1, slider=(0.5, 1)),
        Parameter("overhead_bytes", "bytes", _("All else on a GPU"), default=4e9, high=1e15, slider=(0, 2e10)),
        Parameter("request_tokens", "count", _("Tokens of a request: prompt and output"), default=4096.0, low=1, high=1e9, slider=(128, 131072)),
    ),
    call=inference_memory,
    result=InferenceMemory,
    example={"parameters": "70.55B", "layers": "80", "gpus": "4", "memory_bytes": "79.6GiB"},
    answers=("concurrency", "tokens", "kv_pool_bytes"),
    cautions=(
        Caution("fits", lambda fits: not fits, _("The weights leave no room for a cache: take more GPUs, or fewer bits a weight.")),
        Caution("concurrency", lambda requests: requests == 0, _("Not one request of that length fits.")),
    ),
    idle=(behind("kv_heads head_dim", "latent_dim"), without("rope_dim", "latent_dim")),
    plots=(Plot(_("Requests at once over the tokens of a request"), "request_tokens", ("concurrency",), span=16),),
)  # fmt: skip
