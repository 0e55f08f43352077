"""Rows that the dashboard's tests show: nodes, GPUs, telemetry, findings."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
from django.utils import timezone

from advisor.finding import SEVERITIES
from fleet.findings.models import Diagnosis, Finding, Transition
from fleet.inventory.models import Engine, Gpu, Node, Process
from fleet.store.series import store

GIB = 1 << 30
H200 = 150_754_820_096


def make_node(name: str, gpus: int = 8, *, seen_s_ago: float | None = 1, **facts: Any) -> Node:
    """A node with GPUs, last heard of `seen_s_ago` seconds ago (None: never)."""
    now = timezone.now()
    defaults: dict[str, Any] = {
        "boot": "b1", "agent_version": "0.1.0", "kernel": "6.8.0", "driver_version": "580.159.04", "cuda_driver_version": "13.0",
        "cores": 32, "mem_total_bytes": 256 * GIB, "connected_at": now - timedelta(hours=1),
        "last_seen_at": None if seen_s_ago is None else now - timedelta(seconds=seen_s_ago),
    }  # fmt: skip
    node = Node.objects.create(name=name, **defaults | facts)
    Gpu.objects.bulk_create(
        Gpu(
            node=node, uuid=f"GPU-{name}-{index}", index=index, model="NVIDIA H200", compute_capability="9.0", mem_total_bytes=H200,
            power_limit_w=700, power_limit_default_w=700, sm_clock_max_mhz=1980, mem_clock_max_mhz=3201, pcie_link_gen_max=5,
            pcie_link_width_max=16, nvlink_links=18, nvlink_bytes_per_s_per_link=26.562e9,
        )
        for index in range(gpus)
    )  # fmt: skip
    return node


READINGS = {
    "gpu_util_pct": 100, "sm_active": 0.93, "tensor_active": 0.42, "dram_active": 0.41, "mem_used_bytes": 31 * GIB,
    "mem_total_bytes": H200, "power_w": 692.0, "power_limit_w": 700.0, "sm_clock_mhz": 1755, "temperature_c": 64,
    "pcie_rx_bytes_per_s": 1.2e9, "pcie_tx_bytes_per_s": 2.1e8, "nvlink_rx_bytes_per_s": 3.1e10, "nvlink_tx_bytes_per_s": 3.1e10,
}  # fmt: skip


def write_gpus(gpus: list[Gpu], seconds: int = 5, *, end: int | None = None, step_s: int = 1, **changes: Any) -> None:
    """Samples of `seconds` up to `end` (now) for each GPU; a change to None makes the metric absent."""
    values = READINGS | changes
    end = int(time.time()) if end is None else end
    rows = [{"entity": gpu.pk, "ts": at} | values for gpu in gpus for at in range(end - seconds + 1, end + 1, step_s)]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    empty = [name for name, value in values.items() if value is None]
    store().write("gpu", frame.drop(empty))


def write_host(node: Node, seconds: int = 10, **changes: Any) -> None:
    """Host samples up to now; disks read 100 MB/s."""
    end = int(time.time())
    values: dict[str, Any] = {
        "cpu_busy_cores": 14.2,
        "cpu_core_max_pct": 100.0,
        "cpu_iowait_pct": 5.7,
        "mem_used_bytes": 41 * GIB,
    }
    values |= changes
    rows = [
        {
            "entity": node.pk,
            "ts": end - back,
            "disk_read_bytes_total": int(1e12) - back * 100_000_000,
            "disk_write_bytes_total": 0,
        }
        | values
        for back in range(seconds, -1, -1)
    ]
    store().write("host", pl.DataFrame(rows))


def write_process(gpus: list[Gpu], pid: int, name: str = "python", user: str = "ann") -> None:
    """One process that holds the GPUs."""
    end = int(time.time())
    rows = [
        {
            "entity": gpu.pk, "pid": pid, "ts": end, "name": name, "user": user, "gpu_mem_bytes": 30 * GIB, "cpu_pct": 100.0,
            "threads": 80, "children": 14, "children_cpu_pct": 820.0, "rss_bytes": 9 * GIB,
        }
        for gpu in gpus
    ]  # fmt: skip
    store().write("process", pl.DataFrame(rows))


def write_engine(node: Node, name: str = "http://127.0.0.1:8000", seconds: int = 30, **changes: Any) -> Engine:
    """A serving engine with samples up to now; it generates 1,200 tokens a second. A change to None makes the metric absent."""
    now = timezone.now()
    given = {key: changes.pop(key) for key in ("kind", "model", "pid") if key in changes}
    words: dict[str, Any] = {"kind": "vllm", "model": "Qwen/Qwen3-32B", "pid": 4711} | given
    engine = Engine.objects.create(node=node, name=name, first_seen_at=now - timedelta(hours=1), last_seen_at=now, **words)
    end = int(time.time())
    values: dict[str, Any] = {
        "requests_running": 31, "requests_waiting": 4, "kv_cache_used": 0.62, "ttft_mean_s": 0.153, "ttft_p95_s": 1.24,
    } | changes  # fmt: skip
    rows = [
        {"entity": engine.pk, "ts": end - back, "generation_tokens_total": 10_000_000 - back * 1200} | values
        for back in range(seconds, -1, -1)
    ]
    store().write(
        "engine", pl.DataFrame(rows, infer_schema_length=None).drop(name for name, value in values.items() if value is None)
    )
    return engine


def write_labels(node: Node, pid: int, labels: dict[str, str]) -> Process:
    """What is told of a process in words, seen just now."""
    now = timezone.now()
    return Process.objects.create(
        node=node, pid=pid, name="python", labels=labels, told_at=now, first_seen_at=now - timedelta(hours=1), last_seen_at=now
    )


def make_finding(
    node: Node | None,
    gpus: list[Gpu] | None = None,
    *,
    rule: str = "fp32-without-tensor-cores",
    severity: str = "advice",
    **changes: Any,
) -> Finding:
    """An open, firing finding with its first two transitions."""
    opened = changes.pop("opened_at", timezone.now() - timedelta(minutes=20))
    target = changes.pop("target", str(gpus[0].pk) if gpus else "t")
    content = {
        "title": {"id": "The matrix products run in FP32 without tensor cores", "params": {}},
        "summary": {"id": "FP32 pipes are busy {share:.0%} of the time and tensor cores {tensor:.1%}.", "params": {"share": 0.658, "tensor": 0.033}},
        "evidence": [
            {"name": "fp32_active", "value": 0.658, "unit": "ratio", "threshold": 0.3, "comparison": ">="},
            {"name": "tensor_active", "value": 0.033, "unit": "ratio", "threshold": 0.05, "comparison": "<="},
        ],
        "change": [
            {"kind": "diff", "text": "+torch.backends.cuda.matmul.allow_tf32 = True\n+with torch.autocast('cuda', torch.bfloat16):\n     loss = model(x)"},
            {"kind": "env", "text": "NVIDIA_TF32_OVERRIDE=1"},
        ],
        "expected_gain": {"low": 3.0, "high": 8.0, "basis": {"id": "Measured on an H200: TF32 3.4x, bf16 8.0x.", "params": {}}},
        "risk": {"id": "Lower precision can change convergence.", "params": {}},
        "rollback": {"id": "Remove the two lines.", "params": {}},
        "verify": {"id": "Tensor activity rises above {goal:.0%}.", "params": {"goal": 0.2}},
        "sources": ["https://docs.nvidia.com/cuda/", "measured"],
    }  # fmt: skip
    values: dict[str, Any] = {
        "fingerprint": f"{rule}:gpu:{target}", "rule": rule, "severity": severity, "severity_rank": SEVERITIES.index(severity),
        "scope": "gpu", "target": target, "node": node, "bottleneck": "compute", "confidence": "high", "recoverable": 0.6,
        "condition": "firing", "content": content, "opened_at": opened, "last_seen_at": timezone.now(),
    }  # fmt: skip
    finding = Finding.objects.create(**values | changes)
    finding.gpus.set(gpus or [])
    Transition.objects.create(finding=finding, axis="condition", before="", after="pending", at=opened)
    Transition.objects.create(
        finding=finding, axis="condition", before="pending", after="firing", at=opened + timedelta(seconds=10)
    )
    return finding


def diagnose(gpu: Gpu, bottleneck: str = "compute", **shares: float) -> Diagnosis:
    """The GPU's bottleneck over the last five minutes."""
    now = datetime.now(UTC)
    return Diagnosis.objects.create(
        scope="gpu", target=str(gpu.pk), node=gpu.node, gpu=gpu, bottleneck=bottleneck, confidence="high",
        shares=shares or {bottleneck: 0.9, "idle": 0.1}, window_start=now - timedelta(minutes=5), window_end=now,
    )  # fmt: skip
