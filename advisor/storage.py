"""Whether one job's reads slow others down: the features of the whole fleet that need every job of the window."""

from typing import Any, Final

import polars as pl

STARVED: Final = 0.15
"""Share of its time that a job waits for data from which it counts as starved."""


def fleet_row(jobs: pl.DataFrame, nodes: pl.DataFrame) -> dict[str, Any]:
    """`data_starved_jobs`, `data_starved_nodes` (nodes with such jobs), `storage_top_job`, `storage_top_share`, `storage_await_ratio`.

    Of the frames of features by job (`job`, `node`, `data_wait_share` or `share_data`, `storage_read_bytes_per_s`) and by node
    (`node`, `disk_await_s`, `base_disk_await_s`); a column that is not there is unknown. `storage_top_share` is the top job's share
    of what all jobs read from block devices; `storage_await_ratio` the median, over the starved jobs' nodes, of how long a disk
    request takes over how long it usually does. None: not known, such as where no job says whether it waits.
    """
    jobs = _with(jobs, {"job": pl.String, "node": pl.Int64, "data_wait_share": pl.Float64, "share_data": pl.Float64,
                        "storage_read_bytes_per_s": pl.Float64})  # fmt: skip
    nodes = _with(nodes, {"node": pl.Int64, "disk_await_s": pl.Float64, "base_disk_await_s": pl.Float64})
    waits = jobs.select("node", pl.coalesce("data_wait_share", "share_data").alias("share")).drop_nulls("share")
    starved = waits.filter(pl.col("share") >= STARVED)
    hosts = starved["node"].drop_nulls().unique()
    reads = jobs.filter(pl.col("storage_read_bytes_per_s") > 0).sort("storage_read_bytes_per_s", "job", descending=[True, False])
    ratio = nodes.filter(pl.col("node").is_in(hosts.implode()) & (pl.col("base_disk_await_s") > 0)).select(
        pl.col("disk_await_s") / pl.col("base_disk_await_s")
    )
    total = reads["storage_read_bytes_per_s"].sum()
    return {
        "data_starved_jobs": starved.height if waits.height else None,
        "data_starved_nodes": len(hosts) if waits.height else None,
        "storage_top_job": reads["job"][0] if reads.height else None,
        "storage_top_share": reads["storage_read_bytes_per_s"][0] / total if reads.height else None,
        "storage_await_ratio": ratio.to_series().drop_nulls().median(),
    }


def _with(frame: pl.DataFrame, types: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    if not frame.width:
        return pl.DataFrame(schema=types)
    lacking = [pl.lit(None, kind).alias(name) for name, kind in types.items() if name not in frame.columns]
    return frame.with_columns(lacking).select(*types)
