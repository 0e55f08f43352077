"""What is read of a process now and then: its own /dev/shm, and what happens while a reading hangs."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.collectors import rounds, shared_memory
from agents.collectors.process_readers import Answers
from agents.collectors.processes import PROCESS_METRICS, ProcessCollector
from agents.collectors.slow_processes import NAMES, SlowProcesses
from agents.device import SLOW_S
from tests.agents.proc import Proc

SHM = Path("/dev/shm")


def wait(holds: Callable[[], bool]) -> None:
    """Until it holds."""
    deadline = time.monotonic() + 10
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert holds()


@pytest.mark.skipif(not SHM.is_mount(), reason="this machine has no /dev/shm of its own")
def test_a_real_process_has_the_dev_shm_that_it_sees() -> None:
    """This one shares the agent's."""
    stat = os.statvfs(SHM)
    found = shared_memory.of_process(f"/proc/{os.getpid()}")

    assert found["shm_size_bytes"] == stat.f_blocks * stat.f_frsize
    assert 0 <= int(found["shm_used_bytes"] or 0) <= int(found["shm_size_bytes"] or 0)


def test_a_folder_that_is_no_mount_is_no_shared_memory(tmp_path: Path) -> None:
    """It has no limit of its own; a link is not followed, wherever it leads."""
    (tmp_path / "root" / "dev" / "shm").mkdir(parents=True)
    assert set(shared_memory.of_process(str(tmp_path)).values()) == {"not_found"}
    (tmp_path / "root" / "dev" / "shm").rmdir()
    (tmp_path / "root" / "dev" / "shm").symlink_to("/dev/shm")
    assert set(shared_memory.of_process(str(tmp_path)).values()) == {"not_found"}

    assert set(shared_memory.of_process(str(tmp_path / "gone")).values()) == {"not_found"}


def test_limits_are_read_by_the_second_tick_and_again_every_quarter_of_a_minute(proc: Proc, sys: Path) -> None:
    """In between they stand."""
    group = sys / "fs" / "cgroup" / "a"
    group.mkdir(parents=True)
    (group / "cpu.max").write_text("50000 100000\n")
    (group / "cpu.stat").write_text("nr_periods 1\nnr_throttled 0\n")
    proc.process(10)
    (proc.root / "10" / "cgroup").write_text("0::/a\n")
    collector = ProcessCollector(proc.root, sys=sys)

    def periods(now: float) -> tuple[object, str | None]:
        (reading,) = collector.collect([10], now)
        position = next(i for i, metric in enumerate(PROCESS_METRICS) if metric.name == "cpu_periods_total")
        return reading.values[position], reading.reasons[position]

    assert periods(0.0) == (None, "no_previous")
    wait(lambda: periods(1.0) == (1, None))
    (group / "cpu.stat").write_text("nr_periods 9\nnr_throttled 0\n")
    assert periods(SLOW_S - 1) == (1, None)
    periods(SLOW_S)
    wait(lambda: periods(SLOW_S) == (9, None))

    collector.close()


def test_a_reading_that_hangs_costs_its_own_process_alone(
    proc: Proc, sys: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As a file system does whose server is gone: the tick goes on, and the process's readings say why they are not there."""
    release = threading.Event()
    real = shared_memory.of_process

    def hanging(base: str) -> Answers:
        if base.endswith("/10"):
            release.wait(30)
        return real(base)

    monkeypatch.setattr(shared_memory, "of_process", hanging)
    monkeypatch.setattr(rounds, "HANG_S", 0.05)
    for pid in (10, 11):
        proc.process(pid)
    slow = SlowProcesses(proc.root, sys)
    both = [(10, 100, ""), (11, 100, "")]
    try:
        began = time.monotonic()
        slow.ask(both, 0.0)
        assert time.monotonic() - began < 5
        assert set(slow.of(10, 100).values()) == {"no_previous"}

        def has_other() -> bool:
            slow.ask(both, 1.0)
            return slow.of(11, 100)["shm_size_bytes"] == "not_found"

        wait(has_other)
        assert slow.of(10, 100) == dict.fromkeys(NAMES, "timeout")
        assert len(caplog.records) == 1
    finally:
        release.set()
        slow.close()


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    """An empty /proc."""
    (tmp_path / "proc").mkdir()
    return Proc(tmp_path / "proc")


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    """An empty /sys."""
    return tmp_path / "sys"
