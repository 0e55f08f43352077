"""host-memory-pressure: a host nearly out of memory."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestHostMemoryPressure(RuleCases):
    """A host nearly out of memory."""

    rule = "host-memory-pressure"
    fires: ClassVar[dict[str, Any]] = {"host_mem_share": 0.97}
    silent: ClassVar[list[dict[str, Any]]] = [{"host_mem_share": 0.5}]
    between: ClassVar[dict[str, Any] | None] = {"host_mem_share": 0.93}
    lacks = ("host_mem_share",)
