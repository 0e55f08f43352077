"""A process that writes and merges as fast as it can; the tests start it, read beside it and kill it.

`python churn.py DIRECTORY FIRST GRACE_S`: flush k holds a minute of four GPUs, and what was written for the minute
BACK flushes ago is written once more with another value in its first second. Simulated time runs a minute a flush,
so an hour is settled every few seconds. The number of each flush is printed once `write` has returned.
"""

import sys
from pathlib import Path

import polars as pl

from fleet.store.compact import compact
from fleet.store.parquet import ParquetSeries

T = 20_000 * 86_400
MINUTE = 60
ENTITIES = 4
BACK = 45


def value(entity: int, ts: int, version: int) -> float:
    """What row (entity, ts) holds as of its `version`."""
    return (entity * 31 + ts * 7 + version * 1009) % 10_000 / 10_000


def flush(number: int) -> pl.DataFrame:
    """The rows of one flush."""
    start = T + number * MINUTE
    rows = [(entity, ts, value(entity, ts, 0)) for ts in range(start, start + MINUTE) for entity in range(1, ENTITIES + 1)]
    if number >= BACK:
        again = start - BACK * MINUTE
        rows += [(entity, again, value(entity, again, 1)) for entity in range(1, ENTITIES + 1)]
    return pl.DataFrame(rows, schema=["entity", "ts", "sm_active"], orient="row")


def expected(start: int, end: int, number: int) -> set[tuple[int, int, float]]:
    """All rows of start..end once flush `number` and all before it are stored."""
    return {
        (entity, ts, value(entity, ts, int((ts - T) % MINUTE == 0 and (ts - T) // MINUTE + BACK <= number)))
        for ts in range(max(start, T), min(end, T + (number + 1) * MINUTE))
        for entity in range(1, ENTITIES + 1)
    }


def main() -> None:
    """Run until killed."""
    root, first, grace_s = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    now = [0.0]
    store = ParquetSeries(root, clock=lambda: now[0], grace_s=grace_s)
    number = first
    while True:
        now[0] = T + (number + 1) * MINUTE - 1
        store.write("gpu", flush(number))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        number += 1
        if number % 5 == 0:
            compact(store, T + number * MINUTE)


if __name__ == "__main__":
    main()
