"""serving-cold-start: first requests that are slow."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestServingColdStart(RuleCases):
    """First requests that are slow."""

    rule = "serving-cold-start"
    healthy: ClassVar[dict[str, Any]] = {"first_requests_ratio": 1.1}
    fires: ClassVar[dict[str, Any]] = {"first_requests_ratio": 6.0}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"first_requests_ratio": 1.2},
    ]
    between: ClassVar[dict[str, Any] | None] = {"first_requests_ratio": 2.0}
    lacks = ("first_requests_ratio",)
