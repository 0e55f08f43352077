"""The words for thresholds: what each is about, and its part in it; what a feature already names is said as the feature is."""

import re
from typing import Final

from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from fleet.dashboard import words

THRESHOLD: Final = {
    "alloc_retries": _("Allocations tried again, in 100 steps"),
    "boot_s": _("Time after a boot in which links err"),
    "bubble": _("Bubble of the pipeline"),
    "burn_in_h": _("Age up to which a card burns in"),
    "busy_loaded": _("Busy share from which a GPU counts as loaded"),
    "canary_s": _("Time for which a service counts as a canary"),
    "canary_share_least": _("Traffic up to which a service counts as a canary, of all"),
    "children_per_core": _("Helper processes for each core"),
    "children_per_core_waiting": _("Helper processes for each core, where the GPU waits for data"),
    "communication": _("Time lost to communication"),
    "cores_per_gpu": _("CPU cores for each GPU"),
    "cpu_busy_share": _("Busy CPU cores, of all"),
    "cpu_share": _("Busy CPU cores, of those that the job may use"),
    "drift_low_ratio": _("Growth over these days, at least (95 %)"),
    "efficiency_across_nodes": _("Scaling efficiency across nodes"),
    "efficiency_margin": _("Margin of the scaling efficiency before it clears"),
    "efficiency_over_pcie": _("Scaling efficiency over PCIe"),
    "efficiency_with_nvlink": _("Scaling efficiency with NVLink"),
    "ends": _("Abnormal ends in seven days, of several jobs"),
    "ends_of_one": _("Abnormal ends in seven days, of any job"),
    "energy_ratio": _("Energy of a sample, against the usual"),
    "errors_a_day": _("Corrected ECC errors a day"),
    "errors_per_min": _("NVLink errors a minute"),
    "fires_after_advice_s": _("Advice fires after"),
    "fires_after_critical_s": _("What is critical fires after"),
    "fires_after_info_s": _("What is informational fires after"),
    "fires_after_warn_s": _("A warning fires after"),
    "fp32_over_tensor": _("FP32 activity against that of the tensor cores"),
    "gpu_hours": _("GPU-hours of the run"),
    "halvings": _("Halvings of the loss scale"),
    "hidden_least": _("Smallest hidden size that is judged"),
    "iowait_per_reader": _("Waiting for disks, for each reader"),
    "jobs": _("Jobs that ended abnormally in seven days"),
    "jump_mads": _("Jump of the loss, in its usual spread"),
    "latency_ratio": _("Latency, against the usual"),
    "mem_free_bytes": _("Device memory free at least"),
    "mfu_blackwell": _("Model FLOP utilisation on Blackwell"),
    "mfu_dense": _("Model FLOP utilisation of dense models"),
    "mfu_margin": _("Margin of the model FLOP utilisation before it clears"),
    "mfu_moe": _("Model FLOP utilisation of mixtures of experts"),
    "noise_share": _("Spikes beside busy background programs"),
    "params_least": _("Fewest parameters of a model that is judged"),
    "peak_share": _("Device memory used at the peak, of all"),
    "power_limit_ratio_least": _("Power limit, of the default"),
    "profile_lost_share": _("In a profile: GPU idle, and communication with no compute beside it"),
    "prompt_tokens": _("Tokens of a prompt"),
    "psi_pct": _("Time in which tasks waited for a core"),
    "quality_drop": _("Worst metric's fall"),
    "queue_part": _("Time in the queue, of the time to the first token"),
    "read_bytes": _("Size of a read"),
    "reads_per_s": _("Reads a second, all disks"),
    "restarts": _("Starts again in seven days"),
    "saturated_share": _("Time with all cores busy"),
    "sglang_fraction": _("Share of memory that SGLang takes"),
    "shm_size_mib": _("Size of /dev/shm"),
    "silence_s": _("Time without a step"),
    "slow_runs": _("Slow runs among the last three"),
    "sm_active_loaded": _("SM activity from which a GPU counts as loaded"),
    "spikes": _("Latency spikes of the day"),
    "starved_jobs": _("Jobs that wait for input"),
    "step_time_ratio": _("Time of a step, against the usual"),
    "still_steps": _("Steps with the same loss"),
    "symbol_errors_per_hour": _("Symbol errors an hour"),
    "throttled_share": _("Periods in which the CPU quota was used up"),
    "too_often_ratio": _("Time between checkpoints, of the best: too short"),
    "too_seldom_ratio": _("Time between checkpoints, of the best: too long"),
    "top_share": _("Reads of the heaviest job, of all"),
    "ttft_ratio": _("Time to the first token, of its target"),
    "unused_s": _("Time for which a GPU that was given to a job is unused"),
    "vllm_fraction": _("Share of memory that vLLM takes"),
    "waiting": _("Requests that wait"),
    "weights_share": _("Weights on half the GPUs, of their memory"),
}
"""What thresholds are about where it is no feature, or not quite."""
ROLE: Final = {
    "opens": pgettext_lazy("threshold", "opens"),
    "clears": pgettext_lazy("threshold", "clears"),
    "confirms": pgettext_lazy("threshold", "confirms"),
}


def role_of(threshold: str) -> tuple[str, str]:
    """What a threshold is about, as a feature's name, and its part in it: `share_data_opens` is `share_data` and opens."""
    match = re.fullmatch(r"(.+)_(opens|clears|confirms)(_\w+)?", threshold)
    return (f"{match[1]}{match[3] or ''}", match[2]) if match else (threshold, "")


def threshold_label(threshold: str) -> str:
    """A threshold in words: `Time lost waiting for data, opens`."""
    feature, role = role_of(threshold)
    label = words.word(THRESHOLD, feature) if feature in THRESHOLD else words.evidence(feature)
    return gettext("{label}, {role}").format(label=label, role=ROLE[role]) if role else label
