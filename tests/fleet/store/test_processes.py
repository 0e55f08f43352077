"""Writer, compactor and readers in processes of their own, killed at any instant."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleet.store.compact import compact
from fleet.store.layout import read_day
from fleet.store.parquet import ParquetSeries
from tests.fleet.store.churn import ENTITIES, MINUTE, T, expected

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]


class Churn:
    """The writing process, which tells in a file what it has stored."""

    def __init__(self, root: Path, first: int, grace_s: float) -> None:
        self._first = first
        self._told = root / "told"
        with self._told.open("wb") as told:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "churn.py"), str(root), str(first), str(grace_s)],
                env={"PYTHONPATH": str(REPOSITORY), "POLARS_MAX_THREADS": "1"},
                stdout=told,
            )

    @property
    def acked(self) -> int:
        """The highest flush that it said was stored; exact at this instant, as nobody listens in between."""
        lines = self._told.read_bytes().rpartition(b"\n")[0].split()
        return int(lines[-1]) if lines else self._first - 1

    def wait_for(self, number: int) -> None:
        """Until that flush is stored."""
        deadline = time.monotonic() + 30
        while self.acked < number:
            assert self._process.poll() is None, "the writer died"
            assert time.monotonic() < deadline, "the writer stands still"
            time.sleep(0.005)

    def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        self._process.kill()
        self._process.wait()


@contextmanager
def churning(root: Path, first: int = 0, grace_s: float = 1) -> Iterator[Churn]:
    """The writing process, dead at the end."""
    churn = Churn(root, first, grace_s)
    try:
        yield churn
    finally:
        churn.kill()


def exact(rows: list[tuple[int, int, float]], start: int, end: int, before: int, after: int) -> None:
    """The rows hold all that was stored before they were read, nothing that was not there after, each key once."""
    keys = [(entity, ts) for entity, ts, _ in rows]
    surely, perhaps = expected(start, end, before), set[tuple[int, int, float]]()
    for number in range(before, after + 1):
        perhaps |= expected(start, end, number)

    assert keys == sorted(set(keys))
    assert {(entity, ts) for entity, ts, _ in surely} <= set(keys)
    assert set(rows) <= perhaps


def test_a_reader_beside_writer_and_compactor_sees_every_row_once(tmp_path: Path) -> None:
    """For some seconds: no error, no double, no gap, whatever is merged and deleted meanwhile."""
    store, pick = ParquetSeries(tmp_path), random.Random(7)
    reads = 0
    with churning(tmp_path) as churn:
        churn.wait_for(10)
        until = time.monotonic() + 6
        while time.monotonic() < until:
            before = churn.acked
            end = T + (before + 2) * MINUTE
            start = end - pick.choice((2, 20, 90, 600)) * MINUTE
            window_end = pick.choice((end, end - 15 * MINUTE))
            if window_end > start:
                rows = store.window("gpu", start, window_end, metrics=["sm_active"]).rows()
                after = churn.acked + 1
                exact(rows, start, window_end, before, after)
            newest = store.latest("gpu", end - 30 * MINUTE)
            assert newest["entity"].to_list() == list(range(1, ENTITIES + 1))
            assert newest["ts"].min() >= T + (before + 1) * MINUTE - 1  # type: ignore[operator]
            reads += 1
    levels = {path.name[0] for path in (tmp_path / "raw").rglob("*.parquet")}

    assert reads > 20
    assert levels == {"a", "b", "d"}


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_a_kill_at_any_instant_loses_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    """Kill -9 during flushes, merges and deletions; readers see all that was acked before anything is repaired."""
    pick = random.Random(seed)
    store = ParquetSeries(tmp_path, grace_s=0)
    first = 0
    for _ in range(5):
        with churning(tmp_path, first, grace_s=0) as churn:
            churn.wait_for(first + 20)
            time.sleep(pick.uniform(0, 0.5))
        rows = store.window("gpu", T, T + (churn.acked + 2) * MINUTE, metrics=["sm_active"]).rows()
        exact(rows, T, T + (churn.acked + 2) * MINUTE, churn.acked, churn.acked + 1)
        first = churn.acked + 1  # the flush that was not acked is sent again
    for _ in range(3):
        compact(store, T + (first + 120) * MINUTE)

    days = [read_day(path) for path in (tmp_path / "raw" / "gpu").iterdir() if path.is_dir()]
    assert not [name for day in days for name in (*day.tmp, *day.strange)]
    assert not [hour for day in days for hour in day.hours.values() if hour.incomplete or hour.superseded]
    rows = store.window("gpu", T, T + (first + 2) * MINUTE, metrics=["sm_active"]).rows()
    exact(rows, T, T + (first + 2) * MINUTE, first - 1, first)
