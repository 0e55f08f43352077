"""triton-dynamic-batching-off: requests one at a time."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestTritonDynamicBatchingOff(RuleCases):
    """Requests one at a time."""

    rule = "triton-dynamic-batching-off"
    healthy: ClassVar[dict[str, Any]] = {"batch_size": 8.0}
    fires: ClassVar[dict[str, Any]] = {"kind": "triton", "batch_size": 1.0, "finished_per_s": 80.0, "waiting_share": 0.4}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"kind": "vllm"},
        {"batch_size": 4.0},
        {"finished_per_s": 2.0},
        {"waiting_share": 0.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {"kind": "triton", "batch_size": 1.5, "finished_per_s": 80.0, "waiting_share": 0.4}
    lacks = ("batch_size",)
