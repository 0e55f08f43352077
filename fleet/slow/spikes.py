"""Latency spikes of serving engines over a day, and how many came while other programs of the host were busy.

Telemetry of a day at a second each would be too much to read each time: what is kept is a row a minute and engine.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Final

import polars as pl

from fleet.inventory.models import Engine
from fleet.slow.frames import keep_rows, kept_rows
from fleet.store import clock

MINUTE_S: Final = 60
DAY_S: Final = 86_400
LAG_S: Final = 20
READ_S: Final = 3600
"""The longest that is read at once: after a pause the minutes before stay unknown."""
SPIKE: Final = 5.0
"""Times the day's median from which a minute's slowest mean is a spike."""
ENOUGH_MINUTES: Final = 120
"""With requests; of fewer nobody knows what is usual."""
BUSY_PSI_PCT: Final = 20.0
BUSY_WRITES: Final = 200e6
"""Bytes a second to disks."""
_PART: Final = "spike"
_ROWS: Final = {"service": pl.Int64, "minute": pl.Int64, "e2e_s": pl.Float64, "noise": pl.Boolean}
_HOST: Final = ("psi_cpu_some_pct", "psi_io_some_pct", "disk_write_bytes_total")


def of_day(at: datetime, engines: Collection[Engine]) -> pl.DataFrame:
    """By engine (`service`) `latency_spikes`, and `spikes_with_noise_share` where there are any and its host tells. StoreError.

    A spike that lasts for minutes is one; noise within a minute of it counts. `noise`: tasks of the host wait for a CPU or for
    storage for a fifth of the time, or 200 MB a second go to its disks.
    """
    end = int((at.timestamp() - LAG_S) // MINUTE_S)
    known = kept_rows("service", _PART, pl.Schema(_ROWS)).filter(pl.col("minute").is_between(end - DAY_S // MINUTE_S, end - 1))
    newest: int = known.select(pl.col("minute").max()).item() or 0
    start = max(newest + 1, end - READ_S // MINUTE_S)
    if start < end and engines:
        known = pl.concat([known, _read(start * MINUTE_S, end * MINUTE_S, engines)])
    keep_rows("service", _PART, at, known)
    return _spikes(known.filter(pl.col("service").is_in([engine.pk for engine in engines])))


def _read(start: int, end: int, engines: Collection[Engine]) -> pl.DataFrame:
    """A row for each minute in which an engine answered requests."""
    homes = pl.DataFrame(
        [(engine.pk, engine.node_id) for engine in engines], schema={"service": pl.Int64, "node": pl.Int64}, orient="row"
    )
    minute = (pl.col("ts") // MINUTE_S).alias("minute")
    rows = clock.window("engine", start, end, homes["service"].to_list(), ["e2e_mean_s"]).rename({"entity": "service"})
    slow = rows.group_by("service", minute).agg(pl.col("e2e_mean_s").max().alias("e2e_s")).drop_nulls("e2e_s")
    host = clock.window("host", start, end, homes["node"].unique().to_list(), _HOST).rename({"entity": "node"})
    written = pl.col("disk_write_bytes_total")
    loud = host.group_by("node", minute).agg(
        pl.max_horizontal(pl.col("psi_cpu_some_pct").max(), pl.col("psi_io_some_pct").max()).alias("psi"),
        ((written.max() - written.min()) / MINUTE_S).alias("writes"),
    )
    noise = pl.any_horizontal(pl.col("psi") >= BUSY_PSI_PCT, pl.col("writes") >= BUSY_WRITES)
    slow = slow.join(homes, on="service").join(loud, on=("node", "minute"), how="left")
    return slow.select("service", "minute", "e2e_s", noise.alias("noise")).sort("service", "minute").cast(_ROWS)  # type: ignore[arg-type] # a dict of types


def _spikes(known: pl.DataFrame) -> pl.DataFrame:
    spike = pl.col("e2e_s") >= SPIKE * pl.col("e2e_s").median().over("service")
    rows = known.sort("service", "minute").with_columns(spike=spike)
    goes_on = spike.shift(1).over("service") & (pl.col("minute").diff().over("service") == 1)
    near = [pl.col("noise").shift(step).over("service") & _is_next(step) for step in (1, -1)]
    rows = rows.with_columns(
        begins=pl.col("spike") & ~goes_on.fill_null(False),
        noisy=pl.any_horizontal(pl.col("noise"), *(one.fill_null(False) for one in near)),
    )
    begun = pl.col("noisy").filter("begins")
    return (
        rows.group_by("service", maintain_order=True)
        .agg(
            pl.len().alias("minutes"), pl.col("begins").sum().cast(pl.Int64).alias("latency_spikes"), begun.mean().alias("share")
        )
        .filter(pl.col("minutes") >= ENOUGH_MINUTES)
        .select("service", "latency_spikes", pl.col("share").alias("spikes_with_noise_share"))
    )


def _is_next(step: int) -> pl.Expr:
    return (pl.col("minute") - pl.col("minute").shift(step).over("service")).abs() == 1
