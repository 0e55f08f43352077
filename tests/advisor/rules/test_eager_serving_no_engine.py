"""eager-serving-no-engine: a web process with a model."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestEagerServingNoEngine(RuleCases):
    """A web process with a model."""

    rule = "eager-serving-no-engine"
    healthy: ClassVar[dict[str, Any]] = {"web_process": False}
    fires: ClassVar[dict[str, Any]] = {"web_process": True, "busy": 0.3, "sm_active": 0.1, "tenants": 4}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"web_process": False},
        {"serving_engine": "vllm"},
        {"sm_active": 0.9},
        {"busy": 0.0},
        {"told_kind": "train"},
        {"steps": 500.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {"web_process": True, "busy": 0.4, "sm_active": 0.42}
    lacks = ("web_process",)


def test_several_copies_become_one() -> None:
    """Workers of a web server each load the model."""
    assert any("--workers 1" in change.text for change in TestEagerServingNoEngine().found().change)
    assert not any(
        "--workers 1" in change.text
        for change in TestEagerServingNoEngine.judge(TestEagerServingNoEngine.fires | {"tenants": 1}).findings[0].change
    )
