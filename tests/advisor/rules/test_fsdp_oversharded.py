"""fsdp-oversharded: full sharding that the memory does not need."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestFsdpOversharded(RuleCases):
    """Full sharding that the memory does not need."""

    rule = "fsdp-oversharded"
    healthy: ClassVar[dict[str, Any]] = {"gpus": 8, "sharding": "fsdp", "alloc_peak_share": 0.85, "comm_share": 0.05}
    fires: ClassVar[dict[str, Any]] = {
        "gpus": 8, "sharding": "fsdp", "alloc_peak_share": 0.4, "comm_share": 0.3, "share_communication": 0.3,
    }  # fmt: skip
    silent: ClassVar[list[dict[str, Any]]] = [
        {"sharding": "ddp"},
        {"alloc_peak_share": 0.6},
        {"comm_share": 0.05, "share_communication": 0.05},
        {"gpus": 1},
    ]
    between: ClassVar[dict[str, Any] | None] = {
        "gpus": 8, "sharding": "fsdp", "alloc_peak_share": 0.6, "comm_share": 0.15, "share_communication": 0.15,
    }  # fmt: skip
    lacks = ("sharding",)


def test_it_says_it_in_the_words_of_the_jobs_own_library() -> None:
    """FSDP by an argument, DeepSpeed by its JSON."""
    (finding,) = TestFsdpOversharded.judge(TestFsdpOversharded.fires | {"sharding": "zero3"}).findings

    assert [change.text for change in finding.change] == [
        '- "zero_optimization": {"stage": 3}\n+ "zero_optimization": {"stage": 2, "overlap_comm": true}'
    ]
    assert "reshard_after_forward=False" in TestFsdpOversharded().found().change[0].text
