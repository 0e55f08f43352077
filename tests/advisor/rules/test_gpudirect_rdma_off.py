"""gpudirect-rdma-off: a network card that cannot read GPU memory."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestGpudirectRdmaOff(RuleCases):
    """A network card that cannot read GPU memory."""

    rule = "gpudirect-rdma-off"
    healthy: ClassVar[dict[str, Any]] = {"nodes": 2}
    fires: ClassVar[dict[str, Any]] = {"nodes": 2, "rdma_ready": False, "share_communication": 0.4}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"rdma_ready": True},
        {"nodes": 1},
        {"ib_ports_active": 0.0},
        {"share_communication": 0.1},
        {"gpu_model": "NVIDIA GH200 480GB"},
    ]
    between: ClassVar[dict[str, Any] | None] = {"nodes": 2, "rdma_ready": False, "share_communication": 0.2}
    lacks = ("rdma_ready",)
