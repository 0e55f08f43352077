"""Every column of the slow features (fleet/slow makes them), by scope and part, with its type. What is not known is null."""

from typing import Final, Literal, TypeAlias

import polars as pl

from advisor.annotations import of_scope
from advisor.finding import Scope
from advisor.profiles.joined import FEATURES as PROFILED

Part: TypeAlias = Literal["now", "day"]
Types: TypeAlias = dict[str, type[pl.DataType]]

KEYS: Final[Types] = {"gpu": pl.Int64, "job": pl.String, "node": pl.Int64, "service": pl.Int64, "fleet": pl.String}
"""The key column of each scope has the scope's name: ids of Gpu, Node and Engine, the job's text, and `fleet`."""

NODE_FACTS: Final[Types] = {
    "node_name": pl.String,
    "driver_version": pl.String,
    "driver_major": pl.Int64,
    "cuda_driver_version": pl.String,
    "cuda_driver_major": pl.Int64,
    "kernel": pl.String,
    "nvidia_module_version": pl.String,
    "cpu_governor": pl.String,
    "numa_nodes": pl.Int64,
    "rdma_ready": pl.Boolean,
    "persistence_mode": pl.Boolean,
    "node_gpus": pl.Int64,
    "node_gpus_present": pl.Int64,
    "up_s": pl.Float64,
}
"""Of the node that a target is on: in the frames of gpu, job, node and service alike. `persistence_mode` is of all its GPUs."""

_POWER: Final[Types] = dict.fromkeys(("usual_idle_power_w", "usual_busy_power_w"), pl.Float64)
_GPU: Final[Types] = {
    "xids_24h": pl.Int64,
    "app_xids_30d": pl.Int64,
    "app_xid_jobs_30d": pl.Int64,
    "app_xid_code": pl.Int64,
    "lost": pl.Boolean,
    "card_age_h": pl.Float64,
}
_DAY: Final[Types] = dict.fromkeys(
    ("day_hours", "day_power_share", "day_sm_active", "day_dram_active", "day_tensor_active", "day_idle_share", "day_energy_j",
     "day_cap_share"),
    pl.Float64,
)  # fmt: skip
_NODE: Final[Types] = {
    **dict.fromkeys(("xids_7d", "abnormal_ends_7d", "abnormal_end_jobs_7d", "allocated_gpus_missing"), pl.Int64),
    "jobs_on_missing": pl.String,
}
_JOB: Final[Types] = {
    "run_s": pl.Float64,
    "run_gpu_hours": pl.Float64,
    "restarts_2h": pl.Int64,
    "resumed_at_zero": pl.Boolean,
    "ooms_24h": pl.Int64,
    "host_ooms_24h": pl.Int64,
    "energy_j_per_sample": pl.Float64,
    "base_runs": pl.Int64,
    "base_age_days": pl.Float64,
    "base_changes": pl.String,
    "base_step_time_s": pl.Float64,
    "base_step_time_mad_s": pl.Float64,
    "base_energy_j_per_sample": pl.Float64,
    "base_energy_mad": pl.Float64,
    "base_first_bad_run": pl.String,
    "base_first_bad_at": pl.String,
    "base_bad_runs": pl.Int64,
    "base_other_work": pl.Boolean,
    "base_drift_ratio": pl.Float64,
    "base_drift_low_ratio": pl.Float64,
    "base_drift_days": pl.Float64,
    "base_energy_changes": pl.String,
    "base_energy_first_bad_run": pl.String,
    "base_energy_first_bad_at": pl.String,
    "base_energy_bad_runs": pl.Int64,
    "base_energy_other_work": pl.Boolean,
    "base_samples_per_s_1gpu": pl.Float64,
    "scaling_efficiency": pl.Float64,
    "scaling_reference_gpus": pl.Int64,
}
_SERVICE: Final[Types] = {"age_s": pl.Float64, "restarts_7d": pl.Int64, "load_ratio": pl.Float64}
_SERVICE_BASE: Final[Types] = dict.fromkeys(
    (
        "base_ttft_s",
        "base_tpot_s",
        "base_e2e_s",
        "base_mad_s",
        "base_days",
        "base_tokens_per_request",
        "base_finished_per_s",
        "spikes_with_noise_share",
        "first_requests_ratio",
    ),
    pl.Float64,
) | {"latency_spikes": pl.Int64}
_FLEET: Final[Types] = {
    "driver_versions": pl.Int64,
    "driver_mix": pl.String,
    "torch_versions": pl.Int64,
    "torch_mix": pl.String,
}


def _notes(*scopes: Scope) -> Types:
    return {f"note_{note.key}": note.dtype for scope in scopes for note in of_scope(scope)}


INHERITS: Final[dict[Scope, tuple[Scope, ...]]] = {
    "gpu": ("fleet", "node", "job"),
    "job": ("fleet", "node"),
    "node": ("fleet",),
    "service": ("fleet", "node"),
    "fleet": (),
}
"""Whose annotations count for a target too: those of where it is and of the job on it; of one key the nearest counts, its own before all."""


COLUMNS: Final[dict[Scope, dict[Part, Types]]] = {
    "gpu": {
        "now": NODE_FACTS | _GPU | _POWER | _notes(*INHERITS["gpu"], "gpu"),
        "day": _DAY | {"ecc_corrected_day": pl.Float64, "ecc_corrected_day_p99": pl.Float64},
    },
    "job": {"now": NODE_FACTS | _JOB | _POWER | _notes(*INHERITS["job"], "job"), "day": _DAY | {"idle_share_day": pl.Float64}},
    "node": {
        "now": NODE_FACTS | _NODE | _notes(*INHERITS["node"], "node"),
        "day": dict.fromkeys(("day_hours", "day_cpu_saturated_share", "base_disk_await_s"), pl.Float64),
    },
    "service": {"now": NODE_FACTS | _SERVICE | _notes(*INHERITS["service"], "service"), "day": _SERVICE_BASE},
    "fleet": {"now": _FLEET | _notes("fleet"), "day": {}},
}

ALLOCATED: Final[dict[str, Types]] = {
    "gpu": {
        "allocated_to": pl.String,
        "allocated_s": pl.Float64,
        "job_family": pl.String,
        "foreign_processes": pl.Int64,
        "gpu_shared": pl.Boolean,
    },
    "job": {"allocated_gpus": pl.Int64, "allocated_idle_s": pl.Float64, "given_by": pl.String, "given_slurm_job": pl.String},
}
"""What a scheduler's allocations say. `job_family`: of the job that has the GPU (advisor/job_family.py); `allocated_idle_s`: for how long no process of the job has used what it was given; `gpu_shared`: several
jobs have the GPU at once, so that nothing of it is one job's; `given_by`, `given_slurm_job`: the scheduler, and the number that Slurm has."""

PROFILE: Final[Types] = {name: pl.String if kind is str else pl.Float64 for name, kind in PROFILED.items()}
"""What a profile tells of a job."""

ADDED: Final[dict[Scope, Types]] = {
    "gpu": ALLOCATED["gpu"]
    | {
        "bench_ratio": pl.Float64,
        "bench_slow_runs": pl.Int64,
        "bench_runs": pl.Int64,
        "bench_name": pl.String,
        "bench_age_s": pl.Float64,
    },
    "job": ALLOCATED["job"] | PROFILE,
}
"""What fleet/findings adds from rows of the database at each look: ALLOCATED, how a GPU's bench runs compare, and PROFILE."""

CONSTANTS: Final[Types] = {
    "gpu_hour_price": pl.Float64,
    "currency": pl.String,
    "energy_price_per_kwh": pl.Float64,
    "pue": pl.Float64,
    "mtbf_gpu_hours": pl.Float64,
}
"""Of the site, in every frame; prices are null until a site sets them."""


def columns(scope: Scope) -> Types:
    """All columns of a scope's frame, its key first."""
    return {str(scope): KEYS[scope]} | COLUMNS[scope]["now"] | COLUMNS[scope]["day"] | ADDED.get(scope, {}) | CONSTANTS


def nothing() -> dict[str, pl.DataFrame]:
    """The frames of all scopes with every column and no row."""
    return {scope: pl.DataFrame(schema=columns(scope)) for scope in COLUMNS}
