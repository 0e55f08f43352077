"""`Partial`: what a minute of telemetry says of everything, beyond what the bottleneck is told from (measured.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from advisor.folds import Folds, folded, merged
from advisor.samples import complete

LOADED: Final = 0.5  # an engine at work half of the time keeps its clocks up: those of idle cards say nothing

GPU: Final[Folds] = {
    **dict.fromkeys(
        ("nvlink_replay_errors_total", "nvlink_recovery_errors_total", "nvlink_crc_errors_total", "pcie_replays_total",
         "pcie_correctable_errors_total", "pcie_non_fatal_errors_total", "pcie_fatal_errors_total"),
        ("growth",),
    ),
    **dict.fromkeys(
        ("nvlink_links_active", "fabric_state", "fabric_health", "persistence_mode", "sram_ecc_threshold_exceeded", "remap_banks_none", "retired_pages_pending",
         "memory_temperature_max_c"),
        ("last",),
    ),
    "memory_temperature_c": ("max",),
    "temperature_margin_c": ("min",),
    "power_w": ("median",),
    **dict.fromkeys(("clock", "clock_squared", "tensor", "link", "tensor_squared", "link_squared", "tensor_link"), ("mean",)),
}  # fmt: skip
HOST: Final[Folds] = {
    **dict.fromkeys(
        ("psi_cpu_some_pct", "psi_io_some_pct", "psi_memory_some_pct", "psi_memory_full_pct", "load_1min", "disk_read_iops",
         "disk_write_iops", "disk_await_s", "disk_busy_max_pct", "cpu_steal_pct", "cpu_other_cores"),
        ("mean",),
    ),
    **dict.fromkeys(
        ("swap_in_bytes_total", "swap_out_bytes_total", "disk_read_bytes_total", "net_rx_bytes_total", "net_tx_bytes_total",
         "net_rx_errors_total", "net_tx_errors_total", "net_rx_drops_total", "net_tx_drops_total", "tcp_retransmits_total",
         "ib_rx_bytes_total", "ib_tx_bytes_total", "ib_symbol_errors_total", "ib_link_downed_total", "ib_xmit_wait_total"),
        ("growth",),
    ),
    **dict.fromkeys(
        ("ib_ports", "ib_ports_active", "ib_rate_bytes_per_s", "ib_rate_max_bytes_per_s", "nic_rate_bytes_per_s", "shm_used_bytes",
         "shm_size_bytes"),
        ("last",),
    ),
}  # fmt: skip
PROCESS: Final[Folds] = {
    **dict.fromkeys(
        ("cpu_pct", "children_cpu_pct", "main_thread_cpu_pct", "threads", "rss_bytes", "gpu_mem_bytes", "numa_local",
         "slow_worker_ratio", "data_wait_s", "samples_per_s", "tokens_per_s", "h2d_s", "comm_s"),
        ("mean",),
    ),
    "dataloader_workers": ("median",),
    **dict.fromkeys(
        ("io_delay_s_total", "read_bytes_total", "involuntary_switches_total", "cpu_periods_total", "cpu_throttled_periods_total",
         "grad_norm_spikes_total", "alloc_retries_total", "slow_steps_total", "worker_turnovers_total"),
        ("growth",),
    ),
    **dict.fromkeys(
        ("cpu_quota_cores", "cpus_allowed", "shm_size_bytes", "shm_used_bytes", "loss_still_steps", "grad_norm", "checkpoint_save_s",
         "checkpoints_total", "since_checkpoint_s", "since_step_s"),
        ("last",),
    ),
    **dict.fromkeys(("steps_total", "loss_not_finite_total", "ooms_total"), ("growth", "last")),
    "step_time_s": ("median", "mean", "p99"),
    "step_time_max_s": ("max",),
    "loss": ("last", "median", "spread"),
    "loss_scale": ("last", "max"),
    "checkpoint_bytes": ("last", "max"),
    **dict.fromkeys(("alloc_peak_bytes", "reserved_peak_bytes"), ("max",)),
}  # fmt: skip
ENGINE: Final[Folds] = {
    "requests_running": ("mean",),
    "requests_waiting": ("mean", "slope", "max"),
    "waiting": ("mean",),
    "kv_cache_used": ("mean", "max"),
    **dict.fromkeys(
        ("requests_finished_total", "prompt_tokens_total", "generation_tokens_total", "preemptions_total",
         "prefix_cache_queries_total", "prefix_cache_hits_total"),
        ("growth",),
    ),
    **dict.fromkeys(("ttft_mean_s", "tpot_mean_s", "queue_mean_s", "batch_size_mean"), ("mean",)),
    **dict.fromkeys(("ttft_p95_s", "tpot_p95_s"), ("median", "max")),
    "e2e_mean_s": ("mean", "median", "p99"),
    **dict.fromkeys(("latency", "latency_clock", "latency_squared", "clock", "clock_squared"), ("mean",)),
}  # fmt: skip

KEYS: Final = {"gpu": ("gpu",), "host": ("node",), "process": ("gpu", "pid"), "engine": ("service",)}
_FOLDS: Final = {"gpu": GPU, "host": HOST, "process": PROCESS, "engine": ENGINE}
_RAW: Final[dict[str, tuple[str, ...]]] = {
    "gpu": (
        "gr_engine_active",
        "gpu_util_pct",
        "sm_clock_mhz",
        "tensor_active",
        "nvlink_tx_bytes_per_s",
        "nvlink_rx_bytes_per_s",
    ),
    "host": (),
    "process": (),
    "engine": (),
}
_DERIVED: Final = {"clock", "clock_squared", "tensor", "link", "tensor_squared", "link_squared", "tensor_link", "waiting", "latency",
                   "latency_clock", "latency_squared"}  # fmt: skip


def metrics(scope: str) -> tuple[str, ...]:
    """The registry's metrics that a partial reads of a scope: gpu, host, process or engine."""
    return tuple(dict.fromkeys((*(name for name in _FOLDS[scope] if name not in _DERIVED), *_RAW[scope])))


@dataclass(frozen=True, slots=True)
class Partial:
    """One row a key: `gpu` by gpu, `host` by node, `process` by gpu and pid, `engine` by service. Columns: folds.SPAN and the folds."""

    gpu: pl.DataFrame
    host: pl.DataFrame
    process: pl.DataFrame
    engine: pl.DataFrame


def partial(
    gpu: pl.DataFrame, host: pl.DataFrame, process: pl.DataFrame, engine: pl.DataFrame, serves: pl.DataFrame | None = None
) -> Partial:
    """What these rows say, each in time order of its key (see KEYS) with a column `t`; `serves`: `service`, `gpu` of who runs where."""
    engine = engine.with_columns(pl.col("t").cast(pl.Float64))
    return Partial(
        folded(_of_gpus(gpu), KEYS["gpu"], GPU),
        folded(host, KEYS["host"], HOST),
        folded(process, KEYS["process"], PROCESS),
        folded(_of_engines(engine, gpu, serves), KEYS["engine"], ENGINE),
    )


def merge(parts: Sequence[Partial]) -> Partial:
    """Several stretches, in time order, as one; what was folded of one key by `partial` alone has to go through here too."""
    return Partial(*(merged([getattr(part, name) for part in parts], KEYS[name], _FOLDS[name]) for name in KEYS))


def _of_gpus(gpu: pl.DataFrame) -> pl.DataFrame:
    rows = complete(gpu, {"gpu": pl.Int64, "t": pl.Float64, **dict.fromkeys(metrics("gpu"), pl.Float64)})
    busy = pl.coalesce("gr_engine_active", pl.col("gpu_util_pct") / 100)
    rows = rows.with_columns(
        clock=pl.when(busy >= LOADED).then(pl.col("sm_clock_mhz")),
        link=pl.max_horizontal("nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s") / 1e9,
    ).with_columns(tensor=pl.when(pl.col("link").is_not_null()).then(pl.col("tensor_active")))
    return rows.with_columns(
        clock_squared=pl.col("clock") ** 2,
        tensor_squared=pl.col("tensor") ** 2,
        link=pl.when(pl.col("tensor").is_not_null()).then(pl.col("link")),
        link_squared=pl.when(pl.col("tensor").is_not_null()).then(pl.col("link") ** 2),
        tensor_link=pl.col("tensor") * pl.col("link"),
    )


def _of_engines(engine: pl.DataFrame, gpu: pl.DataFrame, serves: pl.DataFrame | None) -> pl.DataFrame:
    if "service" not in engine.columns:
        engine = pl.DataFrame(schema={"service": pl.Int64, "t": pl.Float64})
    rows = complete(engine, {"service": pl.Int64, "t": pl.Float64, **dict.fromkeys(metrics("engine"), pl.Float64)})
    rows = rows.with_columns(
        waiting=pl.when(pl.col("requests_waiting").is_not_null()).then((pl.col("requests_waiting") >= 1).cast(pl.Float64))
    )
    if serves is None or serves.is_empty() or "sm_clock_mhz" not in gpu.columns:
        return rows
    clocks = (
        serves.join(gpu.select("gpu", pl.col("t").cast(pl.Float64).floor(), "sm_clock_mhz"), on="gpu")
        .group_by("service", "t")
        .agg(pl.col("sm_clock_mhz").mean().alias("clock"))
    )
    rows = rows.with_columns(second=pl.col("t").floor()).join(
        clocks, left_on=["service", "second"], right_on=["service", "t"], how="left", maintain_order="left"
    )
    latency = pl.when(pl.col("clock").is_not_null()).then(pl.coalesce("tpot_mean_s", "e2e_mean_s"))
    rows = rows.with_columns(latency=latency).with_columns(clock=pl.when(pl.col("latency").is_not_null()).then(pl.col("clock")))
    return rows.with_columns(
        latency_squared=pl.col("latency") ** 2,
        clock_squared=pl.col("clock") ** 2,
        latency_clock=pl.col("latency") * pl.col("clock"),
    ).drop("second")


def correlation(a: str, b: str, ab: str, a2: str, b2: str) -> pl.Expr:
    """Pearson's, from the means of two columns, of their product and of their squares; null where either stood still."""
    one, two = (pl.col(f"{name}|mean") for name in (a, b))
    spread_a, spread_b = pl.col(f"{a2}|mean") - one**2, pl.col(f"{b2}|mean") - two**2
    moves = (spread_a > 1e-9 * one**2) & (spread_b > 1e-9 * two**2)
    return pl.when(moves).then((pl.col(f"{ab}|mean") - one * two) / (spread_a * spread_b).sqrt()).clip(-1, 1)


def variation(name: str, squared: str) -> pl.Expr:
    """Standard deviation over the mean, from the means of a column and of its square."""
    mean = pl.col(f"{name}|mean")
    return pl.when(mean > 0).then((pl.col(f"{squared}|mean") - mean**2).clip(0).sqrt() / mean)
