"""prefill-ttft-breach: prompts that take too long."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestPrefillTtftBreach(RuleCases):
    """Prompts that take too long."""

    rule = "prefill-ttft-breach"
    healthy: ClassVar[dict[str, Any]] = {"note_ttft_slo_s": 1.0}
    fires: ClassVar[dict[str, Any]] = {
        "note_ttft_slo_s": 1.0,
        "ttft_s": 1.5,
        "ttft_p95_s": 2.5,
        "prompt_tokens_mean": 6000.0,
        "queue_s": 0.05,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"ttft_p95_s": 0.8},
        {"prompt_tokens_mean": 300.0},
        {"queue_s": 1.2},
        {"age_s": 60.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {"note_ttft_slo_s": 1.0, "ttft_p95_s": 0.95, "prompt_tokens_mean": 6000.0}
    lacks = ("note_ttft_slo_s",)


def test_fp8_is_said_only_where_the_card_has_it() -> None:
    """Ada and newer."""
    assert any("--quantization fp8" in change.text for change in TestPrefillTtftBreach().found().change)
    assert not any(
        "fp8" in change.text
        for change in TestPrefillTtftBreach.judge(TestPrefillTtftBreach.fires | {"sm": 80}).findings[0].change
    )
