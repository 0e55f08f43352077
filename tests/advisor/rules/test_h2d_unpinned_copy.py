"""h2d-unpinned-copy: pageable copies."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestH2dUnpinnedCopy(RuleCases):
    """Pageable copies."""

    rule = "h2d-unpinned-copy"
    fires: ClassVar[dict[str, Any]] = {
        "bottleneck": "copy",
        "share_copy": 0.95,
        "share_compute": 0.05,
        "busy": 0.05,
        "copy_rate_share": 0.3,
        "pcie_rx_bytes_per_s": 18e9,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"share_copy": 0.1},
        {"copy_rate_share": 0.87},
        {"host_mem_share": 0.95},
        {"ranks_talk_over_pcie": True},
    ]
    between: ClassVar[dict[str, Any] | None] = {"share_copy": 0.28, "copy_rate_share": 0.5}
    lacks = ("copy_rate_share",)
