"""row-remap-failed: no spare rows left."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestRowRemapFailed(RuleCases):
    """No spare rows left."""

    rule = "row-remap-failed"
    fires: ClassVar[dict[str, Any]] = {"remap_failed": 1.0}
    silent: ClassVar[list[dict[str, Any]]] = [{"remap_failed": 0.0}]
    lacks = ("remap_failed",)
