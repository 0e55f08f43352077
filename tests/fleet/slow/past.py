"""A past for one node: telemetry by the minute in the store, runs and processes as rows."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import polars as pl

from fleet.inventory.models import Gpu, Node, Process
from fleet.slow.models import JobRun
from fleet.slow.runs import Merged, merge
from fleet.store.series import store

NOON: Final = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
LATE: Final = timedelta(seconds=25)
"""After a minute's end, so that it is looked at."""


def minute(
    cards: list[Gpu], start: datetime, pids: list[int], *, seconds: range = range(60), name: str = "train.py", **more: Any
) -> None:
    """One minute of processes (pid i on card i, the last pid on what is left) and of their cards, a sample each second."""
    t = int(start.timestamp())
    step = {key: more[key] for key in ("step_time_s", "samples_per_s", "ooms_total") if key in more}
    processes = [
        {"entity": card.pk, "pid": pids[min(place, len(pids) - 1)], "ts": t + second, "name": name, "user": "ann",
         "gpu_mem_bytes": 1 << 30, **step}
        for place, card in enumerate(cards)
        for second in seconds
    ]  # fmt: skip
    power = more.get("power_w", 500.0)
    gpus = [
        {"entity": card.pk, "ts": t + second, "power_w": power, "gr_engine_active": more.get("busy", 0.9), "persistence_mode": 1}
        for card in cards
        for second in seconds
    ]
    store().write("process", pl.DataFrame(processes))
    store().write("gpu", pl.DataFrame(gpus))


def merged(at: datetime) -> Merged:
    """Runs brought up to the minute that ends `at`; every node is live then."""
    Node.objects.update(last_seen_at=at)
    return merge(at + LATE)


def minutes(number: float) -> timedelta:
    """So many minutes."""
    return timedelta(minutes=number)


def process(node: Node, pid: int, first: datetime, last: datetime, **labels: str) -> Process:
    """A process with what its agent told of it."""
    return Process.objects.create(
        node=node, pid=pid, name="train.py", labels=labels, told_at=first, first_seen_at=first, last_seen_at=last
    )


def run(node: Node, first: datetime, last: datetime, **more: Any) -> JobRun:
    """An earlier run of `n1/ann/train.py` on one H200, of an hour with reported steps of 50 samples."""
    step_time_s = more.get("step_time_s", 0.5)
    defaults: dict[str, Any] = {
        "job": f"{node.name}/ann/train.py", "program": "ann/train.py", "merged_to": int(last.timestamp()), "gpus": 1,
        "gpu_model": "NVIDIA H200", "minutes": 60, "step_time_s": 0.5, "step_time_mad_s": 0.001, "samples_per_s": 50 / step_time_s if step_time_s else None,
        "energy_j_per_sample": 5.0,
    }  # fmt: skip
    return JobRun.objects.create(node=node, first_seen=first, last_seen=last, **{**defaults, **more})
