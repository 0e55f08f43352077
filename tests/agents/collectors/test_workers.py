"""Data loader workers over time: how evenly they work, and whether they were all replaced."""

import os
from pathlib import Path

import pytest

from agents.collectors.processes import PROCESS_METRICS, ProcessCollector
from agents.collectors.workers import Worker, Workers
from agents.device import SLOW_S
from tests.agents.proc import Proc

HZ = os.sysconf("SC_CLK_TCK")
START = 100


def ticks(**used: float) -> dict[Worker, int]:
    """What workers have used, in seconds by their pid: `w10=1.5`."""
    return {(int(pid[1:]), START): int(seconds * HZ) for pid, seconds in used.items()}


def after(*used: float) -> object:
    """What is said of workers that used so much within SLOW_S."""
    workers = Workers()
    workers.look({(pid, START): 7 for pid in range(len(used))}, 0.0)
    workers.look({(pid, START): 7 + int(seconds * HZ) for pid, seconds in enumerate(used)}, SLOW_S)
    return workers.busiest


def test_the_busiest_worker_is_told_by_the_median() -> None:
    """Over a quarter of a minute: a second has too few clock ticks for it."""
    assert after(2.0, 2.0, 9.0, 2.0) == pytest.approx(4.5)
    assert after(2.0, 2.0, 2.0) == pytest.approx(1.0)


@pytest.mark.parametrize("used", [(), (9.0,), (1.0, 9.0), (0.01, 0.02, 0.1, 0.01)])
def test_too_few_workers_or_idle_ones_are_not_compared(used: tuple[float, ...]) -> None:
    """Half of a pair is its own median; a hundredth of a second is a clock tick."""
    assert after(*used) == "not_found"


def test_between_two_looks_the_last_answer_stands() -> None:
    """And workers that came meanwhile are compared the next time."""
    workers = Workers()
    workers.look(ticks(w1=0, w2=0, w3=0), 0.0)
    assert workers.busiest == "no_previous"
    workers.look(ticks(w1=1, w2=1, w3=3, w4=9), SLOW_S)
    workers.look(ticks(w1=9, w2=1, w3=3, w4=9), SLOW_S + 5)
    assert workers.busiest == pytest.approx(3.0)
    workers.look(ticks(w1=2, w2=2, w3=4, w4=11), 2 * SLOW_S)

    assert workers.busiest == pytest.approx(2.0)


def test_workers_that_are_made_anew_with_each_epoch_are_counted() -> None:
    """Not while one of the old ones is left, not when they end, and not the first ones."""
    workers = Workers()
    found = []
    for there in (("w1", "w2"), ("w1", "w3"), (), ("w4",), ("w4", "w5"), ("w6", "w7")):
        workers.look(ticks(**dict.fromkeys(there, 0.0)), 0.0)
        found.append(workers.turnovers)

    assert found == [0, 0, 0, 1, 1, 2]


def test_a_pid_that_is_used_again_is_another_worker() -> None:
    """Its start time tells."""
    workers = Workers()
    workers.look({(1, 5): 0}, 0.0)
    workers.look({(1, 6): 0}, 1.0)

    assert workers.turnovers == 1


def test_a_process_tells_of_its_workers_once_they_are_known_to_be_some(tmp_path: Path) -> None:
    """A child between fork and exec looks like a worker for a moment, and no epoch begins with each compiler that is started."""
    proc = Proc(tmp_path)
    proc.process(10, cmdline="python train.py")
    collector = ProcessCollector(proc.root, sys=tmp_path)
    position = {metric.name: place for place, metric in enumerate(PROCESS_METRICS)}
    now = 0.0

    def look(seconds: int) -> tuple[object, object]:
        """The readings after so many ticks."""
        nonlocal now
        for _ in range(seconds):
            now += 1.0
            (reading,) = collector.collect([10], now)
        row = [value if reason is None else reason for value, reason in zip(reading.values, reading.reasons, strict=True)]
        return row[position["worker_turnovers_total"]], row[position["slow_worker_ratio"]]

    look(1)
    for pid in (20, 30):
        proc.process(pid, parent=10, cmdline="python train.py")
        while collector.collect([10], now)[0].values[position["children"]] == 0:
            now += 1.0
        proc.process(pid, parent=10, cmdline="nvcc kernel.cu")
        look(3)
        (tmp_path / str(pid) / "stat").unlink()
        look(1)
    for pid in (11, 12, 13):
        proc.process(pid, parent=10, cmdline="python train.py")
    assert look(10)[0] == 0
    for pid in (11, 12, 13):
        (tmp_path / str(pid) / "stat").unlink()
        proc.process(pid + 10, parent=10, cmdline="python train.py")
    assert look(20)[0] == 1

    collector.close()
