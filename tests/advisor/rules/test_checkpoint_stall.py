"""checkpoint-stall: a GPU that waits while its process writes."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestCheckpointStall(RuleCases):
    """A GPU that waits while its process writes."""

    rule = "checkpoint-stall"
    fires: ClassVar[dict[str, Any]] = {
        "bottleneck": "checkpoint",
        "share_checkpoint": 0.4,
        "share_compute": 0.6,
        "busy": 0.6,
        "write_bytes_per_s": 7e8,
    }
    silent: ClassVar[list[dict[str, Any]]] = [{"share_checkpoint": 0.05}]
    between: ClassVar[dict[str, Any] | None] = {"share_checkpoint": 0.09}
    lacks = ("write_bytes_per_s",)
