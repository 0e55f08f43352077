"""VictoriaMetrics killed while it takes samples: what was acked is there, once."""

import random
import threading
import time
from pathlib import Path

import polars as pl
import pytest

from fleet.store.series import StoreError
from fleet.store.victoria import VictoriaSeries
from tests.fleet.store.servers import Program, running, victoria, victoria_program

T = 1_790_000_000
WRITERS = 12


def flush(entity: int, number: int) -> pl.DataFrame:
    """Ten seconds of one GPU, of which one second was written before with other values."""
    seconds = [T + number * 10 + second for second in range(-1, 10)]
    return pl.DataFrame(
        {"entity": [entity] * 11, "ts": seconds, "sm_active": [value(entity, ts, number) for ts in seconds]},
    )


def value(entity: int, ts: int, number: int) -> float:
    """A value that tells the GPU, the second and the flush."""
    return ((entity * 7919 + ts * 31 + number * 101) % 10_000) / 10_000


class Writers:
    """Threads that each write the flushes of one GPU in order, the same flush again until it is taken, as ingest does."""

    def __init__(self, store: VictoriaSeries, pick: random.Random) -> None:
        self.acked: dict[int, int] = {}
        self.refusals = 0
        self._store = store
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(entity, pick.uniform(0, 13))) for entity in range(1, WRITERS + 1)
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, entity: int, late_s: float) -> None:
        number = 0
        time.sleep(late_s)
        while not self._end.is_set():
            while not self._taken(entity, number):
                time.sleep(0.1)
            self.acked[entity] = number
            number += 1

    def _taken(self, entity: int, number: int) -> bool:
        try:
            self._store.write("gpu", flush(entity, number))
        except StoreError:
            self.refusals += 1
            return False
        return True

    def end(self) -> None:
        """Let each finish the flush that it is at."""
        self._end.set()
        for thread in self._threads:
            thread.join(60)


def expected(entity: int, last: int) -> dict[int, float]:
    """The rows of a GPU once its flush `last` was taken."""
    held: dict[int, float] = {}
    for number in range(last + 1):
        part = flush(entity, number)
        held |= dict(zip(part["ts"], part["sm_active"], strict=True))
    return held


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_what_was_acked_before_a_kill_is_there_exactly_once(tmp_path: Path, seed: int) -> None:
    """Kill -9 in the middle of many writes, and right after the last ack: every row that was acked has its last value, none is doubled."""
    pick = random.Random(seed)
    program = victoria_program(tmp_path)
    with running(program):
        writers = Writers(victoria(program.url), pick)
        try:
            for _ in range(2):
                time.sleep(pick.uniform(14.0, 18.0))
                program.kill()
                program.start()
        finally:
            writers.end()
        program.kill()
        program.start()
        found = _settled(program, sum(last * 10 + 11 for last in writers.acked.values()))

    assert writers.refusals > 0
    assert set(writers.acked) == set(range(1, WRITERS + 1))
    keys = found.select("entity", "ts").rows()
    assert len(keys) == len(set(keys))
    for entity, last in writers.acked.items():
        held = dict(found.filter(pl.col("entity") == entity).select("ts", "sm_active").rows())
        for ts, told in expected(entity, last).items():
            assert held[ts] == told or held[ts] == value(entity, ts, last + 1), (entity, ts)


def _settled(program: Program, least: int) -> pl.DataFrame:
    """All rows, once the index of the server that has just started shows them."""
    reader = victoria(program.url)
    deadline = time.monotonic() + 20
    found = reader.window("gpu", T - 10, T + 100_000, metrics=["sm_active"])
    while len(found) < least and time.monotonic() < deadline:
        time.sleep(0.2)
        found = reader.window("gpu", T - 10, T + 100_000, metrics=["sm_active"])
    return found
