"""pipeline-bubble-high: a pipeline with too few micro-batches."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestPipelineBubbleHigh(RuleCases):
    """A pipeline with too few micro-batches."""

    rule = "pipeline-bubble-high"
    healthy: ClassVar[dict[str, Any]] = {
        "gpus": 8,
        "pp": 8.0,
        "microbatches": 64.0,
        "pipeline_bubble": 7 / 71,
        "pipeline_microbatches": 64,
    }
    fires: ClassVar[dict[str, Any]] = {
        "gpus": 8,
        "pp": 8.0,
        "microbatches": 8.0,
        "pipeline_bubble": 7 / 15,
        "pipeline_microbatches": 64,
    }
    silent: ClassVar[list[dict[str, Any]]] = [{"pipeline_bubble": 0.1}, {"pp": 1.0}, {"serves": True}, {"serving_engine": "vllm"}]
    between: ClassVar[dict[str, Any] | None] = {
        "gpus": 8, "pp": 8.0, "microbatches": 45.0, "pipeline_bubble": 7 / 52, "pipeline_microbatches": 64,
    }  # fmt: skip
    lacks = ("pipeline_bubble",)


def test_the_bubble_and_its_remedy_are_the_planners() -> None:
    """T12.2: 8 stages, 8 micro-batches: 46.7 %; 64 leave 9.9 %."""
    finding = TestPipelineBubbleHigh().found()

    assert finding.evidence[0].value == 0.466667
    assert any("+ micro_batches = 64 " in change.text for change in finding.change)
