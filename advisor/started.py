"""Conditions of a rule's steps: what started the job, which scheduler runs it, and the steps that every scheduler says its own way.

Where the labels of a process are not read, all of it is unknown; then the plain way (a script under torchrun) is said.
"""

from typing import Final

import polars as pl

from advisor.rule import Step

_launcher = pl.col("launcher")

MEGATRON: Final = _launcher.eq_missing("megatron")
DEEPSPEED: Final = _launcher.eq_missing("deepspeed")
ACCELERATE: Final = _launcher.eq_missing("accelerate")
OWN_LOOP: Final = ~MEGATRON & ~DEEPSPEED
"""The script itself calls forward, backward and step: what Megatron-LM and DeepSpeed do for it."""
MAY_BE_HUGGING_FACE: Final = ~MEGATRON
"""Hugging Face's Trainer runs under every launcher but Megatron-LM's own scripts."""

SLURM: Final = pl.col("scheduler").eq_missing("slurm")
KUBERNETES: Final = pl.col("scheduler").eq_missing("kubernetes")
DOCKER: Final = pl.col("scheduler").eq_missing("docker")
NO_SCHEDULER: Final = ~SLURM & ~KUBERNETES

VLLM: Final = pl.col("serving_engine").eq_missing("vllm")
SGLANG: Final = pl.col("serving_engine").eq_missing("sglang")
NO_ENGINE: Final = pl.col("serving_engine").is_null()


def drain(reason: str, then: str = "") -> tuple[Step, ...]:
    """Take the node out of service: Slurm's way, or Kubernetes'; both where nobody knows which. `then` follows as a comment."""
    note = f"  # {then}" if then else ""
    named = pl.col("node_name").is_not_null()
    return (
        Step("command", f'scontrol update nodename={{node_name}} state=drain reason="{reason}"{note}', when=named & ~KUBERNETES),
        Step("command", f"kubectl cordon {{node_name}}{note}", when=named & ~SLURM),
        Step(
            "command", f'scontrol update nodename="$(hostname -s)" state=drain reason="{reason}"{note}', when=~named & ~KUBERNETES
        ),
        Step("command", f"kubectl cordon NODE{note}", when=~named & KUBERNETES),
    )
