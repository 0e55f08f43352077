"""dataloader-too-few-workers: a starved GPU beside free cores."""

from typing import Any, ClassVar

import pytest

from advisor.engine import evaluate
from advisor.rule import load
from tests.advisor.rules import test_cgroup_cpu_throttled as throttled
from tests.advisor.rules import test_container_shm_small as small
from tests.advisor.rules.cases import RuleCases, frames


class TestDataloaderTooFewWorkers(RuleCases):
    """A starved GPU beside free cores."""

    rule = "dataloader-too-few-workers"
    fires: ClassVar[dict[str, Any]] = {
        "bottleneck": "data",
        "share_data": 0.8,
        "share_compute": 0.2,
        "busy": 0.2,
        "children": 0.0,
        "children_cores": 0.0,
        "main_cores": 4.0,
        "free_cores": 27.0,
        "workers_per_rank": 0.0,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"share_data": 0.1},
        {"free_cores": 1.0},
        {"children": 24.0, "children_cores": 24.0, "free_cores": 5.0},
        {"workers_per_rank": 8.0},  # as many as would be suggested
    ]
    between: ClassVar[dict[str, Any] | None] = {"share_data": 0.28, "workers_per_rank": 0.0}
    lacks = ("free_cores",)


def test_it_says_how_many_workers_to_try() -> None:
    """Half of the cores of the GPU's share, sixteen at most."""
    finding = TestDataloaderTooFewWorkers().found()

    assert any("num_workers=8" in change.text for change in finding.change)


def test_it_yields_to_storage() -> None:
    """More workers do not make a disk faster."""
    readings = TestDataloaderTooFewWorkers.fires | {"iowait_cores": 2.0, "disk_read_bytes_per_s": 1e9, "children": 4.0}

    found = evaluate(load(), frames(**readings)).findings

    assert [finding.rule for finding in found if finding.bottleneck == "data"] == ["storage-throughput-bound"]


@pytest.mark.parametrize("case", [throttled.TestCgroupCpuThrottled, small.TestContainerShmSmall])
def test_it_yields_to_what_stops_the_workers_there_are(case: type[RuleCases]) -> None:
    """A quota and a full /dev/shm slow any number of workers."""
    readings = TestDataloaderTooFewWorkers.fires | case.healthy | case.fires

    found = {finding.rule for finding in evaluate(load(), frames(**readings)).findings}

    assert case.rule in found
    assert "dataloader-too-few-workers" not in found
