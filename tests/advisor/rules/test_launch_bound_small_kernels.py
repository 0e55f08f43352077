"""launch-bound-small-kernels: gaps between kernels while the host launches."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestLaunchBoundSmallKernels(RuleCases):
    """Gaps between kernels while the host launches."""

    rule = "launch-bound-small-kernels"
    fires: ClassVar[dict[str, Any]] = {
        "busy": 0.45,
        "share_launch": 0.52,
        "share_compute": 0.45,
        "bottleneck": "launch",
        "main_cores": 1.0,
    }
    silent: ClassVar[list[dict[str, Any]]] = [{"bottleneck": "data"}, {"share_launch": 0.1}]
    between: ClassVar[dict[str, Any] | None] = {"busy": 0.7, "share_launch": 0.28, "share_compute": 0.7}
    lacks = ("busy",)


def test_it_is_less_sure_without_profiling_counters() -> None:
    """NVML alone gives utilisation, a poorer clock of the engine."""
    evaluation = TestLaunchBoundSmallKernels.judge(TestLaunchBoundSmallKernels.fires | {"sm_active": None})

    assert [finding.confidence for finding in evaluation.findings] == ["medium"]
