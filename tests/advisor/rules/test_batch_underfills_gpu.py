"""batch-underfills-gpu: a busy engine with few SMs at work."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestBatchUnderfillsGpu(RuleCases):
    """A busy engine with few SMs at work."""

    rule = "batch-underfills-gpu"
    fires: ClassVar[dict[str, Any]] = {
        "bottleneck": "underfilled",
        "share_underfilled": 0.95,
        "share_compute": 0.0,
        "sm_active": 0.13,
        "sm_active_when_busy": 0.135,
        "dram_active": 0.01,
    }
    silent: ClassVar[list[dict[str, Any]]] = [{"bottleneck": "launch"}, {"share_underfilled": 0.1}, {"mem_used_share_max": 0.95}]
    between: ClassVar[dict[str, Any] | None] = {"bottleneck": "launch", "share_underfilled": 0.3}
    lacks = ("sm_active", "power_share")
