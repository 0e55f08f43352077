"""Words that an agent may tell of a process, and the kinds of serving engines; nothing else of a process leaves the node."""

from typing import Final, Literal, TypeAlias

from wire.variables import is_variable

LABELS: Final[dict[str, str]] = {
    "container": "Container id, from the cgroup.",
    "pod": "Kubernetes pod UID, from the cgroup.",
    "pod_name": "Kubernetes pod name, where the process's environment has it in `POD_NAME`, `K8S_POD_NAME` or `MY_POD_NAME`.",
    "slurm_job": "Slurm job id, from the cgroup or the environment.",
    "slurm_step": "Slurm step: a number, `batch`, `extern` or `interactive`.",
    "slurm_partition": "Slurm partition of the job, from `SLURM_JOB_PARTITION` in the environment.",
    "pid_in_namespace": "The pid that the process has in its own namespace, where that is another one.",
    "visible_gpus": "GPUs that CUDA lets it use, by `CUDA_VISIBLE_DEVICES` as it was set at its start: `all`, `none`, or the beginnings "
    "of their UUIDs in CUDA's order; `?2` is index 2 as CUDA counts, where nobody else knows which GPU that is.",
    "engine": "Serving engine that the command line of the process or of an ancestor starts: `vllm`, `sglang`, `triton` or `trtllm`.",
    "launcher": "What started it, likewise: `torchrun`, `deepspeed`, `megatron` or `accelerate`.",
    "torch": "Version of PyTorch that the process has loaded.",
    "cuda": "Version of the CUDA runtime that the process has loaded.",
}
"""Label and what it says. `env.NAME`, `flag.NAME` and `told.NAME` are labels too, for the variables of `wire/variables.py`, the
flags and the descriptions below."""

GPU_LABELS: Final[dict[str, str]] = {
    "pod": "Kubernetes pod that the GPU is given to.",
    "namespace": "Its namespace.",
    "container": "Its container.",
    "hpc_job": "Job that the cluster's scheduler runs on it, as dcgm-exporter's `hpc_job` says.",
    "cluster": "Kubernetes whose kubelet says who has the GPU, as the agent's setting `kubernetes_cluster` calls it. With it and no `pods`, nobody has.",
    "pods": "`namespace/pod` of all that the kubelet has given the GPU to, `…` at the end where there are more.",
    "shared": "`yes` where the kubelet gives it out in replicas (time-slicing, MPS): several pods may have it at once.",
    "mig_profile": "Profile of the MIG instance, such as `1g.10gb`; of a card, those of all its instances.",
    "mig_instance": "Number of the GPU instance; of a card, those of all its instances.",
}
"""Label of a GPU and what it says: whom it is given to, by the kubelet or dcgm-exporter. Several values (a shared GPU) stand in one, with commas."""

EXPORTED: Final = tuple(name for name in GPU_LABELS if name not in ("cluster", "pods", "shared"))
"""Those that dcgm-exporter writes; the others are the kubelet's word alone, and what a Prometheus calls `cluster` is something else."""

FlagKind: TypeAlias = Literal["number", "boolean", "word", "model"]

FLAGS: Final[dict[str, FlagKind]] = {
    **dict.fromkeys(
        # vLLM, SGLang, TensorRT-LLM
        ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "expert-parallel-size", "context-parallel-size",
         "gpu-memory-utilization", "max-num-seqs", "max-num-batched-tokens", "max-model-len", "block-size", "swap-space",
         "cpu-offload-gb", "num-scheduler-steps", "num-speculative-tokens", "mem-fraction-static", "max-running-requests",
         "max-total-tokens", "context-length", "chunked-prefill-size", "max-prefill-tokens", "schedule-conservativeness",
         "cuda-graph-max-bs", "num-continuous-decode-steps", "stream-interval", "max-batch-size", "max-seq-len", "max-num-tokens",
         "kv-cache-free-gpu-memory-fraction", "kv-cache-memory-bytes", "gpus-per-node",
         # tritonserver
         "model-control-poll-interval", "pinned-memory-pool-byte-size", "backend-threads", "http-thread-count",
         # torchrun, deepspeed, accelerate
         "nnodes", "node-rank", "nproc-per-node", "num-gpus", "num-nodes", "num-processes", "num-machines", "max-restarts",
         "num-cpu-threads-per-process", "gradient-accumulation-steps", "zero-stage",
         # Megatron, and training scripts in general
         "tensor-model-parallel-size", "pipeline-model-parallel-size", "num-layers-per-virtual-pipeline-stage",
         "expert-model-parallel-size", "micro-batch-size", "global-batch-size", "seq-length", "num-layers", "hidden-size",
         "num-attention-heads", "num-workers", "batch-size", "prefetch-factor", "per-device-train-batch-size",
         "per-device-eval-batch-size", "dataloader-num-workers", "recompute-num-layers"),
        "number",
    ),
    **dict.fromkeys(
        ("enforce-eager", "enable-prefix-caching", "enable-chunked-prefill", "enable-expert-parallel", "async-scheduling",
         "disable-custom-all-reduce", "trust-remote-code", "disable-cuda-graph", "disable-radix-cache", "disable-overlap-schedule",
         "enable-torch-compile", "enable-dp-attention", "enable-mixed-chunk", "standalone", "multi-gpu", "fp16", "bf16", "tf32",
         "sequence-parallel", "use-distributed-optimizer", "overlap-grad-reduce", "overlap-param-gather", "use-flash-attn",
         "recompute-activations", "gradient-checkpointing", "torch-compile", "use-mcore-models", "pin-memory",
         "persistent-workers", "dataloader-pin-memory"),
        "boolean",
    ),
    **dict.fromkeys(
        ("kv-cache-dtype", "quantization", "dtype", "attention-backend", "distributed-executor-backend", "load-format",
         "mixed-precision", "schedule-policy", "sampling-backend", "grammar-backend", "backend", "model-control-mode",
         "transformer-impl", "recompute-granularity", "recompute-method", "dynamo-backend", "rdzv-backend", "fp8-format",
         "moe-a2a-backend", "disaggregation-mode", "kv-cache-type"),
        "word",
    ),
    "model": "model",
    "model-path": "model",
    "served-model-name": "model",
    "tokenizer": "model",
    "speculative-model": "model",
}  # fmt: skip
"""Flags whose value may be told, and what it has to be: a number, a boolean, a short word, or the last part of a model's path."""

FLAG_NAMES: Final[dict[str, str]] = {
    "tp": "tensor-parallel-size",
    "tp-size": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "pp-size": "pipeline-parallel-size",
    "dp": "data-parallel-size",
    "dp-size": "data-parallel-size",
    "ep": "expert-parallel-size",
    "ep-size": "expert-parallel-size",
    "j": "num-workers",
    "workers": "num-workers",
}
"""Other names of the same flags."""

DESCRIBED: Final[dict[str, FlagKind | tuple[str, ...]]] = {
    **dict.fromkeys(
        ("params", "trainable", "hidden", "layers", "heads", "vocab", "seq", "micro_batch", "accumulation", "tp", "pp", "vpp",
         "microbatches", "flops_per_sample"),
        "number",
    ),
    **dict.fromkeys(("scaler", "offload", "pin_memory"), "boolean"),
    "dtype": ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4"),
    "sharding": ("none", "ddp", "zero1", "zero2", "zero3", "fsdp", "hsdp"),
    "recompute": ("none", "selective", "full"),
    "class": ("dense", "moe", "vision", "other"),
    "kind": ("train", "eval", "serve", "interactive"),
    "phase": ("init", "train", "eval", "checkpoint"),
    "quant": "word",
}  # fmt: skip
"""What a program may tell of itself with `fettle_report.describe(...)`, and what it has to be: as of a flag, or one of these words."""

ENGINES: Final = ("vllm", "sglang", "triton", "trtllm")
MAX_LABELS: Final = 72
"""Of one process."""
MAX_LABEL: Final = 200
"""Characters of one value."""
MAX_PODS: Final = 8_000
"""Characters of a GPU's label `pods`: a node has 110 pods by default, each of which may have a replica of it."""


def gpu_label_max(name: str) -> int:
    """Characters that a GPU's label of this name may have."""
    return MAX_PODS if name == "pods" else MAX_LABEL


def is_label(name: str) -> bool:
    """True for a key that `Labels.labels` may have. A flag and a description have any name: a newer agent may know more of them."""
    if name.startswith("env."):
        return is_variable(name.removeprefix("env."))
    return name in LABELS or (name.startswith(("flag.", "told.")) and 5 < len(name) <= 60)
