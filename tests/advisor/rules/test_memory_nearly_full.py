"""memory-nearly-full: so little memory left that the next batch fails."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestMemoryNearlyFull(RuleCases):
    """So little memory left that the next batch fails."""

    rule = "memory-nearly-full"
    fires: ClassVar[dict[str, Any]] = {"mem_used_share": 0.92, "mem_used_max_bytes": 138e9}
    silent: ClassVar[list[dict[str, Any]]] = [{"mem_used_share": 0.85}, {"serves": True}, {"free": True}]
    between: ClassVar[dict[str, Any] | None] = {"mem_used_share": 0.89}
    lacks = ("mem_used_share",)
