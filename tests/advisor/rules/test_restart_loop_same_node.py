"""restart-loop-same-node: a node that keeps ending jobs."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestRestartLoopSameNode(RuleCases):
    """A node that keeps ending jobs."""

    rule = "restart-loop-same-node"
    healthy: ClassVar[dict[str, Any]] = {"abnormal_ends_7d": 0, "abnormal_end_jobs_7d": 0}
    fires: ClassVar[dict[str, Any]] = {"abnormal_ends_7d": 2, "abnormal_end_jobs_7d": 2, "xids_7d": 3}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"abnormal_ends_7d": 1},
        {"abnormal_end_jobs_7d": 1},
        {"note_maintenance": True},
    ]
    lacks = ("abnormal_ends_7d",)


def test_three_of_one_job_are_enough() -> None:
    """Whose they are need not be known."""
    assert len(TestRestartLoopSameNode.judge({"abnormal_ends_7d": 3, "abnormal_end_jobs_7d": None}).findings) == 1
