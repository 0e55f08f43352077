"""Means of whole disks between two readings of /proc/diskstats."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from agents.collectors.disks import Disks


def line(name: str, reads: int, read_ms: int, writes: int, write_ms: int, busy_ms: int) -> str:
    """A line of a 6.18 kernel: 20 columns."""
    return f" 254 0 {name} {reads} 5 80 {read_ms} {writes} 7 160 {write_ms} 0 {busy_ms} 9 1 0 8 3 4 5\n"


@pytest.fixture
def clock() -> Callable[[], float]:
    """Steps by half a second each time it is asked."""
    ticks = count()
    return lambda: next(ticks) / 2


def test_requests_waits_and_busy_time_are_over_the_interval(tmp_path: Path, clock: Callable[[], float]) -> None:
    """Sums over the disks, and the busy share of the busiest one; a partition repeats its disk."""
    file = tmp_path / "diskstats"
    file.write_text(line("sda", 10, 100, 0, 0, 100) + line("sda1", 10, 100, 0, 0, 100) + line("nvme0n1", 5, 5, 5, 5, 50))
    disks = Disks(tmp_path, clock)
    assert disks.read()["disk_read_iops"] == "no_previous"
    file.write_text(line("sda", 20, 140, 0, 0, 350) + line("sda1", 20, 140, 0, 0, 350) + line("nvme0n1", 5, 5, 35, 25, 60))
    found = disks.read()

    assert found["disk_read_iops"] == pytest.approx(20)
    assert found["disk_write_iops"] == pytest.approx(60)
    assert found["disk_await_s"] == pytest.approx(0.060 / 40)
    assert found["disk_busy_max_pct"] == pytest.approx(50)
    assert found["disk_read_bytes_total"] == 2 * 80 * 512


def test_a_mean_of_no_request_is_absent(tmp_path: Path, clock: Callable[[], float]) -> None:
    """Nothing is divided by zero, and an idle disk is no fast disk."""
    (tmp_path / "diskstats").write_text(line("sda", 10, 100, 0, 0, 100))
    disks = Disks(tmp_path, clock)
    disks.read()
    found = disks.read()

    assert found["disk_await_s"] == "not_found"
    assert found["disk_read_iops"] == found["disk_busy_max_pct"] == 0


def test_a_disk_whose_counters_began_anew_sits_out(tmp_path: Path, clock: Callable[[], float]) -> None:
    """Unplugged and plugged in again: its negative difference does not spoil the others."""
    file = tmp_path / "diskstats"
    file.write_text(line("sda", 1000, 100, 0, 0, 100) + line("sdb", 10, 0, 0, 0, 0))
    disks = Disks(tmp_path, clock)
    disks.read()
    file.write_text(line("sda", 3, 1, 0, 0, 1) + line("sdb", 20, 10, 0, 0, 5) + line("sdc", 9, 9, 9, 9, 9))
    found = disks.read()

    assert found["disk_read_iops"] == pytest.approx(20)
    assert found["disk_await_s"] == pytest.approx(0.001)
