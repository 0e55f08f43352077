"""gpu-slow-outlier: slower than others of its model, by bench or beside the GPUs of its job."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases

SLOW = {"bench_ratio": 0.9, "bench_slow_runs": 3, "bench_runs": 3, "bench_name": "matmul_bf16_8192", "bench_age_s": 3600.0}
EQUAL: dict[str, Any] = {
    "bench_ratio": None,
    "bench_slow_runs": None,
    "clock_to_peers": 1.0,
    "power_to_peers": 1.0,
    "power_cap_share": 0.0,
}


class TestGpuSlowOutlier(RuleCases):
    """By bench."""

    rule = "gpu-slow-outlier"
    fires: ClassVar[dict[str, Any]] = SLOW
    silent: ClassVar[list[dict[str, Any]]] = [
        {"bench_slow_runs": 1},  # once may be chance
        {"bench_ratio": 0.95},
        {"power_limit_ratio": 0.8},  # slower by design: its own rule
        {"pcie_gen_ratio": 0.6},
    ]
    between: ClassVar[dict[str, Any] | None] = SLOW | {"bench_ratio": 0.95, "bench_slow_runs": 2}
    lacks = ("bench_ratio", "bench_slow_runs", "power_to_peers", "clock_to_peers")

    def test_the_bench_speaks_with_high_confidence(self) -> None:
        """And names the test."""
        finding = self.found()

        assert finding.confidence == "high"
        assert "0.90 times the median of its peers in matmul_bf16_8192" in finding.summary.english()
        assert finding.recoverable == 0.0508  # a job may wait for it in each step, or not at all

    def test_a_good_bench_outranks_what_a_job_shows(self) -> None:
        """Its load may differ there; the bench's does not."""
        job = EQUAL | {"clock_to_peers": 0.9}

        assert self.judge(job).findings
        assert self.judge(job | {"bench_ratio": 1.0, "bench_slow_runs": 0}).findings == []


class TestGpuSlowOutlierInAJob(RuleCases):
    """Beside the GPUs of its job, without a bench."""

    rule = "gpu-slow-outlier"
    fires: ClassVar[dict[str, Any]] = EQUAL | {"clock_to_peers": 0.94}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"clock_to_peers": 0.96},
        {"power_cap_share": 0.9},  # the limit is the reason
        {"sw_thermal_share": 0.3},
        {"busy": 0.8},  # less work, not a slower card
        {"sm_active": 0.3},
    ]
    between: ClassVar[dict[str, Any] | None] = EQUAL | {"clock_to_peers": 0.96}
    lacks = ("bench_ratio", "bench_slow_runs", "power_to_peers", "clock_to_peers")

    def test_it_is_said_with_low_confidence(self) -> None:
        """A job's GPUs need not have the same work."""
        finding = self.found()

        assert finding.confidence == "low"
        assert "its clock is 0.94 and its power 1.00 times the median" in finding.summary.english()

    def test_little_power_at_the_same_clock_is_a_sign_too(self) -> None:
        """But not where the clock is lower for it."""
        assert self.judge(EQUAL | {"power_to_peers": 0.9}).findings
        assert self.judge(EQUAL | {"power_to_peers": 0.9, "clock_to_peers": 0.97}).findings == []
