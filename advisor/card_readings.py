"""What the rarer readings of a card say: link and memory faults, how steady its clock is, how its links and tensor cores take turns."""

import polars as pl

from advisor.folds import rate
from advisor.partial import correlation, variation


def of_cards(gpu: pl.DataFrame) -> pl.DataFrame:
    """One row a GPU of a merged partial: what the rarer readings of the card say."""
    minutes = (pl.col("until_t") - pl.col("from_t")) / 60

    def grown(*names: str) -> pl.Expr:
        return known_total(*[pl.col(f"{name}|growth") for name in names])

    long_enough = pl.when(minutes > 0)
    return gpu.select(
        "gpu",
        nvlink_errors_per_min=long_enough.then(
            grown("nvlink_replay_errors_total", "nvlink_recovery_errors_total", "nvlink_crc_errors_total") / minutes
        ),
        pcie_replays_per_s=rate("pcie_replays_total"),
        pcie_errors_per_s=long_enough.then(
            grown("pcie_correctable_errors_total", "pcie_non_fatal_errors_total", "pcie_fatal_errors_total") / minutes / 60
        ),
        nvlink_links_active=pl.col("nvlink_links_active|last"),
        fabric_state=pl.col("fabric_state|last"),
        fabric_degraded=_any_told(pl.col("fabric_health|last")),
        persistence_mode=pl.col("persistence_mode|last") >= 1,
        sram_threshold_exceeded=pl.col("sram_ecc_threshold_exceeded|last") >= 1,
        retired_pages_pending=pl.col("retired_pages_pending|last"),
        remap_banks_none=pl.col("remap_banks_none|last"),
        memory_temperature_c=pl.col("memory_temperature_c|max"),
        memory_temperature_max_c=pl.col("memory_temperature_max_c|last"),
        temperature_margin_c=pl.col("temperature_margin_c|min"),
        power_p50_w=pl.col("power_w|median"),
        sm_clock_cv=variation("clock", "clock_squared"),
        tensor_nvlink_corr=correlation("tensor", "link", "tensor_link", "tensor_squared", "link_squared"),
    )


def known_total(*parts: pl.Expr) -> pl.Expr:
    """The sum of what is known; null where nothing is."""
    return pl.when(pl.any_horizontal(part.is_not_null() for part in parts)).then(pl.sum_horizontal(*parts))


def _any_told(mask: pl.Expr) -> pl.Expr:
    """True where one of the four pairs of bits of the fabric's health says yes (1); null where nothing was told."""
    bits = mask.cast(pl.Int64)
    return pl.any_horizontal(((bits // 4**pair) % 4) == 1 for pair in range(4))
