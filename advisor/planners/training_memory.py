"""Training memory of one GPU: weights, gradients, optimizer, activations, logits and what the runtime keeps."""

from dataclasses import dataclass
from typing import Final

from advisor.planners import inputs
from advisor.planners.idle import Idle, without
from advisor.planners.inputs import InputError
from advisor.planners.planner import NOT_COUNTED, Caution, Parameter, Planner, shown
from advisor.planners.plot import Plot
from advisor.text import Text, _

GIB: Final = float(1 << 30)
CONTEXT_BYTES: Final = 1.0 * GIB
NCCL_BYTES: Final = 1.0 * GIB
FRAGMENTATION: Final = 0.05
USABLE: Final = 0.92
"""Of the memory: beyond it the allocator begins to fail on fragments."""

RECIPES: Final[dict[str, tuple[float, float, float]]] = {
    "fp32-adam": (4, 4, 8),
    "mixed-adam": (2, 2, 12),
    "mixed-adam-fp32-gradients": (2, 4, 12),
    "autocast-adam": (4, 4, 8),
    "mixed-adam-8bit": (2, 2, 6),
    "bf16-adam": (2, 2, 4),
    "fp32-sgd-momentum": (4, 4, 4),
    "lora": (2, 2, 12),
    "qlora": (2, 2, 12),
}
"""Bytes for each trained parameter: weights, gradients, optimizer with its master copy."""
FROZEN_BYTES: Final = {"lora": 2.0, "qlora": 0.55}
"""Bytes for each parameter of a frozen base; 4 bits and their scales are 0.55."""
SCHEMES: Final = ("ddp", "zero1", "zero2", "zero3")
RECOMPUTE: Final = ("none", "selective", "full")


@dataclass(frozen=True, slots=True)
class TrainingMemory:
    """Bytes on one GPU; None is not counted, and then the total is the least. `fits` is None where that, or the GPU's memory, leaves it open."""

    static_bytes: float = shown(_("Weights, gradients and optimizer"), "bytes")
    activation_bytes: float | None = shown(_("Activations"), "bytes")
    logits_bytes: float | None = shown(_("Logits and their gradient"), "bytes")
    buffers_bytes: float = shown(_("CUDA context, NCCL and fragmentation"), "bytes")
    total_bytes: float = shown(_("Memory needed"), "bytes")
    memory_used_ratio: float | None = shown(_("Of the GPU's memory"), "ratio")
    fits: bool | None = shown(_("Fits, and leaves a margin"), "flag")
    not_counted: tuple[Text, ...] = shown(NOT_COUNTED, "sentences")


def static_bytes(
    parameters: float,
    recipe: str = "mixed-adam",
    scheme: str = "ddp",
    data_parallel: int = 1,
    frozen_parameters: float = 0.0,
    largest_block_parameters: float = 0.0,
) -> float:
    """Bytes of weights, gradients and optimizer on one rank.

    `parameters` are those trained of this rank's slice (all divided by tensor and pipeline parallel), `frozen_parameters` the base of
    LoRA. ZeRO-3 gathers the largest wrapped block twice, the one that computes and the next.
    """
    inputs.positive(parameters=parameters)
    inputs.not_negative(frozen_parameters=frozen_parameters, largest_block_parameters=largest_block_parameters)
    inputs.whole(data_parallel=data_parallel)
    inputs.one_of("recipe", recipe, tuple(RECIPES))
    inputs.one_of("scheme", scheme, SCHEMES)
    if frozen_parameters and recipe not in FROZEN_BYTES:
        raise InputError(
            _("frozen_parameters belong to lora and qlora, not to the recipe {recipe}."), "frozen_parameters", recipe=recipe
        )
    weight, gradient, optimizer = RECIPES[recipe]
    weights = weight * parameters + FROZEN_BYTES.get(recipe, 0.0) * frozen_parameters
    gradients, states = gradient * parameters, optimizer * parameters
    if scheme == "ddp":
        return weights + gradients + states
    if scheme == "zero1":
        return weights + gradients + states / data_parallel
    if scheme == "zero2":
        return weights + (gradients + states) / data_parallel
    gathered = FROZEN_BYTES.get(recipe, weight) * largest_block_parameters * 2
    return (weights + gradients + states) / data_parallel + gathered


def activation_bytes(
    sequence: int,
    micro_batch: int,
    hidden: int,
    layers: int,
    heads: int | None = None,
    recompute: str = "selective",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    pipeline_parallel: int = 1,
    virtual_stages: int = 1,
) -> float:
    """Bytes of the activations of 16-bit transformer layers on one rank.

    `selective` is flash attention or selective recompute: nothing grows with the square of the sequence. `layers` are those of the
    whole model: with 1F1B the first of p stages holds p micro-batches of a p-th of them; interleaving adds (p-1)/(p*v).
    """
    inputs.whole(
        sequence=sequence,
        micro_batch=micro_batch,
        hidden=hidden,
        layers=layers,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
        virtual_stages=virtual_stages,
    )
    inputs.one_of("recompute", recompute, RECOMPUTE)
    t = tensor_parallel
    tokens = float(sequence) * micro_batch * hidden * layers
    if virtual_stages > 1:
        tokens *= 1 + (pipeline_parallel - 1) / (pipeline_parallel * virtual_stages)
    if recompute == "full":
        return tokens * 2 / (t if sequence_parallel else 1)
    squares = 0.0
    if recompute == "none":
        if heads is None:
            raise InputError(_("Without recompute activations grow with the attention heads; give heads."), "heads")
        inputs.whole(heads=heads)
        squares = 5 * heads * sequence / hidden
    return tokens * (34 + squares) / t if sequence_parallel else tokens * (10 + 24 / t + squares / t)


def logits_bytes(
    sequence: int, micro_batch: int, vocabulary: int, tensor_parallel: int = 1, fused: bool = False, gradient: bool = True
) -> float:
    """Bytes of FP32 logits, with their 16-bit gradient; 0 with a fused or chunked cross-entropy."""
    inputs.whole(sequence=sequence, micro_batch=micro_batch, vocabulary=vocabulary, tensor_parallel=tensor_parallel)
    return 0.0 if fused else float(sequence) * micro_batch * vocabulary / tensor_parallel * (6 if gradient else 4)


def training_memory(
    parameters: float,
    recipe: str = "mixed-adam",
    frozen_parameters: float = 0.0,
    scheme: str = "ddp",
    data_parallel: int = 1,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    virtual_stages: int = 1,
    sequence_parallel: bool = False,
    largest_block_parameters: float = 0.0,
    sequence: int | None = None,
    micro_batch: int = 1,
    hidden: int | None = None,
    layers: int | None = None,
    heads: int | None = None,
    recompute: str = "selective",
    vocabulary: int | None = None,
    fused_cross_entropy: bool = False,
    memory_bytes: float | None = None,
) -> TrainingMemory:
    """The memory of one GPU. `parameters` are those trained of the whole model; without its shape activations are not counted."""
    inputs.whole(tensor_parallel=tensor_parallel, pipeline_parallel=pipeline_parallel)
    slices = tensor_parallel * pipeline_parallel
    static = static_bytes(
        parameters / slices, recipe, scheme, data_parallel, frozen_parameters / slices, largest_block_parameters / tensor_parallel
    )
    shape = (sequence, hidden, layers)
    if any(shape) and not all(shape):
        raise InputError(_("Activations need sequence, hidden and layers together; give all three or none."))
    activations = logits = None
    if sequence and hidden and layers:
        activations = activation_bytes(
            sequence, micro_batch, hidden, layers, heads, recompute, tensor_parallel, sequence_parallel, pipeline_parallel, virtual_stages
        )  # fmt: skip
    if vocabulary:
        if not sequence:
            raise InputError(_("Logits need sequence beside vocabulary."), "sequence")
        logits = logits_bytes(sequence, micro_batch, vocabulary, tensor_parallel, fused_cross_entropy)
    counted = static + (activations or 0.0) + (logits or 0.0)
    buffers = CONTEXT_BYTES + (NCCL_BYTES if slices * data_parallel > 1 else 0.0) + FRAGMENTATION * counted
    total = counted + buffers
    if memory_bytes is not None:
        inputs.positive(memory_bytes=memory_bytes)
    missing = tuple(
        text
        for absent, text in (
            (recipe in FROZEN_BYTES and not frozen_parameters, Text(_("The frozen base: give frozen_parameters."))),
            (scheme == "zero3" and not largest_block_parameters, Text(_("What ZeRO-3 gathers: give largest_block_parameters."))),
            (activations is None, Text(_("Activations: give sequence, hidden and layers."))),
            (logits is None and not fused_cross_entropy, Text(_("Logits: give vocabulary, or fused_cross_entropy."))),
        )
        if absent
    )
    fits = None if memory_bytes is None else total <= USABLE * memory_bytes
    return TrainingMemory(
        static_bytes=static,
        activation_bytes=activations,
        logits_bytes=logits,
        buffers_bytes=buffers,
        total_bytes=total,
        memory_used_ratio=None if memory_bytes is None else total / memory_bytes,
        fits=None if fits and missing else fits,
        not_counted=missing,
    )


PLANNER: Final = Planner(
    name="training-memory",
    title=_("Training memory"),
    about=_("What a model, its recipe and its parallelism need on one GPU, and whether it fits"),
    formula=(
        _("total = static + activations + logits + buffers"),
        _("static: DDP (w+g+o)*P; ZeRO-1 (w+g)*P + o*P/d; ZeRO-2 w*P + (g+o)*P/d; ZeRO-3 (w+g+o)*P/d + 2*w*block"),
        _("activations: none s*b*h*L*(10 + 24/t + 5*a*s/(h*t)); selective s*b*h*L*(10 + 24/t); full 2*s*b*h*L; with sequence parallel s*b*h*L/t*(34 + 5*a*s/h), 34*s*b*h*L/t, 2*s*b*h*L/t"),
        _("logits = s*b*V/t*(4 + 2); buffers = 1 GiB + 1 GiB of NCCL where ranks > 1 + 5 %"),
    ),
    assumptions=(
        _("P is the model divided by tensor and pipeline parallel; w, g and o are bytes of weights, gradients and optimizer."),
        _("Transformer layers with 16-bit activations; other networks must be measured."),
        _("ZeRO-2 stands for FSDP2 with reshard_after_forward=False too, ZeRO-3 for FSDP2 as it is by default."),
        _("Fits means at most 0.92 of the memory. A card's memory is what drivers tell of it where that is known, else the vendor's figure."),
        _("What is not given is not counted: then the memory needed is the least, and whether it fits is unknown unless that is too much already."),
    ),
    sources=("https://arxiv.org/abs/1910.02054", "https://arxiv.org/abs/2205.05198"),
    parameters=(
        Parameter("parameters", "count", _("Parameters that are trained, of the whole model"), low=1, slider=(1e8, 1e12)),
        Parameter("recipe", "words", _("Number formats and optimizer"), default="mixed-adam", choices=tuple(RECIPES)),
        Parameter("frozen_parameters", "count", _("Parameters of a frozen base, for LoRA and QLoRA"), default=0, slider=(0, 1e12)),
        Parameter("scheme", "words", _("What is sharded over the data-parallel ranks"), default="ddp", choices=SCHEMES),
        Parameter("data_parallel", "count", _("Data-parallel ranks"), default=1, low=1, high=1e6, slider=(1, 1024), whole=True),
        Parameter("tensor_parallel", "count", _("Tensor-parallel ranks"), default=1, low=1, high=1e4, slider=(1, 16), whole=True),
        Parameter("pipeline_parallel", "count", _("Pipeline stages"), default=1, low=1, high=1e4, slider=(1, 64), whole=True),
        Parameter(
            "virtual_stages", "count", _("Chunks of the model on each stage, with interleaving"), default=1, low=1, high=1e4,
            slider=(1, 16), whole=True,
        ),
        Parameter("sequence_parallel", "flag", _("Whether tensor-parallel ranks split the sequence too"), default=False),
        Parameter("largest_block_parameters", "count", _("Parameters of the largest wrapped block, for ZeRO-3"), default=0, slider=(0, 5e9)),
        Parameter("sequence", "count", _("Tokens in a sequence"), optional=True, low=1, high=1e9, slider=(512, 131072), whole=True),
        Parameter("micro_batch", "count", _("Sequences in a micro-batch"), default=1, low=1, high=1e6, slider=(1, 64), whole=True),
        Parameter("hidden", "count", _("Hidden size"), optional=True, low=1, high=1e7, slider=(512, 32768), whole=True),
        Parameter("layers", "count", _("Layers of the whole model"), optional=True, low=1, high=1e5, slider=(1, 256), whole=True),
        Parameter("heads", "count", _("Attention heads; needed without recompute alone"), optional=True, low=1, high=1e5, slider=(1, 256), whole=True),
        Parameter("recompute", "words", _("What the backward pass computes again; flash attention counts as selective"), default="selective", choices=RECOMPUTE),
        Parameter("vocabulary", "count", _("Size of the vocabulary; without it no logits are counted"), optional=True, low=1, high=1e8, slider=(1000, 300000), whole=True),
        Parameter("fused_cross_entropy", "flag", _("Whether the loss never holds all logits"), default=False),
        Parameter("memory_bytes", "bytes", _("Memory of the GPU"), optional=True, low=1, slider=(8e9, 3e11), of_card="memory_bytes"),
    ),
    call=training_memory,
    result=TrainingMemory,
    example={
        "parameters": "8.03B", "scheme": "zero3", "data_parallel": "8", "largest_block_parameters": "218M", "sequence": "8192", "hidden": "4096", "layers": "32",
        "vocabulary": "128256", "card": "H100 SXM",
    },
    answers=("total_bytes", "memory_used_ratio", "fits"),
    cautions=(
        Caution("fits", lambda fits: not fits, _("It does not fit with a margin: shard further, recompute more, or take a smaller micro-batch or sequence.")),
        Caution(
            "not_counted", bool, _("Whether it fits is unknown without what is not counted: at least {total_bytes} is needed."),
            unless=lambda result: result.fits is False,
        ),
    ),
    idle=(
        without("micro_batch", "sequence"),
        without("heads recompute sequence_parallel virtual_stages", "sequence", "hidden", "layers"),
        Idle(("heads",), lambda taken: taken["recompute"] != "none", "recompute none"),
        Idle(("sequence_parallel",), lambda taken: taken["tensor_parallel"] == 1, "tensor_parallel"),
        Idle(("virtual_stages",), lambda taken: taken["pipeline_parallel"] == 1, "pipeline_parallel"),
        Idle(("largest_block_parameters",), lambda taken: taken["scheme"] != "zero3", "scheme zero3"),
    ),
    plots=(
        Plot(_("Memory of a GPU over the micro-batch"), "micro_batch", ("static_bytes", "activation_bytes", "logits_bytes", "buffers_bytes"), stacked=True, from_zero=True, span=16, moves="activation_bytes", limit="memory_bytes"),
        Plot(_("Memory of a GPU over data-parallel ranks"), "data_parallel", ("static_bytes", "activation_bytes", "logits_bytes", "buffers_bytes"), stacked=True, span=16, moves="static_bytes", limit="memory_bytes"),
        Plot(_("Memory of a GPU over the model's parameters"), "parameters", ("static_bytes", "activation_bytes", "logits_bytes", "buffers_bytes"), stacked=True, limit="memory_bytes"),
    ),
)  # fmt: skip
