"""What a kernel's name says of it: communication, matrix work, whether it ran on tensor cores, and in which number format.

The marks are those that cuBLAS, cuDNN, CUTLASS, Triton, FlashAttention, NCCL and their AMD counterparts write into kernel names.
A name that says neither yes nor no is "unknown": kernels that a compiler generated are named by what they fuse.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

Family: TypeAlias = Literal["communication", "gemm", "convolution", "attention", "other"]
OnTensorCores: TypeAlias = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class Kind:
    """`tensor_cores` is "unknown" where the name does not tell, and for families that could not use them. `dtype` is None where unsaid."""

    family: Family
    tensor_cores: OnTensorCores = "unknown"
    dtype: str | None = None

    @property
    def eligible(self) -> bool:
        """Whether tensor cores could do this kernel's work."""
        return self.family in ("gemm", "convolution", "attention")


_COMMUNICATION: Final = re.compile(
    r"^(void )?(nccl|rccl|mscclpp|hccl|nvshmem)|nccldevkernel|ncclkernel|msccl_?kernel"
    r"|cross_device_reduce_|(one|two)_?shot_?all_?reduce|multimem_all_|all_?reduce_?kernel|oneshotallreduce|twoshotallreduce"
    r"|deep_ep::|userbuffers_(fp16_)?sum|nvshmemi?_",
)
"""Also the all-reduce kernels that engines bring along: vLLM's custom one, PyTorch's symmetric memory, TensorRT-LLM's, DeepEP."""

_ASIDE: Final = re.compile(
    r"splitkreduce|reduce_wgrad|reducesplitk|offsetskernel|gemv|gemmk1|nchwtonhwc|nhwctonchw|im2col|col2im|transpose|epilogue::impl"
    r"|attention_mask|rotary|elementwise_kernel|layer_?norm|softmax_warp|causal_conv1d|conv_depthwise|depthwise"
)
"""Belongs to matrix work without being any, or is limited by memory whatever it runs on: no tensor core would help."""

_ATTENTION: Final = re.compile(
    r"flash_?(fwd|bwd|attn|attention|::)|fmha|flashattn|flashinfer|sdpa|attention_kernel|paged_attention|_attn_(fwd|bwd)|attn_fwd|mla_kernel"
)
_CONVOLUTION: Final = re.compile(
    r"fprop|dgrad|wgrad|implicit_?gemm|implicit_convolve|scudnn|hcudnn|winograd|conv(olution)?[_:\d]|convolve|_conv\b|conv2d|fft2d|igemm_"
)
_GEMM: Final = re.compile(r"(?<!fb)gemm|nvjet|^cijk_|_mm_|matmul|\bmm_kernel|cutlass_\d+_(tensorop|simt|wmma)")

_YES: Final = re.compile(
    r"tensorop|wmma|hmma|imma|dmma|gmma|qmma|wgmma|warpgroup|utcmma|tcgen05|_tensor\d+x\d+x\d+"
    r"|(?:^|[_a-z])(?:884|1684|1688|8816|8832|16816|16832|16864|168128|168256|161616)(?![0-9])"
    r"|nvjet|flash_?(fwd|bwd|attn|::)|fmha_?(v2|cutlass[fb]_(f16|bf16))|flashinfer|cutlass::device_kernel|_mi\d+x\d+x\d+|mfma"
)
_NO: Final = re.compile(
    r"ffma|simt|scudnn|hcudnn|winograd|fft2d|(dgrad|wgrad)(_alg\d)?_engine|dgrad2d|(implicit|explicit|precomputed)_convolve"
    r"|(?:^|[_a-z ])[sdhcz]gemm|gcgemm|sgemm|dgemm|magma_|^cijk_"
)

_DTYPES: Final = (
    ("fp64", re.compile(r"dgemm|zgemm|f64|double|dmma")),
    ("fp8", re.compile(r"e4m3|e5m2|fp8|qmma|qgmma|nvjet_qq|_mi\d+x\d+x\d+.*_f8")),
    ("bf16", re.compile(r"bf16|bfloat16|nvjet_t|^cijk_\w+?_b[bs]s?_")),
    ("fp16", re.compile(r"fp16|hgemm|h16816|h1688|h884|hcudnn|_f16|f16f16|half|nvjet_hs|nvjet_hh|^cijk_\w+?_h[hs]s?_")),
    ("tf32", re.compile(r"tf32|tfloat32|s1688gemm|s1688(fprop|dgrad|wgrad)")),
    ("int8", re.compile(r"imma|(?<![a-z])igemm|i8816|i16832|int8|(?<![a-z0-9])s8_")),
    ("fp32", re.compile(r"sgemm|scudnn|f32f32|simt_s|float|_f32_|_sb_")),
)
"""The narrowest that a name holds: `bf16_s16816gemm` multiplies bf16 and adds in fp32. Asked in this order."""


@lru_cache(maxsize=4096)
def kind(name: str) -> Kind:
    """What `name` says; {family: other} for names that say nothing."""
    text = name.lower().replace("(anonymous namespace)::", "").partition("(")[0]  # not what its arguments are called
    if _COMMUNICATION.search(text):
        return Kind("communication")
    if _ASIDE.search(text):
        return Kind("other")
    family: Family
    if _ATTENTION.search(text):
        family = "attention"
    elif _CONVOLUTION.search(text):
        family = "convolution"
    elif _GEMM.search(text):
        family = "gemm"
    else:
        return Kind("other")
    on: OnTensorCores = "yes" if _YES.search(text) else "no" if _NO.search(text) else "unknown"
    return Kind(family, on, next((dtype for dtype, marks in _DTYPES if marks.search(text)), None))


_WAITING: Final = re.compile(
    r"^(cuda|hip)(Stream|Device|Event)Synchronize$|^cu(Stream|Ctx|Event)Synchronize$"
    r"|^(cuda|hip)Memcpy(2D|3D|Peer|To\w+|From\w+|WithStream)?$|^cuMemcpy(HtoD|DtoH|DtoD|2D|3D|Peer)?$"
)
_LAUNCHING: Final = re.compile(r"^(cuda|cu|hip)(Ext)?(Launch|ModuleLaunch|GraphLaunch|Memcpy|Memset)")
_VERSION: Final = re.compile(r"(_v\d+|_ptsz|_ptds)+$")


@lru_cache(maxsize=4096)
def call(name: str) -> tuple[bool, bool]:
    """Of a CUDA or HIP call: whether the host waits in it for the GPU, and whether it gives the GPU something to do.

    Nsight Systems writes the version behind the name (`cudaLaunchKernel_v7000`); it is not looked at.
    """
    plain = _VERSION.sub("", name)
    return bool(_WAITING.match(plain)), bool(_LAUNCHING.match(plain))


_COPY: Final = re.compile(r"^Memcpy (\w{4,5}) \((\w+) -> (\w+)\)")


@lru_cache(maxsize=256)
def copy(name: str) -> tuple[str, str | None, str | None]:
    """Direction ("HtoD"; "" where unsaid) and the memory kinds of source and target of `Memcpy HtoD (Pageable -> Device)`.

    A kind is None where it is not told: ROCm says "Host" of both pinned and pageable memory.
    """
    found = _COPY.match(name)
    if not found:
        return "", None, None
    direction, source, target = found.groups()
    unsaid = ("Host", "Unknown", "unknown")
    return direction, None if source in unsaid else source, None if target in unsaid else target


LOADER: Final = "enumerate(DataLoader)#"


def is_loader(name: str) -> bool:
    """Whether a host range is a program's wait for its DataLoader's next batch."""
    return name.startswith(LOADER) and "__next__" in name


_STEP: Final = re.compile(r"^ProfilerStep#(\d+)$")


def step(name: str) -> int | None:
    """The number of a `ProfilerStep#N`; None for any other name."""
    found = _STEP.match(name) if len(name) < 40 else None
    return int(found[1]) if found else None
