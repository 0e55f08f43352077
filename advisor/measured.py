"""What the samples, the holders and the host of each GPU of a window say of it, before anything is derived from several.

A window of many GPUs is measured in parts, each of whole nodes: what is left of a part is one row a GPU.
"""

from typing import Final

import polars as pl

from advisor import bottleneck, memory_growth, phases
from advisor.frames import Window
from advisor.samples import Judged, Span, complete, facts_of, judged, judged_again, known_sum

_MEANS: Final = (
    "gpu_util_pct", "mem_copy_util_pct", "power_w", "sm_active", "sm_occupancy", "int_active", "tensor_active", "dram_active",
    "fp64_active", "fp32_active", "fp16_active", "pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s", "nvlink_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
)  # fmt: skip
HOST_METRICS: Final = (
    "cpu_busy_cores", "cpu_core_max_pct", "cpu_iowait_pct", "mem_used_bytes", "disk_read_bytes_total",
    "disk_write_bytes_total", "net_rx_bytes_total", "net_tx_bytes_total",
)  # fmt: skip
"""The metrics of a host that features are made of."""
_THERMAL: Final = 0x20 | 0x40
_BRAKE: Final = 0x08 | 0x80
QUIET: Final = 0.003
"""An engine that did nothing at all (0.0001 measured); the thinnest launch-bound programs stay above 0.01."""
_SERVING: Final = r"(?i)vllm|sglang|tritonserver|trtllm|tensorrt|text-generation|ollama|llama-server|lmdeploy"
_WEB: Final = r"(?i)uvicorn|gunicorn|hypercorn|daphne|waitress|flask"
LOADED: Final = 0.5  # an engine at work half of the time keeps its clocks up: those of idle cards say nothing


def measured(window: Window, patience_s: float = 2.0, *, from_start: bool = False) -> pl.DataFrame:
    """One row a GPU of `window.facts`, which has all GPUs of its nodes; see `samples.Span` for patience_s and from_start.

    A GPU that turned to something else within the window has, beside the row of the whole of it, one for each `phase`.
    """
    facts = facts_of(window).with_columns(blind=pl.col("gpu").is_in(list(window.blind)))
    part = judged(window, facts, Span(patience_s, from_start))
    rows = _rows(window.host, facts, part).with_columns(phase=pl.lit(None, pl.Int64), phase_s=pl.lit(None, pl.Float64))
    turned = phases.turns(part)
    if turned.is_empty():
        return rows
    of = facts.join(turned, on="gpu")
    of = of.select([*facts.columns, "phase", "phase_s", "start_t", "end_t"])
    keyed = of.with_columns(phases.key("gpu"), phases.key("node")).drop("start_t", "end_t")
    again = judged_again(phases.rows_of(part.samples, of), phases.rows_of(part.processes, of), keyed)
    by_phase = _rows(phases.rows_of(window.host, of), keyed, again)
    by_phase = by_phase.with_columns(phases.whole("gpu"), phases.whole("node"))
    return pl.concat([rows, by_phase.select(rows.columns)], how="vertical_relaxed")


def _rows(host: pl.DataFrame, facts: pl.DataFrame, part: Judged) -> pl.DataFrame:
    """One row for each of `facts`."""
    gpu = facts.join(_of_samples(part.samples), on="gpu", how="left").join(_of_holders(part.holders), on="gpu", how="left")
    return gpu.join(_of_host(host, facts, gpu), on="node", how="left")


def _bit(mask: int) -> pl.Expr:
    """Share of the loaded samples in which any bit of `mask` is set; 0 when none was loaded, null when never read."""
    reasons = pl.col("loaded_reasons")  # null where it was not read or the engine had little work
    set_in = ((reasons & mask) != 0).sum()
    return pl.when(pl.col("reasons").is_not_null().any()).then(set_in / reasons.count().clip(1, None))


def _reach(samples: pl.DataFrame) -> int:
    """How many samples half a second is, one at least."""
    steps = samples.get_column("t").head(2000).diff()
    period = steps.filter(steps > 0).median()
    return max(1, min(10, round(0.5 / float(period)))) if isinstance(period, float) and period > 0 else 1


def _of_samples(samples: pl.DataFrame) -> pl.DataFrame:
    """One row a GPU from its samples."""
    rows = (
        samples.lazy()
        .with_columns(
            loaded=pl.col("busy") >= LOADED,
            reasons=pl.col("clocks_event_reasons").cast(pl.Int64, strict=False),
            quiet=pl.col("busy") < QUIET,
        )
        .with_columns(
            loaded_reasons=pl.when("loaded").then("reasons"),
            turned=(pl.col("quiet") != pl.col("quiet").shift(1)) & (pl.col("gpu") == pl.col("gpu").shift(1)),
        )
    )
    rows = bottleneck.with_causes(rows, _reach(samples))
    loaded = pl.col("loaded")
    grouped = rows.group_by("gpu", maintain_order=True).agg(
        pl.len().alias("samples"),
        pl.col("t").first().alias("from_t"),
        pl.col("t").last().alias("until_t"),
        # the usual step even where many samples were lost
        pl.col("t").diff().quantile(0.25).alias("period_s"),
        pl.col("busy").mean(),
        *[pl.col(name).mean() for name in _MEANS],
        pl.col("sm_active").is_not_null().mean().alias("gpm_share"),
        pl.col("cores").mean().alias("main_cores"),
        (pl.col("cores") * (1 - pl.col("busy"))).sum().alias("_idle_cores"),
        (1 - pl.col("busy")).filter(pl.col("cores").is_not_null()).sum().alias("_idle"),
        pl.col("quiet").mean().alias("quiet_share"),
        pl.col("turned").sum().alias("turns"),
        pl.col("power_limit_w").last().alias("power_limit_now_w"),
        pl.col("sm_clock_mhz").filter(loaded).mean(),
        pl.col("sm_clock_mhz").filter(loaded).quantile(0.95).alias("sm_clock_p95_mhz"),
        pl.col("sm_clock_mhz").max().alias("sm_clock_top_mhz"),
        pl.col("mem_clock_mhz").filter(loaded).quantile(0.95).alias("mem_clock_p95_mhz"),
        loaded.mean().alias("loaded_share"),
        pl.col("temperature_c").filter(loaded).mean(),
        pl.col("power_w").filter(loaded).mean().alias("loaded_power_w"),
        _bit(0x04).alias("power_cap_share"),
        _bit(_THERMAL).alias("thermal_slowdown_share"),
        _bit(_BRAKE).alias("power_brake_share"),
        _bit(0x08 | 0x40 | 0x80).alias("hw_slowdown_share"),
        _bit(0x20).alias("sw_thermal_share"),
        pl.col("mem_used_bytes").max().alias("mem_used_max_bytes"),
        pl.col("mem_used_bytes").last().alias("mem_used_last_bytes"),
        pl.col("mem_used_bytes").mean().alias("mem_used_bytes"),
        *memory_growth.aggregates(),
        pl.col("pcie_link_gen").filter(loaded).max().alias("pcie_link_gen"),
        pl.col("pcie_link_width").filter(loaded).max().alias("pcie_link_width"),
        (pl.col("ecc_uncorrected_volatile_total").last() - pl.col("ecc_uncorrected_volatile_total").min())
        .alias("ecc_uncorrected_new"),
        pl.col("ecc_uncorrected_volatile_total").last().alias("ecc_uncorrected_volatile"),
        pl.col("remap_pending").last(),
        pl.col("remap_failed").last(),
        pl.col("recovery_action").last(),
        *[pl.col(f"part_{name}").mean() for name in bottleneck.PARTS],
    )  # fmt: skip
    gpus = grouped.collect()
    return gpus.join(memory_growth.rises(samples, gpus), on="gpu", how="left")


def _of_holders(holders: pl.DataFrame) -> pl.DataFrame:
    """One row a GPU that a process holds: how many are at home there and compute, and what they do together.

    Each counts by its presence: a program that restarts is one tenant, whatever its pids.
    """
    computes = pl.col("home") & (pl.col("cores").fill_null(1.0) >= bottleneck.TENANT_CORES) & ~pl.col("helper")
    sums = {
        "children": "children",
        "children_cores": "children_cores",
        "read_rate": "read_bytes_per_s",
        "write_rate": "write_bytes_per_s",
    }
    return holders.group_by("gpu").agg(
        pl.len().alias("processes"),
        (computes * pl.col("presence")).sum().round().cast(pl.Int64).alias("tenants"),
        known_sum(pl.col("gpu_mem_bytes") * pl.col("presence")).alias("held_bytes"),
        pl.col("pid").sort_by(pl.col("gpu_mem_bytes").fill_null(0), descending=True).first().alias("pid"),
        *[known_sum(pl.col(a) * pl.col("presence")).alias(b) for a, b in sums.items()],
        pl.col("name").str.contains(_SERVING).any(ignore_nulls=False).alias("serves"),
        pl.col("name").str.contains(_WEB).any(ignore_nulls=False).alias("web_process"),
    )


def _of_host(host: pl.DataFrame, facts: pl.DataFrame, gpu: pl.DataFrame) -> pl.DataFrame:
    """One row a node: means over what is judged of its GPUs."""
    host = complete(host, {"node": pl.Int64, "t": pl.Float64, **dict.fromkeys(HOST_METRICS, pl.Float64)})
    spans = gpu.group_by("node").agg(pl.col("from_t").min(), pl.col("until_t").max())
    host = (
        host.join(spans, on="node", how="left")
        .filter(
            (pl.col("from_t").is_null() | (pl.col("t") >= pl.col("from_t")))
            & (pl.col("until_t").is_null() | (pl.col("t") <= pl.col("until_t")))
        )
        .sort("node", "t")
    )

    def grown(counter: str) -> pl.Expr:
        """Growth a second, the fall of a restart or a recording's loop left out."""
        rise = pl.col(counter).diff()
        time = pl.col("t").diff().filter(rise >= 0).sum()
        return pl.when(time > 0).then(rise.filter(rise >= 0).sum() / time)

    cores = facts.group_by("node").agg(pl.col("cores").first(), pl.col("host_mem_total_bytes").first())
    return (
        host.group_by("node")
        .agg(
            pl.len().alias("host_samples"),
            pl.col("cpu_busy_cores").mean(),
            pl.col("cpu_core_max_pct").mean(),
            pl.col("cpu_iowait_pct").mean(),
            pl.col("mem_used_bytes").last().alias("host_mem_used_bytes"),
            grown("disk_read_bytes_total").alias("disk_read_bytes_per_s"),
            grown("disk_write_bytes_total").alias("disk_write_bytes_per_s"),
            grown("net_rx_bytes_total").alias("net_rx_bytes_per_s"),
            grown("net_tx_bytes_total").alias("net_tx_bytes_per_s"),
        )
        .join(cores, on="node", how="left")
        .with_columns(
            iowait_cores=pl.col("cpu_iowait_pct") / 100 * pl.col("cores"),
            free_cores=(pl.col("cores") - pl.col("cpu_busy_cores")).clip(0),
        )
        .drop("cores", "host_mem_total_bytes")
    )
