"""memory-headroom-unused: memory left over, and time paid to save it."""

from typing import Any, ClassVar

import pytest

from tests.advisor.rules.cases import RuleCases

GIB = 1 << 30


class TestMemoryHeadroomUnused(RuleCases):
    """Memory left over, and time paid to save it."""

    rule = "memory-headroom-unused"
    healthy: ClassVar[dict[str, Any]] = {
        "alloc_peak_share": 0.8, "recompute": "none", "accumulation": 1, "micro_batch": 16, "offload": False, "steps_total": 5000,
        "told_kind": "train", "mem_total_bytes": 140 * GIB,
    }  # fmt: skip
    fires: ClassVar[dict[str, Any]] = {"alloc_peak_share": 0.4, "recompute": "full"}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"alloc_peak_share": 0.65},
        {"recompute": "selective"},
        {"selective_recompute_bytes": 135.0 * GIB},  # without recompute it would not fit
        {"steps_total": 100},
        {"run_s": 60.0},
        {"tenants": 2},
        {"serves": True},
        {"told_kind": "eval"},
        {"note_phase": "eval"},
        {"ooms_24h": 1},
    ]
    between: ClassVar[dict[str, Any] | None] = fires | {"alloc_peak_share": 0.65}
    lacks = ("alloc_peak_share", "mem_used_share_max")


@pytest.mark.parametrize(
    ("readings", "said", "change", "gain"),
    [
        ({"recompute": "full"}, "yet all activations are computed twice.", "gradient_checkpointing_disable", (1.15, 1.3)),
        (
            {"recompute": "full", "selective_recompute_bytes": 90.0 * GIB},
            "without that the job needs 90 GiB of 140 GiB.",
            "--gradient_checkpointing False",
            (1.15, 1.3),
        ),
        ({"recompute": "full", "launcher": "megatron"}, "computed twice.", "--recompute-granularity selective", (1.15, 1.3)),
        (
            {"accumulation": 8, "micro_batch": 2},
            "At the peak 40% of the card was allocated, yet micro-batches of 2 are accumulated 8 times.",
            "+ micro_batch, accumulation = 2 * 2, 8 // 2",
            (1.03, 1.15),
        ),
        ({"accumulation": 8, "micro_batch": 2, "double_batch_bytes": 80.0 * GIB}, "twice the micro-batch needs 80 GiB of 140 GiB.", "2 * 2", (1.03, 1.15)),
        ({"offload": True}, "yet states are kept in host memory.", "offload_policy=CPUOffloadPolicy", (1.03, 2.0)),
        ({"offload": True, "launcher": "deepspeed"}, "yet states are kept in host memory.", '- "offload_optimizer": {"device": "cpu"},', (1.03, 2.0)),
    ],
)  # fmt: skip
def test_it_names_what_the_job_pays_with(readings: dict[str, Any], said: str, change: str, gain: tuple[float, float]) -> None:
    """Recompute, accumulation or offload, with the planner's number where there is one."""
    (finding,) = TestMemoryHeadroomUnused.judge({"alloc_peak_share": 0.4} | readings).findings

    assert said in finding.summary.english()
    assert any(change in one.text for one in finding.change)
    assert finding.confidence == "medium"
    assert finding.expected_gain is not None
    assert (finding.expected_gain.low, finding.expected_gain.high) == gain


@pytest.mark.parametrize(
    "readings",
    [
        {"accumulation": 8, "micro_batch": 2, "double_batch_bytes": 135.0 * GIB},
        {"accumulation": 8, "micro_batch": 16},
        {"accumulation": 2, "micro_batch": 2},
        {"offload": True, "planned_bytes": 200.0 * GIB},
    ],
)
def test_what_would_not_fit_or_does_not_cost_is_not_said(readings: dict[str, Any]) -> None:
    """The planner has the last word on room."""
    assert TestMemoryHeadroomUnused.judge({"alloc_peak_share": 0.4} | readings).findings == []


def test_memory_in_use_bounds_the_peak_where_nothing_is_reported() -> None:
    """At low confidence."""
    (finding,) = TestMemoryHeadroomUnused.judge(
        {"alloc_peak_share": None, "mem_used_share_max": 0.4, "recompute": "full"}
    ).findings

    assert finding.confidence == "low"
    assert finding.summary.english().startswith("At most 40% of the card was in use")
