"""kv-cache-preemption: a cache that is full."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestKvCachePreemption(RuleCases):
    """A cache that is full."""

    rule = "kv-cache-preemption"
    fires: ClassVar[dict[str, Any]] = {
        "preemptions_per_s": 0.4,
        "preemptions_per_request": 0.05,
        "kv_cache_used": 0.95,
        "kv_cache_used_max": 1.0,
        "seqs_that_fit": 20,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"kv_cache_used_max": 0.7},
        {"preemptions_per_s": 0.0, "preemptions_per_request": 0.0},
        {"age_s": 60.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {"preemptions_per_s": 0.03, "kv_cache_used": 0.85, "kv_cache_used_max": 0.95}
    lacks = ("preemptions_per_s",)


def test_flags_are_those_of_the_engine() -> None:
    """As many sequences as the cache holds at today's lengths, in each engine's words."""
    (sglang,) = TestKvCachePreemption.judge(TestKvCachePreemption.fires | {"kind": "sglang"}).findings

    assert "--max-num-seqs 20 " in TestKvCachePreemption().found().change[0].text
    assert any("--kv-cache-dtype fp8" in change.text for change in TestKvCachePreemption().found().change)
    assert sglang.change[0].text.startswith("--max-running-requests 20")
    assert not any(
        "--kv-cache-dtype" in change.text
        for change in TestKvCachePreemption.judge(TestKvCachePreemption.fires | {"flag_kv_cache_dtype": "fp8"}).findings[0].change
    )
