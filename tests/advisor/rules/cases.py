"""`RuleCases`: the questions that every rule must answer; a rule's own test file gives the readings."""

from typing import Any, ClassVar

import polars as pl

from advisor.bottleneck import SHARES
from advisor.engine import Evaluation, evaluate
from advisor.features import Frames
from advisor.finding import Finding
from advisor.rule import Rule, load

HEALTHY: dict[str, Any] = {
    "evaluated": True, "free": False, "confidence": "high", "bottleneck": "compute", "index": 0, "window_s": 300.0, "samples": 300,
    "busy": 0.97, "gpu_util_pct": 99.0, "sm_active": 0.9, "sm_occupancy": 0.4, "tensor_active": 0.42, "dram_active": 0.4,
    "fp32_active": 0.02, "fp64_active": 0.0, "fp16_active": 0.0, "int_active": 0.15, "power_share": 0.95, "power_w": 665.0,
    "sm_active_when_busy": 0.93, "sm_occupancy_when_busy": 0.41, "tensor_active_when_busy": 0.43, "dram_active_when_busy": 0.41,
    "fp32_active_when_busy": 0.02, "fp64_active_when_busy": 0.0, "mem_used_share": 0.5, "mem_used_share_max": 0.5,
    "mem_used_bytes": 75e9, "mem_used_max_bytes": 75e9, "mem_total_bytes": 150e9, "held_bytes": 74e9, "pid": 4711, "processes": 1,
    "tenants": 1, "main_cores": 1.0, "main_cores_idle": 1.0, "children": 8.0, "children_cores": 2.0, "cores": 32.0,
    "cpu_busy_cores": 4.0, "free_cores": 28.0, "iowait_cores": 0.0, "disk_read_bytes_per_s": 0.0, "disk_write_bytes_per_s": 0.0,
    "read_bytes_per_s": 0.0, "write_bytes_per_s": 0.0, "pcie_rx_bytes_per_s": 5e7, "pcie_tx_bytes_per_s": 1e7, "pcie_share": 0.001,
    "copy_rate_share": 0.01, "nvlink_bytes_per_s": 0.0, "nvlink_share": 0.0, "host_mem_share": 0.3, "host_mem_used_bytes": 80e9,
    "host_mem_total_bytes": 270e9, "gpus": 1, "held_gpus": 1, "working_gpus": 1, "least_busy_ratio": 1.0, "most_sm_ratio": 1.0,
    "least_busy_index": 0, "most_sm_index": 0, "talks": False, "ranks_talk_over_pcie": False, "mem_growth_share": 0.0,
    "mem_growth_bytes_per_s": 0.0, "mem_growth_bytes": 0.0, "mem_growth_s": None, "mem_fills_s": None, "seconds_to_full": None, "compute_capability": "9.0", "serves": False, "loaded_share": 1.0,
    "hw_slowdown_share": 0.0, "thermal_slowdown_share": 0.0, "power_brake_share": 0.0, "sw_thermal_share": 0.0, "power_cap_share": 0.9,
    "power_limit_ratio": 1.0, "power_limit_w": 700.0, "power_limit_default_w": 700.0, "sm_clock_ratio": 0.9,
    "sm_clock_p95_ratio": 0.95, "sm_clock_p95_mhz": 1890.0, "sm_clock_top_mhz": 1980.0, "sm_clock_max_mhz": 1980.0,
    "mem_clock_p95_ratio": 1.0, "temperature_c": 50.0, "node_temperature_c": 50.0, "warmer_than_peers_c": 0.0, "loaded_power_w": 690.0,
    "pcie_gen_ratio": 1.0, "pcie_width_ratio": 1.0, "pcie_link_gen": 5.0, "pcie_link_gen_max": 5.0, "pcie_link_width": 16.0,
    "pcie_link_width_max": 16.0, "remap_pending": 0.0, "remap_failed": 0.0, "ecc_uncorrected_volatile": 0.0,
    "ecc_uncorrected_new": 0.0, "recovery_action": 0.0, "suggested_workers": 8, "suggested_cpus": 9, "idle_indices": [],
    **{f"share_{name}": 0.0 for name in SHARES}, "share_compute": 0.97, "share_launch": 0.03,
}  # fmt: skip
"""The features of a training that is fine, in every scope."""

KEY = {"gpu": "0", "job": "training", "node": "0"}


def frames(**readings: Any) -> Frames:
    """One GPU of one job on one node, healthy but for `readings`."""
    row = HEALTHY | readings
    frame = pl.DataFrame([row], infer_schema_length=1)
    nothing = [name for name, kind in frame.schema.items() if kind == pl.Null]
    frame = frame.with_columns(pl.col(nothing).cast(pl.Float64))
    return Frames(
        gpu=frame.with_columns(gpu=pl.lit(0), node=pl.lit(0), job=pl.lit("training")),
        job=frame.with_columns(job=pl.lit("training"), members=pl.lit([0])),
        node=frame.with_columns(node=pl.lit(0), members=pl.lit([0])),
    )


class RuleCases:
    """Subclass it, name the rule and give the readings that differ from HEALTHY."""

    rule: ClassVar[str]
    fires: ClassVar[dict[str, Any]]
    silent: ClassVar[list[dict[str, Any]]]  # each beside `fires`: what excludes it
    between: ClassVar[dict[str, Any] | None] = None  # past `clears`, short of `opens`; None: the rule has one threshold
    lacks: ClassVar[tuple[str, ...]]  # without these it cannot be judged

    @classmethod
    def the_rule(cls) -> Rule:
        """The rule under test."""
        return next(rule for rule in load() if rule.id == cls.rule)

    @classmethod
    def judge(cls, readings: dict[str, Any], *, is_open: bool = False) -> Evaluation:
        """The verdict of this rule alone."""
        rule = cls.the_rule()
        fingerprint = f"{rule.id}:{rule.scope}:{KEY[rule.scope]}"
        return evaluate((rule,), frames(**readings), {fingerprint} if is_open else frozenset())

    def found(self) -> Finding:
        """The finding of `fires`."""
        (finding,) = self.judge(self.fires).findings
        return finding

    def test_it_fires(self) -> None:
        """What it was made for opens it, with numbers, a change and every text filled in."""
        finding = self.found()

        assert finding.rule == self.rule
        assert finding.target == KEY[finding.scope]
        assert finding.evidence
        assert finding.change
        assert finding.sources
        for text in (finding.title, finding.summary, finding.risk, finding.rollback, finding.verify):
            assert text.english()
            assert "?" not in text.english()

    def test_it_stays_silent_on_a_healthy_job(self) -> None:
        """A training that is fine is left alone, and its open finding closes."""
        assert self.judge({}).findings == []
        assert self.judge({}, is_open=True).findings == []

    def test_it_stays_silent_where_it_is_excluded(self) -> None:
        """Each exclusion is enough."""
        for exclusion in self.silent:
            assert self.judge(self.fires | exclusion).findings == [], exclusion

    def test_it_keeps_an_open_finding_between_the_two_thresholds(self) -> None:
        """Between them nothing opens, and what is open stays open."""
        if self.between is None:
            return

        assert self.judge(self.between).findings == []
        assert [finding.rule for finding in self.judge(self.between, is_open=True).findings] == [self.rule]

    def test_it_is_not_evaluated_without_what_it_needs(self) -> None:
        """An absent reading is neither healthy nor a finding."""
        evaluation = self.judge(self.fires | dict.fromkeys(self.lacks))

        assert evaluation.findings == []
        assert [gap.rule for gap in evaluation.not_evaluated] == [self.rule]
        assert set(evaluation.not_evaluated[0].missing) & set(self.lacks)

    def test_it_is_not_evaluated_on_too_few_samples(self) -> None:
        """A target that could not be judged keeps what it has."""
        evaluation = self.judge(self.fires | {"evaluated": False})

        assert evaluation.findings == []
        assert [gap.missing for gap in evaluation.not_evaluated] == [("samples",)]
