"""gpu-memory-leak: memory that grows without end."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestGpuMemoryLeak(RuleCases):
    """Memory that grows without end."""

    rule = "gpu-memory-leak"
    fires: ClassVar[dict[str, Any]] = {
        "mem_growth_share": 0.19,
        "mem_growth_bytes": 28.1e9,
        "mem_growth_s": 10.0,
        "mem_growth_bytes_per_s": 2.8e9,
        "mem_fills_s": 40.0,
        "seconds_to_full": 40.0,
    }
    silent: ClassVar[list[dict[str, Any]]] = [{"mem_growth_share": 0.0005}, {"busy": 0.0}]
    between: ClassVar[dict[str, Any] | None] = {
        "mem_growth_share": 0.005,
        "mem_growth_bytes_per_s": 1000000.0,
        "mem_growth_bytes": 0.7e9,
        "mem_growth_s": 700.0,
        "mem_fills_s": 70000.0,
        "seconds_to_full": 70000.0,
    }
    lacks = ("mem_growth_share",)


def test_it_is_calmer_about_a_slow_leak() -> None:
    """Hours away from a full card it advises; within half an hour it warns."""
    slow = TestGpuMemoryLeak.judge(TestGpuMemoryLeak.fires | {"mem_fills_s": 40_000.0})

    assert [finding.severity for finding in slow.findings] == ["advice"]


def test_it_foretells_nothing_where_memory_falls_back() -> None:
    """A rise that ended says what it was; the time to a full card is for one that goes on."""
    (going_on,) = TestGpuMemoryLeak.judge(TestGpuMemoryLeak.fires).findings
    (ended,) = TestGpuMemoryLeak.judge(TestGpuMemoryLeak.fires | {"seconds_to_full": None}).findings

    assert "at that rate the GPU is full in 40 s" in going_on.summary.english()
    assert ended.summary.english() == "Memory in use grew by 26.2 GiB in 10 s (2.80 GB/s), then fell back or stood still."
    assert "seconds_to_full" not in [line.name for line in ended.evidence]
    assert ended.severity == "warn"


def test_it_promises_no_time_to_win_back() -> None:
    """A leak ends a job; it does not slow it."""
    assert TestGpuMemoryLeak().found().recoverable == 0
