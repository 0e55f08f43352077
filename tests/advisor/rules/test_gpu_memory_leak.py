"""gpu-memory-leak: memory that grows without end."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestGpuMemoryLeak(RuleCases):
    """Memory that grows without end."""

    rule = "gpu-memory-leak"
    fires: ClassVar[dict[str, Any]] = {"mem_growth_share": 0.14, "mem_growth_bytes_per_s": 2.7e9, "seconds_to_full": 40.0}
    silent: ClassVar[list[dict[str, Any]]] = [{"mem_growth_share": 0.0005}, {"busy": 0.0}]
    between: ClassVar[dict[str, Any] | None] = {
        "mem_growth_share": 0.005,
        "mem_growth_bytes_per_s": 1000000.0,
        "seconds_to_full": 70000.0,
    }
    lacks = ("mem_growth_share",)


def test_it_is_calmer_about_a_slow_leak() -> None:
    """Hours away from a full card it advises; within half an hour it warns."""
    slow = TestGpuMemoryLeak.judge(TestGpuMemoryLeak.fires | {"seconds_to_full": 40_000.0})

    assert [finding.severity for finding in slow.findings] == ["advice"]
