"""serving-memory-margin-thin: an engine without room for peaks."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestServingMemoryMarginThin(RuleCases):
    """An engine without room for peaks."""

    rule = "serving-memory-margin-thin"
    healthy: ClassVar[dict[str, Any]] = {"memory_fraction": 0.9}
    fires: ClassVar[dict[str, Any]] = {"memory_fraction": 0.97, "mem_free_min_bytes": 500000000.0}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"memory_fraction": 0.9},
        {"mem_free_min_bytes": 8000000000.0},
        {"flag_kv_cache_memory_bytes": 1000000000.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {"memory_fraction": 0.97, "mem_free_min_bytes": 1932735283.2}
    lacks = ("memory_fraction",)


def test_a_neighbour_on_the_gpu_is_reason_enough() -> None:
    """The fraction is of the whole card, whoever else is on it."""
    (finding,) = TestServingMemoryMarginThin.judge({"memory_fraction": 0.97, "mem_free_min_bytes": 8e9, "tenants": 2}).findings

    assert "2 programs compute" in finding.summary.english()


def test_sglang_has_a_threshold_of_its_own() -> None:
    """0.93 is thin there and not for vLLM."""
    thin = {"memory_fraction": 0.93, "mem_free_min_bytes": 5e8}

    assert TestServingMemoryMarginThin.judge(thin).findings == []
    assert "--mem-fraction-static 0.88" in TestServingMemoryMarginThin.judge(thin | {"kind": "sglang"}).findings[0].change[0].text
