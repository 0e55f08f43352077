"""The words for what findings name by slug: severities, states, metrics, features. Pages and messages say them alike."""

import re
from collections.abc import Mapping
from typing import Final

from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from advisor.names import FEATURES
from fleet.findings.plain_names import plain_name

SEVERITY: Final = {
    "critical": pgettext_lazy("severity", "critical"),
    "warn": pgettext_lazy("severity", "warning"),
    "advice": pgettext_lazy("severity", "advice"),
    "info": pgettext_lazy("severity", "info"),
}

CONDITION: Final = {
    "pending": pgettext_lazy("condition", "pending"),
    "firing": pgettext_lazy("condition", "firing"),
    "noisy": pgettext_lazy("condition", "noisy"),
    "resolved": pgettext_lazy("condition", "resolved"),
}

ADVICE: Final = {
    "proposed": pgettext_lazy("advice", "proposed"),
    "accepted": pgettext_lazy("advice", "accepted"),
    "dismissed": pgettext_lazy("advice", "dismissed"),
    "applied": pgettext_lazy("advice", "applied"),
    "helped": pgettext_lazy("advice", "helped"),
    "no_effect": pgettext_lazy("advice", "no effect"),
    "worse": pgettext_lazy("advice", "worse"),
    "cannot_tell": pgettext_lazy("advice", "cannot tell"),
}

AXIS: Final = {"condition": _("condition"), "advice": _("advice"), "cause": _("cause")}
SCOPE: Final = {"gpu": _("GPU"), "node": _("node"), "job": _("job"), "service": _("service"), "fleet": _("fleet")}
CONFIDENCE: Final = {
    "high": pgettext_lazy("confidence", "high"),
    "medium": pgettext_lazy("confidence", "medium"),
    "low": pgettext_lazy("confidence", "low"),
}
CHANGE_KIND: Final = {
    "diff": _("code change"),
    "flag": _("command-line flag"),
    "env": _("environment variable"),
    "command": _("command"),
    "config": _("configuration"),
    "step": _("step"),
}

SIGNS: Final = {">=": "≥", "<=": "≤"}
"""How a comparison is written; the others are written as they are."""

METRIC: Final = {
    "gpu.gpu_util_pct": _("GPU utilisation"),
    "gpu.mem_copy_util_pct": _("Memory controller utilisation"),
    "gpu.mem_used_bytes": _("Device memory used"),
    "gpu.mem_total_bytes": _("Device memory"),
    "gpu.mem_reserved_bytes": _("Device memory reserved by the driver"),
    "gpu.bar1_used_bytes": _("BAR1 used"),
    "gpu.bar1_total_bytes": _("BAR1 size"),
    "gpu.nvdec_util_pct": _("Video decoder utilisation"),
    "gpu.nvenc_util_pct": _("Video encoder utilisation"),
    "gpu.nvjpg_util_pct": _("JPEG decoder utilisation"),
    "gpu.temperature_c": _("Temperature"),
    "gpu.memory_temperature_c": _("Memory temperature"),
    "gpu.temperature_margin_c": _("Temperature margin to slowdown"),
    "gpu.temperature_shutdown_c": _("Shutdown temperature"),
    "gpu.temperature_slowdown_c": _("Slowdown temperature"),
    "gpu.temperature_max_c": _("Highest GPU temperature at full speed"),
    "gpu.memory_temperature_max_c": _("Highest memory temperature at full speed"),
    "gpu.power_w": _("Power"),
    "gpu.power_instant_w": _("Power at this instant"),
    "gpu.power_limit_w": _("Power limit"),
    "gpu.power_limit_min_w": _("Lowest power limit"),
    "gpu.power_limit_max_w": _("Highest power limit"),
    "gpu.energy_j_total": _("Energy"),
    "gpu.sm_clock_mhz": _("SM clock"),
    "gpu.mem_clock_mhz": _("Memory clock"),
    "gpu.sm_clock_max_mhz": _("Highest SM clock"),
    "gpu.mem_clock_max_mhz": _("Highest memory clock"),
    "gpu.pstate": _("Performance state"),
    "gpu.clocks_event_reasons": _("Clock event reasons"),
    "gpu.power_cap_s_total": _("Time slowed by the power cap"),
    "gpu.sw_thermal_s_total": _("Time slowed by the driver for heat"),
    "gpu.hw_thermal_s_total": _("Time slowed by the hardware for heat"),
    "gpu.power_brake_s_total": _("Time slowed by the power brake"),
    "gpu.thermal_s_total": _("Time slowed for heat"),
    "gpu.gr_engine_active": _("Compute engine active"),
    "gpu.sm_active": _("SM active"),
    "gpu.sm_occupancy": _("SM occupancy"),
    "gpu.int_active": _("Integer pipe active"),
    "gpu.tensor_active": _("Tensor cores active"),
    "gpu.tensor_dfma_active": _("Tensor cores, double precision"),
    "gpu.tensor_hmma_active": _("Tensor cores, 16-bit, TF32 and FP8"),
    "gpu.tensor_imma_active": _("Tensor cores, integer"),
    "gpu.dram_active": _("DRAM active"),
    "gpu.fp64_active": _("FP64 pipe active"),
    "gpu.fp32_active": _("FP32 pipe active"),
    "gpu.fp16_active": _("FP16 pipe active"),
    "gpu.pcie_tx_bytes_per_s": _("PCIe to host"),
    "gpu.pcie_rx_bytes_per_s": _("PCIe from host"),
    "gpu.nvlink_rx_bytes_per_s": _("NVLink received"),
    "gpu.nvlink_tx_bytes_per_s": _("NVLink sent"),
    "gpu.nvlink_links_active": _("NVLinks up"),
    "gpu.nvlink_replay_errors_total": _("NVLink replays"),
    "gpu.nvlink_recovery_errors_total": _("NVLink recoveries"),
    "gpu.nvlink_crc_errors_total": _("NVLink CRC errors"),
    "gpu.pcie_link_gen": _("PCIe generation now"),
    "gpu.pcie_link_width": _("PCIe lanes now"),
    "gpu.pcie_replays_total": _("PCIe replays"),
    "gpu.pcie_recoveries_total": _("PCIe link recoveries"),
    "gpu.pcie_correctable_errors_total": _("PCIe errors corrected"),
    "gpu.pcie_non_fatal_errors_total": _("PCIe non-fatal errors"),
    "gpu.pcie_fatal_errors_total": _("PCIe fatal errors"),
    "gpu.pcie_receiver_errors_total": _("PCIe receiver errors"),
    "gpu.pcie_bad_tlp_total": _("PCIe damaged data packets"),
    "gpu.pcie_bad_dllp_total": _("PCIe damaged link packets"),
    "gpu.pcie_naks_received_total": _("PCIe NAKs received"),
    "gpu.pcie_naks_sent_total": _("PCIe NAKs sent"),
    "gpu.pcie_lcrc_errors_total": _("PCIe checksum errors"),
    "gpu.ecc_corrected_volatile_total": _("Corrected ECC errors since driver load"),
    "gpu.ecc_uncorrected_volatile_total": _("Uncorrected ECC errors since driver load"),
    "gpu.ecc_corrected_aggregate_total": _("Corrected ECC errors over its life"),
    "gpu.ecc_uncorrected_aggregate_total": _("Uncorrected ECC errors over its life"),
    "gpu.sram_ecc_uncorrected_total": _("Uncorrected SRAM errors over its life"),
    "gpu.sram_ecc_parity_total": _("SRAM parity errors over its life"),
    "gpu.sram_ecc_threshold_exceeded": _("SRAM error threshold exceeded"),
    "gpu.remap_correctable_total": _("Rows remapped after corrected errors"),
    "gpu.remap_uncorrectable_total": _("Rows remapped after uncorrected errors"),
    "gpu.remap_pending": _("Row remap pending"),
    "gpu.remap_failed": _("Row remap failed"),
    "gpu.remap_banks_max": _("Memory banks with every spare row"),
    "gpu.remap_banks_high": _("Memory banks with most spare rows"),
    "gpu.remap_banks_partial": _("Memory banks with some spare rows"),
    "gpu.remap_banks_low": _("Memory banks with few spare rows"),
    "gpu.remap_banks_none": _("Memory banks without spare rows"),
    "gpu.retired_pages_pending": _("Page retirement pending"),
    "gpu.recovery_action": _("Recovery action"),
    "gpu.fabric_state": _("NVLink fabric state"),
    "gpu.fabric_health": _("NVLink fabric health"),
    "gpu.persistence_mode": _("Persistence mode"),
    "gpu.compute_mode": _("Compute mode"),
    "gpu.xid_errors_total": _("XID errors"),
    "host.cpu_pct_per_core": _("CPU per core"),
    "host.cpu_busy_cores": _("Busy CPU cores"),
    "host.cpu_other_cores": _("CPU cores busy with other work"),
    "host.cpu_core_max_pct": _("Busiest CPU core"),
    "host.cpu_user_pct": _("CPU in user code"),
    "host.cpu_system_pct": _("CPU in the kernel"),
    "host.cpu_iowait_pct": _("CPU waiting for disks"),
    "host.cpu_steal_pct": _("CPU stolen by the hypervisor"),
    "host.cpu_clock_mhz": _("CPU clock"),
    "host.load_1min": _("Load of the last minute"),
    "host.psi_cpu_some_pct": _("Pressure on the CPU"),
    "host.psi_memory_some_pct": _("Pressure on memory"),
    "host.psi_memory_full_pct": _("Pressure on memory, all tasks"),
    "host.psi_io_some_pct": _("Pressure on storage"),
    "host.psi_io_full_pct": _("Pressure on storage, all tasks"),
    "host.mem_used_bytes": _("Host memory used"),
    "host.mem_available_bytes": _("Host memory available"),
    "host.swap_used_bytes": _("Swap used"),
    "host.swap_in_bytes_total": _("Swapped in"),
    "host.swap_out_bytes_total": _("Swapped out"),
    "host.hugepages_total_bytes": _("Huge pages"),
    "host.hugepages_free_bytes": _("Huge pages free"),
    "host.shm_used_bytes": _("Shared memory used (/dev/shm)"),
    "host.shm_size_bytes": _("Size of shared memory (/dev/shm)"),
    "host.disk_read_bytes_total": _("Disk reads"),
    "host.disk_write_bytes_total": _("Disk writes"),
    "host.disk_read_iops": _("Disk reads a second"),
    "host.disk_write_iops": _("Disk writes a second"),
    "host.disk_await_s": _("Time of a disk request"),
    "host.disk_busy_max_pct": _("Busiest disk"),
    "host.net_rx_bytes_total": _("Network received"),
    "host.net_tx_bytes_total": _("Network sent"),
    "host.net_rx_errors_total": _("Network receive errors"),
    "host.net_tx_errors_total": _("Network send errors"),
    "host.net_rx_drops_total": _("Network packets dropped on receipt"),
    "host.net_tx_drops_total": _("Network packets dropped on sending"),
    "host.tcp_retransmits_total": _("TCP segments sent again"),
    "host.nic_rate_bytes_per_s": _("Speed of the fastest network card"),
    "host.ib_ports": _("InfiniBand ports"),
    "host.ib_ports_active": _("InfiniBand ports active"),
    "host.ib_rx_bytes_total": _("InfiniBand received"),
    "host.ib_tx_bytes_total": _("InfiniBand sent"),
    "host.ib_rate_bytes_per_s": _("InfiniBand speed"),
    "host.ib_rate_max_bytes_per_s": _("InfiniBand speed, all ports at their best"),
    "host.ib_xmit_wait_total": _("InfiniBand waits to send"),
    "host.ib_symbol_errors_total": _("InfiniBand symbol errors"),
    "host.ib_link_downed_total": _("InfiniBand links lost"),
    "process.cpu_pct": _("Process CPU"),
    "process.threads": _("Threads"),
    "process.children": _("Child processes"),
    "process.children_cpu_pct": _("CPU of child processes"),
    "process.rss_bytes": _("Resident memory"),
    "process.read_chars_total": _("Bytes read"),
    "process.write_chars_total": _("Bytes written"),
    "process.main_thread_cpu_pct": _("CPU of the main thread"),
    "process.dataloader_workers": _("Data loader workers"),
    "process.slow_worker_ratio": _("Busiest data loader worker to the median"),
    "process.worker_turnovers_total": _("Turnovers of data loader workers"),
    "process.numa_local": _("On the NUMA node of its GPU"),
    "process.io_delay_s_total": _("Waiting for storage"),
    "process.shmem_bytes": _("Shared memory"),
    "process.voluntary_switches_total": _("Waits of the main thread"),
    "process.involuntary_switches_total": _("Preemptions of the main thread"),
    "process.read_bytes_total": _("Read from storage"),
    "process.write_bytes_total": _("Written to storage"),
    "process.cpu_quota_cores": _("CPU limit"),
    "process.cpu_periods_total": _("Periods of the CPU limit"),
    "process.cpu_throttled_periods_total": _("Periods held back by the CPU limit"),
    "process.cpus_allowed": _("CPU cores allowed"),
    "process.shm_used_bytes": _("Shared memory used, its own /dev/shm"),
    "process.shm_size_bytes": _("Size of its own /dev/shm"),
    "process.gpu_util_lifetime_pct": _("GPU utilisation over its life"),
    "process.gpu_mem_max_bytes": _("Most device memory held"),
    "process.gpu_time_s": _("Time computing on the GPU"),
    "process.gpu_is_running": _("Running, says the driver"),
    "process.steps_total": _("Training steps"),
    "process.step_time_s": _("Time of a step"),
    "process.data_wait_s": _("Waiting for data in a step"),
    "process.samples_per_s": _("Samples a second"),
    "process.tokens_per_s": _("Tokens a second"),
    "process.h2d_s": _("Waiting for copies to the GPU in a step"),
    "process.comm_s": _("Exposed communication in a step"),
    "process.step_time_max_s": _("Longest step"),
    "process.slow_steps_total": _("Slow steps"),
    "process.since_step_s": _("Time since the last step"),
    "process.loss": _("Loss"),
    "process.loss_not_finite_total": _("Steps with a loss that is no number"),
    "process.loss_still_steps": _("Steps with the same loss"),
    "process.loss_scale": _("Loss scale"),
    "process.grad_norm": _("Gradient norm"),
    "process.grad_norm_spikes_total": _("Spikes of the gradient norm"),
    "process.alloc_peak_bytes": _("Peak of PyTorch's allocator"),
    "process.alloc_retries_total": _("Retries of PyTorch's allocator"),
    "process.reserved_peak_bytes": _("Peak reserved by PyTorch's allocator"),
    "process.ooms_total": _("Out-of-memory errors survived"),
    "process.checkpoints_total": _("Checkpoints"),
    "process.checkpoint_save_s": _("Time of the last checkpoint"),
    "process.checkpoint_bytes": _("Size of the last checkpoint"),
    "process.since_checkpoint_s": _("Time since the last checkpoint"),
    "engine.requests_running": _("Requests running"),
    "engine.requests_waiting": _("Requests waiting"),
    "engine.kv_cache_used": _("KV cache used"),
    "engine.requests_finished_total": _("Requests finished"),
    "engine.prompt_tokens_total": _("Prompt tokens"),
    "engine.generation_tokens_total": _("Generated tokens"),
    "engine.preemptions_total": _("Requests preempted"),
    "engine.prefix_cache_queries_total": _("Prefix cache, tokens looked up"),
    "engine.prefix_cache_hits_total": _("Prefix cache, tokens found"),
    "engine.ttft_mean_s": _("Time to first token, mean"),
    "engine.ttft_p95_s": _("Time to first token, 95th percentile"),
    "engine.tpot_mean_s": _("Time per output token, mean"),
    "engine.tpot_p95_s": _("Time per output token, 95th percentile"),
    "engine.queue_mean_s": _("Time in the queue, mean"),
    "engine.e2e_mean_s": _("Time of a whole request, mean"),
    "engine.batch_size_mean": _("Requests in one execution, mean"),
}


ABSENT_TOO: Final = {"gpu.processes": _("Processes that hold a GPU"), "host.pods": _("Pods that have the GPUs")}
"""What an absence may name beside the metrics of the registry."""


def metric(name: str, scope: str = "gpu") -> str:
    """The metric's label, or its name where nobody gave it one."""
    key = f"{scope}.{name}"
    return str(METRIC.get(key) or ABSENT_TOO.get(key) or name)


FEATURE: Final = {name: _(text) for name, text in FEATURES.items()}
"""The features that rules show as evidence, where they are not simply a metric."""


def evidence(name: str) -> str:
    """The label of a feature: its own, or its metric's; its name in plain words where neither is known."""
    if name in FEATURE:
        return str(FEATURE[name])
    for scope in ("gpu", "host", "process", "engine"):
        if f"{scope}.{name}" in METRIC:
            return metric(name, scope)
    return plain_name(name)


def word(words: Mapping[str, object], slug: str) -> str:
    """The word for a slug; the slug itself where there is none, so that nothing new is hidden."""
    return str(words.get(slug, slug))


def note(text: str) -> str:
    """The note of a change of condition, which the server wrote, in the reader's language: `warn -> critical` in words."""
    if match := re.fullmatch(r"(\w+) -> (\w+)", text):
        return f"{word(SEVERITY, match[1])} → {word(SEVERITY, match[2])}"
    return gettext(text) if text else ""
