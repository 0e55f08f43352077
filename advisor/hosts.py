"""What the host of a window adds to a node's row, and to those of its GPUs and jobs."""

from typing import Final

import polars as pl

from advisor.folds import rate

_MEANS: Final = (
    "psi_cpu_some_pct", "psi_io_some_pct", "psi_memory_some_pct", "psi_memory_full_pct", "load_1min", "disk_read_iops",
    "disk_write_iops", "disk_await_s", "disk_busy_max_pct", "cpu_steal_pct",
)  # fmt: skip
_LAST: Final = ("ib_ports", "ib_ports_active", "ib_rate_bytes_per_s", "ib_rate_max_bytes_per_s", "nic_rate_bytes_per_s")
FEATURES: Final = (
    *_MEANS, *_LAST, "other_cores", "swap_in_bytes_per_s", "swap_out_bytes_per_s", "disk_read_each_bytes", "net_bytes_per_s",
    "net_errors_per_s", "net_drops_per_s", "tcp_retransmits_per_s", "ib_bytes_per_s", "ib_symbol_errors_new", "ib_link_downed_new",
    "ib_xmit_wait_per_s", "shm_used_share", "net_share", "ib_share",
)  # fmt: skip
"""The columns, beside `node`."""


def of_hosts(host: pl.DataFrame) -> pl.DataFrame:
    """One row a node of a merged partial: `node` and FEATURES."""

    def both(one: str, other: str) -> pl.Expr:
        return pl.sum_horizontal(rate(one), rate(other), ignore_nulls=False)

    rows = host.with_columns(
        *[pl.col(f"{name}|mean").alias(name) for name in _MEANS],
        *[pl.col(f"{name}|last").alias(name) for name in _LAST],
        other_cores=pl.col("cpu_other_cores|mean"),
        swap_in_bytes_per_s=rate("swap_in_bytes_total"),
        swap_out_bytes_per_s=rate("swap_out_bytes_total"),
        net_bytes_per_s=pl.max_horizontal(rate("net_rx_bytes_total"), rate("net_tx_bytes_total")),
        net_errors_per_s=both("net_rx_errors_total", "net_tx_errors_total"),
        net_drops_per_s=both("net_rx_drops_total", "net_tx_drops_total"),
        tcp_retransmits_per_s=rate("tcp_retransmits_total"),
        ib_bytes_per_s=pl.max_horizontal(rate("ib_rx_bytes_total"), rate("ib_tx_bytes_total")),
        ib_symbol_errors_new=pl.col("ib_symbol_errors_total|growth"),
        ib_link_downed_new=pl.col("ib_link_downed_total|growth"),
        ib_xmit_wait_per_s=rate("ib_xmit_wait_total"),
        shm_used_share=pl.col("shm_used_bytes|last") / pl.col("shm_size_bytes|last"),
    )
    reads = pl.col("disk_read_iops") >= 1  # of fewer the mean size says nothing
    return rows.with_columns(
        disk_read_each_bytes=pl.when(reads).then(rate("disk_read_bytes_total") / pl.col("disk_read_iops")),
        net_share=pl.col("net_bytes_per_s") / pl.col("nic_rate_bytes_per_s"),
        ib_share=pl.col("ib_bytes_per_s") / pl.col("ib_rate_bytes_per_s"),
    ).select("node", *FEATURES)
