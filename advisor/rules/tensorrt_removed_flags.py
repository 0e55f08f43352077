"""A build recipe with precision flags or calibrators that TensorRT 11 removed.

What a recipe uses is told by the site (annotations tensorrt_version and tensorrt_flags): no counter shows it.
"""

import polars as pl

from advisor.rule import Need, Rule, Show, Step
from advisor.text import _

c = pl.col

_MAJOR = c.note_tensorrt_version.str.extract(r"^(\d+)").cast(pl.Int64, strict=False)

RULE = Rule(
    id="tensorrt-removed-flags",
    scope="service",
    severity=pl.when(_MAJOR >= 11).then(pl.lit("warn")).otherwise(pl.lit("advice")),
    bottleneck=None,
    group="capacity",
    needs=(Need(("note_tensorrt_version", "note_tensorrt_flags")),),
    opens=(_MAJOR >= 10) & c.note_tensorrt_flags.str.contains(r"(?i)fp16|bf16|int8|fp8|int4|best|calib"),
    clears=(_MAJOR < 10) | ~c.note_tensorrt_flags.str.contains(r"(?i)fp16|bf16|int8|fp8|int4|best|calib"),
    title=_("The build recipe uses flags that TensorRT 11 removed"),
    summary=_(
        "The recipe uses {note_tensorrt_flags} with TensorRT {note_tensorrt_version}; from 11 on precision is part of the model, not of the build."
    ),
    evidence=(Show("age_s", "seconds"),),
    change=(
        Step(
            "command",
            "python -m modelopt.onnx.autocast --onnx_path model.onnx --output_path model_fp16.onnx && trtexec --onnx=model_fp16.onnx --saveEngine=m.plan",
        ),
        Step(
            "command",
            "python -m modelopt.onnx.quantization --onnx_path model.onnx --quantize_mode int8 --output_path model_int8.onnx  # INT8 and FP8: explicit Q/DQ",
        ),
    ),
    recovers=0.0,
    risk=_("Which layer gets which precision changes: measure quality and latency anew."),
    rollback=_("Keep the old engine until both pass."),
    verify=_("The engine builds, quality drops by at most 1 %, median latency is within 5 % of the old engine's."),
    sources=("https://docs.nvidia.com/deeplearning/tensorrt/latest/: migration from 10 to 11",),
)
