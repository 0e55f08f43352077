"""GPU processes from a /proc made of files, and from the real one."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agents.collectors import procfs
from agents.collectors.processes import MAX_PROCESSES, PROCESS_METRICS, ProcessCollector, Reading
from tests.agents.proc import Proc

HZ = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    """An empty /proc."""
    return Proc(tmp_path)


def value(reading: Reading, name: str) -> tuple[object, str | None]:
    """Value and reason of one metric."""
    position = next(i for i, metric in enumerate(PROCESS_METRICS) if metric.name == name)
    return reading.values[position], reading.reasons[position]


def test_a_process_and_its_descendants_are_added_up(proc: Proc) -> None:
    """CPU over the interval, children through any depth, zombies and strangers left out."""
    proc.process(10, cmdline="python train.py --key secret", ticks=100, rss_pages=7)
    proc.process(11, parent=10, comm="pt_data_worker", ticks=50)
    proc.process(12, parent=11, comm="helper", ticks=10)
    proc.process(13, parent=10, state="Z", ticks=5)
    proc.process(14, parent=1, ticks=5)
    collector = ProcessCollector(proc.root)
    (first,) = collector.collect([10], 0.0)

    assert value(first, "cpu_pct") == (None, "no_previous")
    assert value(first, "children") == (2, None)
    proc.process(10, ticks=100 + HZ, rss_pages=7, cmdline="python train.py --key secret")
    proc.process(11, parent=10, ticks=50 + HZ // 2)
    proc.process(12, parent=11, ticks=10 + HZ // 4)
    (second,) = collector.collect([10], 1.0)
    assert (second.name, second.pid) == ("train.py", 10)
    assert value(second, "cpu_pct") == (pytest.approx(100), None)
    assert value(second, "children_cpu_pct") == (pytest.approx(75), None)
    assert value(second, "threads") == (3, None)
    assert value(second, "rss_bytes") == (7 * os.sysconf("SC_PAGE_SIZE"), None)
    assert (value(second, "read_chars_total"), value(second, "write_chars_total")) == ((1000, None), (2000, None))


def test_what_a_process_does_to_storage_memory_and_its_main_thread_is_read(proc: Proc) -> None:
    """Delays count where the kernel keeps them; the main thread's share is its own."""
    (proc.root / "sys" / "kernel").mkdir(parents=True)
    (proc.root / "sys" / "kernel" / "task_delayacct").write_text("1\n")
    proc.process(10, ticks=0, main_ticks=0, io_delay=5 * HZ, shmem_kb=8)
    collector = ProcessCollector(proc.root)
    collector.collect([10], 0.0)
    proc.process(10, ticks=2 * HZ, main_ticks=HZ // 2, io_delay=6 * HZ, shmem_kb=8)
    (reading,) = collector.collect([10], 1.0)

    assert value(reading, "cpu_pct") == (pytest.approx(200), None)
    assert value(reading, "main_thread_cpu_pct") == (pytest.approx(50), None)
    assert value(reading, "io_delay_s_total") == (6.0, None)
    assert value(reading, "shmem_bytes") == (8192, None)
    assert (value(reading, "read_bytes_total"), value(reading, "write_bytes_total")) == ((500, None), (1000, None))
    assert (value(reading, "voluntary_switches_total"), value(reading, "involuntary_switches_total")) == ((70, None), (3, None))


def test_what_holders_and_their_descendants_use_is_counted_once(proc: Proc) -> None:
    """A rank that a launcher started, which holds a GPU too, is not also the launcher's."""
    for pid, parent in ((10, 1), (11, 10), (12, 11), (13, 10)):
        proc.process(pid, parent=parent, ticks=0)
    collector = ProcessCollector(proc.root)

    def used(now: float, *pids: int) -> float | str:
        """What these and theirs used since the call before."""
        collector.collect(pids, now)
        return collector.cores_used

    assert used(0.0, 10, 11) == "no_previous"
    for pid, parent, cores in ((10, 1, 1.0), (11, 10, 0.5), (12, 11, 0.25), (13, 10, 2.0)):
        proc.process(pid, parent=parent, ticks=int(cores * 2 * HZ))

    assert used(2.0, 10, 11) == pytest.approx(3.75)
    assert used(3.0) == 0
    assert used(4.0, 10, 77) == "no_previous"
    assert used(5.0, 77) == "not_found"


def test_a_kernel_that_keeps_no_delays_has_none_not_zero(proc: Proc) -> None:
    """Its field is there and says 0."""
    proc.process(10)
    (reading,) = ProcessCollector(proc.root).collect([10], 0.0)

    assert value(reading, "io_delay_s_total") == (None, "unsupported")
    assert value(reading, "steps_total") == (None, "not_found")


def test_data_loader_workers_are_the_children_that_run_the_same_program(proc: Proc) -> None:
    """Forked or spawned; not compile workers, resource trackers, fork servers, zombies, or ranks that hold a GPU themselves."""
    spawn = ["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()", "--multiprocessing-fork"]
    server = ["python", "-c", "from multiprocessing.forkserver import main; main(5, 6)"]
    proc.process(10, cmdline="python train.py")
    proc.process(11, parent=10, cmdline="python train.py")
    proc.process(12, parent=10, cmdline="renamed", comm="pt_data_worker")
    proc.process(13, parent=10)
    proc.words(13, "cmdline", *spawn)
    proc.process(14, parent=10, cmdline="python -m torch._inductor.compile_worker")
    proc.process(15, parent=10)
    proc.words(15, "cmdline", "python", "-c", "from multiprocessing.resource_tracker import main;main(7)")
    proc.process(16, parent=10)
    proc.words(16, "cmdline", *server)
    proc.process(17, parent=16)
    proc.words(17, "cmdline", *server)
    proc.process(18, parent=10, cmdline="python train.py", state="Z")
    proc.process(19, parent=10, cmdline="python train.py")
    (first, _) = ProcessCollector(proc.root).collect([10, 19], 0.0)

    assert value(first, "children") == (8, None)
    assert value(first, "dataloader_workers") == (4, None)


def test_a_child_between_fork_and_exec_does_not_stay_a_worker(proc: Proc) -> None:
    """It has its parent's command line for a moment."""
    proc.process(10, cmdline="python train.py")
    proc.process(11, parent=10, cmdline="python train.py")
    collector = ProcessCollector(proc.root)
    collector.collect([10], 0.0)
    proc.process(11, parent=10, cmdline="nvcc kernel.cu")
    (reading,) = collector.collect([10], 1.0)

    assert value(reading, "dataloader_workers") == (0, None)


@pytest.mark.parametrize(("opened", "is_read"), [("/dev/null", False), ("/dev/nvidia3", True)])
def test_in_a_namespace_of_its_own_the_agent_takes_no_stranger_for_a_holder(proc: Proc, opened: str, is_read: bool) -> None:
    """The driver may tell the node's pids; a process here that has no GPU open is another one of that number."""
    (proc.root / "self" / "ns").mkdir(parents=True)
    (proc.root / "self" / "ns" / "pid").symlink_to("pid:[4026532999]")
    proc.process(10, cmdline="python train.py")
    (proc.root / "10" / "fd").mkdir()
    (proc.root / "10" / "fd" / "3").symlink_to(opened)
    (reading,) = ProcessCollector(proc.root).collect([10], 0.0)

    assert (reading.start is not None) is is_read
    assert (set(reading.reasons) == {"not_found"}) is not is_read


def test_a_zombie_that_holds_a_gpu_is_read_as_far_as_it_goes(proc: Proc) -> None:
    """Its command line is empty and its files are half gone: unknown is not none, and nothing is logged."""
    proc.process(10, comm="python", state="Z", io=None)
    (proc.root / "10" / "cmdline").write_bytes(b"")
    (proc.root / "10" / "status").write_text("Name:\tpython\nState:\tZ (zombie)\nNSpid:\t10\n")
    (reading,) = ProcessCollector(proc.root).collect([10], 0.0)

    assert reading.name == "python"
    assert value(reading, "dataloader_workers") == (None, "not_found")
    assert value(reading, "shmem_bytes") == value(reading, "voluntary_switches_total") == (None, "unsupported")
    assert value(reading, "children") == (0, None)


def test_a_pid_that_is_used_again_is_another_process(proc: Proc) -> None:
    """Its start time tells; no rate reaches over the change."""
    proc.process(10, ticks=5000, start=1, cmdline="python a.py")
    collector = ProcessCollector(proc.root)
    collector.collect([10], 0.0)
    proc.process(10, ticks=10, start=2, cmdline="python b.py")
    (reading,) = collector.collect([10], 1.0)

    assert reading.name == "b.py"
    assert value(reading, "cpu_pct") == (None, "no_previous")


def test_a_process_of_another_namespace_has_reasons_alone(proc: Proc) -> None:
    """It holds the GPU whether or not /proc shows it."""
    (reading,) = ProcessCollector(proc.root).collect([77], 0.0)

    assert reading.pid == 77
    assert set(reading.reasons) == {"not_found"}
    assert reading.values == [None] * len(PROCESS_METRICS)


def test_io_that_may_not_be_read_is_not_permitted(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other users' counters are theirs; the rest of the process is read."""
    proc.process(10)
    real = procfs.read

    def read(path: str) -> bytes:
        if path.endswith("/io"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(procfs, "read", read)
    (reading,) = ProcessCollector(proc.root).collect([10], 0.0)

    assert value(reading, "read_chars_total") == (None, "not_permitted")
    assert value(reading, "threads") == (3, None)


def test_a_name_with_parentheses_and_spaces_is_read(proc: Proc) -> None:
    """The kernel does not quote it."""
    proc.process(10, comm="a) S (b c", ticks=7)
    (reading,) = ProcessCollector(proc.root).collect([10], 0.0)

    assert reading.name == "a) S (b c"
    assert value(reading, "threads") == (3, None)


def test_a_torn_stat_is_an_absence(proc: Proc) -> None:
    """A process that ends while it is read."""
    proc.process(10)
    (proc.root / "10" / "stat").write_text("10 (python) S 1")
    (reading,) = ProcessCollector(proc.root).collect([10], 0.0)

    assert set(reading.reasons) == {"driver_error"}


def test_an_absurd_number_of_processes_is_cut(proc: Proc) -> None:
    """A frame has to stay small."""
    readings = ProcessCollector(proc.root).collect(range(1, 2000), 0.0)

    assert len(readings) == MAX_PROCESSES


def test_a_name_with_control_characters_is_told_without_them(proc: Proc) -> None:
    """A process calls itself what it likes; terminals obey escape sequences."""
    proc.process(10, comm="x\x1b[2J\u202e")

    (reading,) = ProcessCollector(proc.root).collect([10], 0.0)
    assert reading.name == "x?[2J?"


def test_the_word_behind_a_bare_hyphen_is_no_name(proc: Proc) -> None:
    """The program came by the standard input; what follows are its arguments."""
    proc.process(10, comm="python", cmdline="python\0-\0hunter2\0")

    (reading,) = ProcessCollector(proc.root).collect([10], 0.0)
    assert reading.name == "python"


def test_a_real_child_is_seen_with_its_cpu() -> None:
    """The real /proc: a spinning child takes about a core less what the others take."""
    collector = ProcessCollector()
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        collector.collect([os.getpid()], 0.0)
        began = time.monotonic()
        time.sleep(0.5)
        (reading,) = collector.collect([os.getpid()], time.monotonic() - began)
    finally:
        child.kill()
        child.wait()
    children, _ = value(reading, "children")
    share, _ = value(reading, "children_cpu_pct")

    assert isinstance(children, int)
    assert children >= 1
    assert isinstance(share, float)
    assert share > 5
