"""The server's own clock jumps: files stay in the order of their writes, and merging goes on."""

from pathlib import Path

import polars as pl
import pytest

from fleet.store.compact import AHEAD_SETS, compact
from fleet.store.parquet import ParquetSeries

T = 20_000 * 86_400


@pytest.mark.parametrize("jump_s", [-3 * 86_400, 3 * 86_400, 400 * 86_400])
def test_a_server_clock_that_jumps_and_comes_back_keeps_the_later_row_and_goes_on_merging(tmp_path: Path, jump_s: int) -> None:
    """Two hours of flushes, of which one was numbered by the wrong time; every key once, with what was written last."""
    now = [float(T)]
    store = ParquetSeries(tmp_path, clock=lambda: now[0], grace_s=0)
    told: dict[int, float] = {}
    for number in range(720):
        ts = T + number * 10
        now[0] = ts + 10 + (jump_s if number == 100 else 0)
        rows = dict.fromkeys(range(ts - 5, ts + 10), number / 1000)  # half of it for the second time
        store.write("gpu", pl.DataFrame({"entity": [1] * len(rows), "ts": list(rows), "sm_active": list(rows.values())}))
        told |= rows
        if number % 60 == 59:
            compact(store, ts + 10)
    compact(store, T + 7200 + 600)
    found = store.window("gpu", T - 100, T + 8000, metrics=["sm_active"])
    flushes = list((tmp_path / "raw").rglob("a*.parquet"))

    assert dict(found.select("ts", "sm_active").iter_rows()) == told
    assert found["ts"].is_unique().all()
    assert len(flushes) < AHEAD_SETS
