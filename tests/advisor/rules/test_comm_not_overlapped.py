"""comm-not-overlapped: exposed traffic between ranks."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestCommNotOverlapped(RuleCases):
    """Exposed traffic between ranks."""

    rule = "comm-not-overlapped"
    fires: ClassVar[dict[str, Any]] = {
        "bottleneck": "communication",
        "share_communication": 0.8,
        "share_compute": 0.0,
        "gpus": 2,
        "held_gpus": 2,
        "working_gpus": 2,
        "talks": True,
        "nvlink_bytes_per_s": 95e9,
        "nvlink_share": 0.2,
        "tensor_active": 0.03,
    }
    silent: ClassVar[list[dict[str, Any]]] = [{"working_gpus": 1}, {"share_communication": 0.1}]
    between: ClassVar[dict[str, Any] | None] = {
        "bottleneck": "communication",
        "share_communication": 0.28,
        "share_compute": 0.0,
        "gpus": 2,
        "held_gpus": 2,
        "working_gpus": 2,
        "talks": True,
        "nvlink_bytes_per_s": 95000000000.0,
        "nvlink_share": 0.2,
        "tensor_active": 0.03,
    }
    lacks = ("tensor_active",)
