"""Summaries of profiles, as `fettle profile --send` sends them."""

import time
from typing import Any

from fleet.inventory.models import Node
from wire.profile import ProfileReport, Said, TopKernel, encode

GEMM = "ampere_sgemm_128x64_tn"


def report(of: Node, **more: Any) -> ProfileReport:
    """A second of one GPU: 30 % compute, 6 % communication alone, 64 % idle, of it 50 % while the host launched kernels of 6 us."""
    told: dict[str, Any] = {
        "node": of.name, "job": f"{of.name}/alice/python", "at": time.time() - 60, "kind": "kineto", "complete": True, "events": 40_573,
        "rank": 0, "world_size": 2, "gpus": 1, "gpu_names": ("NVIDIA H200",), "steps": 3, "step_p50_s": 0.222, "span_s": 1.0,
        "compute_s": 0.3, "communication_s": 0.1, "communication_exposed_s": 0.06, "copies_exposed_s": 0.0, "idle_s": 0.64,
        "idle_queued_s": 0.01, "idle_waiting_s": 0.0, "idle_launching_s": 0.5, "idle_unknown_s": 0.13, "kernels": 2700,
        "kernel_total_s": 0.4, "kernel_p50_s": 6e-6, "unqueued": 2600, "pageable_s": 0.0, "matrix_s": 0.2, "missed_s": 0.1,
        "missed_fp32_s": 0.1,
        "top": (TopKernel(name=GEMM, count=300, total_s=0.1, share=0.25, tensor_cores="no", dtype="fp32"),),
        "said": (Said(rule="launch-bound-small-kernels", verdict="supports"), Said(rule="comm-not-overlapped", verdict="speaks against")),
    }  # fmt: skip
    return ProfileReport(**{**told, **more})


def report_of(of: Node, **more: Any) -> bytes:
    """The same as JSON."""
    return encode(report(of, **more))
