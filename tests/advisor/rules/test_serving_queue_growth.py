"""serving-queue-growth: requests that wait."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestServingQueueGrowth(RuleCases):
    """Requests that wait."""

    rule = "serving-queue-growth"
    fires: ClassVar[dict[str, Any]] = {"requests_waiting": 6.0, "waiting_share": 0.9, "queue_s": 1.5}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"queue_s": 0.01},
        {"waiting_share": 0.1},
        {"requests_waiting": 0.2},
        {"age_s": 60.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {"requests_waiting": 2.0, "waiting_share": 0.3, "queue_s": 0.5}
    lacks = ("waiting_share",)


def test_the_target_of_the_service_counts_where_it_is_told() -> None:
    """A fifth of it in the queue."""
    assert TestServingQueueGrowth.judge(TestServingQueueGrowth.fires | {"note_ttft_slo_s": 10.0}).findings == []
    assert len(TestServingQueueGrowth.judge(TestServingQueueGrowth.fires | {"note_ttft_slo_s": 5.0}).findings) == 1


def test_a_cap_that_is_reached_is_raised_before_replicas_are_added() -> None:
    """The cache has room and every sequence that the cap allows runs."""
    capped = {"requests_running": 64.0, "max_num_seqs": 64.0, "kv_cache_used": 0.3, "seqs_that_fit": 192}
    (finding,) = TestServingQueueGrowth.judge(TestServingQueueGrowth.fires | capped).findings

    assert finding.change[0].text.startswith("--max-num-seqs 192")
    assert TestServingQueueGrowth().found().change[0].text.startswith("replicas: +1")
