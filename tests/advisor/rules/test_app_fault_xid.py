"""app-fault-xid: faults of different programs on one GPU."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestAppFaultXid(RuleCases):
    """Faults of different programs on one GPU."""

    rule = "app-fault-xid"
    healthy: ClassVar[dict[str, Any]] = {"app_xids_30d": 0, "app_xid_jobs_30d": 0}
    fires: ClassVar[dict[str, Any]] = {"app_xids_30d": 5, "app_xid_jobs_30d": 3, "app_xid_code": 31}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"app_xid_jobs_30d": 1},
        {"app_xids_30d": 1},
    ]
    lacks = ("app_xid_jobs_30d",)
