"""gpu-reset-required: the driver asks for recovery."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestGpuResetRequired(RuleCases):
    """The driver asks for recovery."""

    rule = "gpu-reset-required"
    fires: ClassVar[dict[str, Any]] = {"recovery_action": 1.0}
    silent: ClassVar[list[dict[str, Any]]] = [{"recovery_action": 0.0}]
    lacks = ("recovery_action",)
