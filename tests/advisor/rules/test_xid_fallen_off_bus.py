"""xid-fallen-off-bus: a GPU that is not there."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestXidFallenOffBus(RuleCases):
    """A GPU that is not there."""

    rule = "xid-fallen-off-bus"
    healthy: ClassVar[dict[str, Any]] = {"node_gpus": 8, "node_gpus_present": 8}
    fires: ClassVar[dict[str, Any]] = {"node_gpus": 8, "node_gpus_present": 7}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"node_gpus_present": 8},
        {"note_maintenance": True},
    ]
    lacks = ("node_gpus_present",)


def test_the_number_that_the_site_expects_counts_too() -> None:
    """A GPU that was never seen is missing as well."""
    (finding,) = TestXidFallenOffBus.judge({"node_gpus": 7, "node_gpus_present": 7, "note_expected_gpus": 8.0}).findings

    assert "the site says that this node has 8" in finding.summary.english()
    assert finding.severity == "critical"


def test_a_gpu_that_a_scheduler_gave_and_nobody_lists_is_missing() -> None:
    """Though as many are there as were ever seen: the node booted without it, and its scheduler's file still has it."""
    told = {"node_gpus": 7, "node_gpus_present": 7, "allocated_gpus_missing": 1, "jobs_on_missing": "west/4711"}
    (finding,) = TestXidFallenOffBus.judge(told).findings

    assert finding.summary.english() == ("The driver lists 7 GPU(s), and 1 that jobs were given are not among them: west/4711.")
