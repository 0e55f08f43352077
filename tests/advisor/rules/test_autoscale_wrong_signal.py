"""autoscale-wrong-signal: an autoscaler on the wrong signal."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestAutoscaleWrongSignal(RuleCases):
    """An autoscaler on the wrong signal."""

    rule = "autoscale-wrong-signal"
    healthy: ClassVar[dict[str, Any]] = {"note_autoscaler_metric": "queue"}
    fires: ClassVar[dict[str, Any]] = {"note_autoscaler_metric": "cpu"}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"note_autoscaler_metric": "kv"},
    ]
    lacks = ("note_autoscaler_metric",)
