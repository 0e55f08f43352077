"""dataloader-oversubscribed: more loader processes than cores."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestDataloaderOversubscribed(RuleCases):
    """More loader processes than cores."""

    rule = "dataloader-oversubscribed"
    fires: ClassVar[dict[str, Any]] = {"cpu_busy_cores": 31.0, "children": 64.0, "children_cores": 28.0}
    silent: ClassVar[list[dict[str, Any]]] = [{"cpu_busy_cores": 10.0}, {"children": 16.0}, {"children_cores": 1.0}]
    between: ClassVar[dict[str, Any] | None] = {"cpu_busy_cores": 27.0, "children": 64.0, "children_cores": 28.0}
    lacks = ("children",)
