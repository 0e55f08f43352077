"""storage-throughput-bound: loader processes blocked on the disk."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestStorageThroughputBound(RuleCases):
    """Loader processes blocked on the disk."""

    rule = "storage-throughput-bound"
    fires: ClassVar[dict[str, Any]] = {
        "bottleneck": "data",
        "share_data": 0.6,
        "share_compute": 0.4,
        "children": 4.0,
        "children_cores": 2.0,
        "iowait_cores": 1.8,
        "disk_read_bytes_per_s": 1e9,
    }
    silent: ClassVar[list[dict[str, Any]]] = [{"share_data": 0.1}, {"iowait_cores": 0.1}, {"disk_read_bytes_per_s": 0.0}]
    between: ClassVar[dict[str, Any] | None] = {
        "share_data": 0.28,
        "children": 4.0,
        "iowait_cores": 1.8,
        "disk_read_bytes_per_s": 1000000000.0,
    }
    lacks = ("iowait_cores",)
