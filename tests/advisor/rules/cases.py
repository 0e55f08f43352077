"""`RuleCases`: the questions that every rule must answer; a rule's own test file gives the readings."""

from typing import Any, ClassVar

import polars as pl

from advisor.bottleneck import SHARES
from advisor.engine import Evaluation, evaluate
from advisor.features import Frames
from advisor.finding import Finding
from advisor.kinds import kind
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
    "host_mem_total_bytes": 270e9, "gpus": 1, "gpus_on_node": 1, "held_gpus": 1, "working_gpus": 1, "least_busy_ratio": 1.0, "most_sm_ratio": 1.0,
    "least_busy_index": 0, "most_sm_index": 0, "talks": False, "ranks_talk_over_pcie": False, "mem_growth_share": 0.0,
    "mem_growth_bytes_per_s": 0.0, "mem_growth_bytes": 0.0, "mem_growth_s": None, "mem_fills_s": None, "seconds_to_full": None, "compute_capability": "9.0", "serves": False, "loaded_share": 1.0,
    "hw_slowdown_share": 0.0, "thermal_slowdown_share": 0.0, "power_brake_share": 0.0, "sw_thermal_share": 0.0, "power_cap_share": 0.9,
    "power_limit_ratio": 1.0, "power_limit_w": 700.0, "power_limit_default_w": 700.0, "sm_clock_ratio": 0.9,
    "sm_clock_p95_ratio": 0.95, "sm_clock_p95_mhz": 1890.0, "sm_clock_top_mhz": 1980.0, "sm_clock_max_mhz": 1980.0,
    "mem_clock_p95_ratio": 1.0, "temperature_c": 50.0, "node_temperature_c": 50.0, "warmer_than_peers_c": 0.0, "loaded_power_w": 690.0,
    "pcie_gen_ratio": 1.0, "pcie_width_ratio": 1.0, "pcie_link_gen": 5.0, "pcie_link_gen_max": 5.0, "pcie_link_width": 16.0,
    "pcie_link_width_max": 16.0, "remap_pending": 0.0, "remap_failed": 0.0, "ecc_uncorrected_volatile": 0.0,
    "ecc_uncorrected_new": 0.0, "recovery_action": 0.0, "suggested_workers": 8, "suggested_cpus": 9, "idle_indices": [],
    "bench_ratio": 1.0, "bench_slow_runs": 0, "bench_runs": 3, "bench_name": "matmul_bf16_8192", "bench_age_s": 3600.0,
    **{f"share_{name}": 0.0 for name in SHARES}, "share_compute": 0.97, "share_launch": 0.03,
    # the host of the node
    "psi_cpu_some_pct": 1.0, "psi_io_some_pct": 0.5, "psi_memory_some_pct": 0.0, "psi_memory_full_pct": 0.0, "load_1min": 4.5,
    "swap_in_bytes_per_s": 0.0, "swap_out_bytes_per_s": 0.0, "disk_read_iops": 20.0, "disk_write_iops": 10.0,
    "disk_read_each_bytes": 1e6, "disk_await_s": 0.0008, "disk_busy_max_pct": 2.0, "net_bytes_per_s": 1e6, "net_errors_per_s": 0.0,
    "net_drops_per_s": 0.0, "tcp_retransmits_per_s": 0.1, "ib_ports": 8.0, "ib_ports_active": 8.0, "ib_bytes_per_s": 1e6,
    "ib_symbol_errors_new": 0.0, "ib_link_downed_new": 0.0, "ib_rate_bytes_per_s": 400e9, "ib_rate_max_bytes_per_s": 400e9,
    "ib_xmit_wait_per_s": 0.0, "shm_used_share": 0.02, "cpu_steal_pct": 0.0, "cpu_busy_share": 0.125, "nic_rate_bytes_per_s": 12.5e9,
    "driver_version": "580.95.05", "driver_major": 580, "cuda_driver_version": "13.0", "cuda_driver_major": 13, "kernel": "6.8.0",
    "nvidia_module_version": "580.95.05", "cpu_governor": "performance", "numa_nodes": 2, "rdma_ready": True,
    "persistence_mode": True, "node_name": "gpu-17", "node_gpus": 8, "node_gpus_present": 8, "ranks": 1, "workers": 8.0,
    "worker_cores_total": 2.0, "gpu_mem_total_bytes": 1200e9, "jobs": 1, "other_cores": 0.2,
    # the job's processes
    "main_thread_share": 0.9, "threads": 60.0, "dataloader_workers": 8.0, "workers_per_rank": 8.0, "ranks_on_node": 1, "nodes": 1,
    "gpus_per_process_max": 1, "io_delay_share": 0.0, "storage_read_bytes_per_s": 0.0, "involuntary_switches_per_s": 20.0,
    "rss_bytes": 20e9, "cpu_throttled_share": 0.0, "cpu_quota_cores": None, "shm_size_bytes": 135e9, "numa_local_share": 1.0,
    "cores_allowed": 32.0, "cpu_without_gpu_cores": 0.0, "gpu0_mem_ratio": None, "gpu0_sm_ratio": None, "vms": 0,
    "slow_worker_ratio": 1.1, "cpu_cores_total_used": 3.0,
    # its GPUs
    "power_share_p50": 0.96, "turns_per_min": 0.0, "mem_free_min_bytes": 75e9, "tensor_nvlink_corr": None, "pcie_replays_per_s": 0.0,
    "net_share": 0.0001, "ib_share": 0.0, "has_nvlink": True, "sm": 90, "gpu_model": "NVIDIA H200", "mig": False,
    "nvlink_errors_per_min": 0.0, "nvlink_links_active": 18, "nvlink_links_expected": 18, "fabric_state": 3.0,
    "fabric_degraded": False, "pcie_errors_per_s": 0.0, "ecc_corrected_day": 0.0, "ecc_corrected_day_p99": 10.0,
    "sram_threshold_exceeded": False, "remap_banks_none": 0.0, "memory_temperature_c": 55.0, "memory_temperature_max_c": 95.0,
    "temperature_margin_c": 37.0, "power_to_peers": 1.0, "clock_to_peers": 1.0, "sm_clock_cv": 0.01, "lost": False,
}  # fmt: skip
"""The features of a training that is fine, in every scope; of its script, its reports, its labels, its past and its price nothing is
known. A rule that reads those says in `healthy` what they are where all is well."""

SERVICE: dict[str, Any] = {
    "kind": "vllm", "model": "llama-3.1-8b", "requests_running": 24.0, "requests_waiting": 0.0, "requests_waiting_growth_per_min": 0.0,
    "waiting_share": 0.0, "kv_cache_used": 0.5, "kv_cache_used_max": 0.6, "finished_per_s": 4.0, "prompt_tokens_per_s": 4000.0,
    "generation_tokens_per_s": 1200.0, "tokens_per_request": 300.0, "prompt_tokens_mean": 1000.0, "preemptions_per_s": 0.0,
    "preemptions_per_request": 0.0, "prefix_hit_share": 0.3, "ttft_s": 0.15, "ttft_p95_s": 0.3, "tpot_s": 0.02, "tpot_p95_s": 0.03,
    "queue_s": 0.001, "e2e_s": 6.0, "e2e_p95_ratio": 1.5, "age_s": 86400.0, "restarts_7d": 0, "serves": True,
}  # fmt: skip
"""What differs for an engine that serves well."""

KEY = {"gpu": "0", "job": "training", "node": "0", "service": "0", "fleet": "fleet"}


def frames(**readings: Any) -> Frames:
    """One GPU of one job and of one service on one node, healthy but for `readings`."""
    frame, service = _row(HEALTHY | readings), _row(HEALTHY | SERVICE | readings)
    return Frames(
        gpu=frame.with_columns(gpu=pl.lit(0), node=pl.lit(0), job=pl.lit("training")),
        job=frame.with_columns(job=pl.lit("training"), members=pl.lit([0])),
        node=frame.with_columns(node=pl.lit(0), members=pl.lit([0])),
        service=service.with_columns(service=pl.lit("0"), node=pl.lit(0), members=pl.lit([0])),
        fleet=frame.with_columns(fleet=pl.lit("fleet")),
    )


def _row(readings: dict[str, Any]) -> pl.DataFrame:
    """One row; what is None is null of its feature's type."""
    frame = pl.DataFrame([readings], infer_schema_length=1)
    return frame.with_columns([pl.col(name).cast(kind(name)) for name, dtype in frame.schema.items() if dtype == pl.Null])


class RuleCases:
    """Subclass it, name the rule and give the readings that differ from HEALTHY."""

    rule: ClassVar[str]
    fires: ClassVar[dict[str, Any]]
    silent: ClassVar[list[dict[str, Any]]]  # each beside `fires`: what excludes it
    between: ClassVar[dict[str, Any] | None] = None  # past `clears`, short of `opens`; None: the rule has one threshold
    lacks: ClassVar[tuple[str, ...]]  # without these it cannot be judged
    healthy: ClassVar[dict[str, Any]] = {}  # beside HEALTHY: what a job that is fine reports, where the rule needs it

    @classmethod
    def the_rule(cls) -> Rule:
        """The rule under test."""
        return next(rule for rule in load() if rule.id == cls.rule)

    @classmethod
    def judge(cls, readings: dict[str, Any], *, is_open: bool = False) -> Evaluation:
        """The verdict of this rule alone."""
        rule = cls.the_rule()
        fingerprint = f"{rule.id}:{rule.scope}:{KEY[rule.scope]}"
        return evaluate((rule,), frames(**(cls.healthy | readings)), {fingerprint} if is_open else frozenset())

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
        if finding.expected_gain is not None:  # a range that holds everything says nothing
            assert finding.expected_gain.high <= 10 * finding.expected_gain.low

    def test_it_stays_silent_on_a_healthy_job(self) -> None:
        """A training that is fine is judged and left alone, and its open finding closes."""
        assert self.judge({}).findings == []
        assert self.judge({}).not_evaluated == []
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
