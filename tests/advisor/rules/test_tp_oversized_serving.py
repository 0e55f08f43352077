"""tp-oversized-serving: a model over more GPUs than it needs."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestTpOversizedServing(RuleCases):
    """A model over more GPUs than it needs."""

    rule = "tp-oversized-serving"
    healthy: ClassVar[dict[str, Any]] = {"tp": 1.0, "weights_bytes": 16000000000.0}
    fires: ClassVar[dict[str, Any]] = {
        "tp": 4.0,
        "weights_bytes": 16000000000.0,
        "sm_active": 0.2,
        "kv_cache_used": 0.1,
        "requests_running": 4.0,
        "tp_half": 2,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"tp": 1.0},
        {"weights_bytes": 400000000000.0},
        {"sm_active": 0.8},
        {"kv_cache_used": 0.9},
        {"tpot_s": 0.02, "note_itl_slo_s": 0.02},
        {"requests_running": 0.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {
        "tp": 4.0,
        "weights_bytes": 16000000000.0,
        "sm_active": 0.5,
        "kv_cache_used": 0.1,
        "requests_running": 4.0,
    }
    lacks = ("weights_bytes",)


def test_two_replicas_take_its_place() -> None:
    """Half the GPUs each."""
    assert TestTpOversizedServing().found().change[0].text == "--tensor-parallel-size 2 --data-parallel-size 2"
