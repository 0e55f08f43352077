"""shared-storage-contention: one job that slows the storage of others."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestSharedStorageContention(RuleCases):
    """One job that slows the storage of others."""

    rule = "shared-storage-contention"
    healthy: ClassVar[dict[str, Any]] = {"data_starved_jobs": 0, "data_starved_nodes": 0, "storage_top_share": 0.1}
    fires: ClassVar[dict[str, Any]] = {
        "data_starved_jobs": 4,
        "data_starved_nodes": 3,
        "storage_top_share": 0.7,
        "storage_top_job": "n1/ann/python",
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"data_starved_jobs": 2},
        {"data_starved_nodes": 1},
        {"storage_top_share": 0.2},
    ]
    between: ClassVar[dict[str, Any] | None] = {
        "data_starved_jobs": 2,
        "data_starved_nodes": 2,
        "storage_top_share": 0.7,
        "storage_top_job": "n1/ann/python",
    }
    lacks = ("storage_top_share",)
