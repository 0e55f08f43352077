"""gpu-co-tenant-contention: several computing processes on a full engine."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestGpuCoTenantContention(RuleCases):
    """Several computing processes on a full engine."""

    rule = "gpu-co-tenant-contention"
    fires: ClassVar[dict[str, Any]] = {
        "tenants": 2,
        "processes": 2,
        "busy": 1.0,
        "share_contention": 1.0,
        "bottleneck": "contention",
    }
    silent: ClassVar[list[dict[str, Any]]] = [{"tenants": 1}, {"busy": 0.46}]
    between: ClassVar[dict[str, Any] | None] = {"tenants": 2, "busy": 0.6}
    lacks = ("busy",)
