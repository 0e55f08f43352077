"""Jobs that play recordings: what a scheduler would have told of them, and the telemetry that an agent would have sent."""

from collections.abc import Collection
from datetime import timedelta
from itertools import pairwise
from typing import Any

import polars as pl

from fleet.inventory.models import Gpu, Node
from fleet.jobs.models import Allocation, Job
from fleet.store.series import store
from tests.fleet.recorded import fill, recording
from tests.fleet.rows import NOON, gpu, node
from wire.metrics import sent
from wire.recording import readings

CARD: dict[str, Any] = {
    "power_limit_w": 700, "power_limit_default_w": 700, "sm_clock_max_mhz": 1980, "mem_clock_max_mhz": 3201,
    "pcie_link_gen_max": 5, "pcie_link_width_max": 16, "compute_capability": "9.0",
}  # fmt: skip


def cards(number: int = 1, name: str = "n1") -> list[Gpu]:
    """The GPUs of a new node that last reported at noon."""
    of = node(name, last_seen_at=NOON, mem_total_bytes=256 << 30)
    return [gpu(of, index, **CARD) for index in range(number)]


def job(gpus: list[Gpu], seconds: int = 60, *, shared: bool = False, running: bool = False, **more: Any) -> Job:
    """A job that held these GPUs for so many seconds up to noon."""
    started_at = NOON - timedelta(seconds=seconds)
    defaults: dict[str, Any] = {
        "cluster": "west", "job_id": "4711", "source": "slurm", "state": "running" if running else "completed", "name": "train",
        "user": "ada", "family": "west/ada/train", "gpus_total": len(gpus),
    }  # fmt: skip
    row = Job.objects.create(started_at=started_at, ended_at=None if running else NOON, **{**defaults, **more})
    for one in gpus:
        give(row, one, shared=shared)
    return row


def give(row: Job, one: Gpu, *, shared: bool = False, from_s: int = 0) -> Allocation:
    """Let the job hold the GPU from `from_s` seconds after its start to its end."""
    return Allocation.objects.create(
        job=row,
        node=one.node,
        node_name=one.node.name,
        gpu=one,
        device=str(one.index),
        from_at=row.started_at + timedelta(seconds=from_s),
        until_at=row.ended_at,
        shared=shared,
    )


def play(recording: str, gpus: list[Gpu], *, before_s: int = 0, seconds: int = 60) -> None:
    """Let the GPUs report the recording's last seconds, up to `before_s` before noon."""
    fill(recording, gpus, int(NOON.timestamp()) - before_s, seconds)


def by_the_second(name: str, card: Gpu, without: Collection[str] = ()) -> tuple[int, float]:
    """Play the whole recording as an agent reads, one sample a second; how many seconds that is, and the joules that its power adds up to."""
    told = [(sample.t, readings("gpu", sample.gpus[0])[0]) for sample in recording(name).samples]
    by_second = {int(t - told[0][0]): one for t, one in reversed(told)}
    seconds = max(by_second) + 1
    start = int(NOON.timestamp()) - seconds
    names = {metric.name for metric in sent("gpu")} - set(without)
    rows = [
        {"entity": card.pk, "ts": start + at, **{key: one[key] for key in one if key in names}} for at, one in by_second.items()
    ]
    store().write("gpu", pl.DataFrame(rows, infer_schema_length=None))
    pairs = pairwise(told)
    return seconds, sum((later[0] - first[0]) * (first[1]["power_w"] + later[1]["power_w"]) / 2 for first, later in pairs)


def of(name: str = "n1") -> Node:
    """The node of that name."""
    return Node.objects.get(name=name)
