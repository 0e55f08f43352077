"""Words that an agent may tell of a process, and the kinds of serving engines; nothing else of a process leaves the node."""

from typing import Final

LABELS: Final[dict[str, str]] = {
    "container": "Container id, from the cgroup.",
    "pod": "Kubernetes pod UID, from the cgroup.",
    "pod_name": "Kubernetes pod name, where the process's environment names it.",
    "slurm_job": "Slurm job id, from the cgroup or the environment.",
    "slurm_step": "Slurm step.",
    "pid_in_namespace": "The pid that the process has in its own namespace.",
    "engine": "Serving engine that the command line starts, one of ENGINES.",
    "launcher": "What started it: torchrun, deepspeed, megatron, accelerate.",
    "torch": "Version of PyTorch that the process has loaded.",
    "cuda": "Version of the CUDA runtime that the process has loaded.",
}
"""Label and what it says. `env.NAME` and `flag.NAME` are labels too, for the names below."""

ENV: Final = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
)
ENV_PREFIXES: Final = ("NCCL_", "PYTORCH_", "TORCH_", "CUDA_MPS_", "OMP_", "MKL_")
"""Variables whose value may be told: whitelisted names, and names that begin so."""

ENGINES: Final = ("vllm", "sglang", "triton", "trtllm")
MAX_LABELS: Final = 48
"""Of one process."""
MAX_LABEL: Final = 200
"""Characters of one value."""


def is_label(name: str) -> bool:
    """True for a key that `Labels.labels` may have."""
    if name.startswith("env."):
        variable = name.removeprefix("env.")
        return variable in ENV or variable.startswith(ENV_PREFIXES)
    return name in LABELS or (name.startswith("flag.") and 5 < len(name) <= 60)
