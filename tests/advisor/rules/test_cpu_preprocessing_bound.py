"""cpu-preprocessing-bound: all the CPU there is goes to preparing samples."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestCpuPreprocessingBound(RuleCases):
    """All the CPU there is goes to preparing samples."""

    rule = "cpu-preprocessing-bound"
    fires: ClassVar[dict[str, Any]] = {
        "bottleneck": "data",
        "share_data": 0.7,
        "share_compute": 0.3,
        "children": 30.0,
        "children_cores": 29.0,
        "cpu_busy_cores": 31.0,
        "free_cores": 1.0,
    }
    silent: ClassVar[list[dict[str, Any]]] = [{"share_data": 0.1}, {"free_cores": 20.0}, {"iowait_cores": 20.0}]
    between: ClassVar[dict[str, Any] | None] = {"share_data": 0.28}
    lacks = ("free_cores",)
