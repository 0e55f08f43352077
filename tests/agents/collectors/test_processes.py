"""GPU processes from a /proc made of files, and from the real one."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.collectors import procfs
from agents.collectors.processes import MAX_PROCESSES, PROCESS_METRICS, ProcessCollector, Reading, program
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


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["python", "train.py", "--token", "secret"], "train.py"),
        (["/usr/bin/python3.11", "-u", "-X", "dev", "/home/x/run/train.py"], "train.py"),
        (["python", "-m", "vllm.entrypoints.api_server", "--model", "m"], "vllm.entrypoints.api_server"),
        (["python", "-c", "import os; secret='x'"], None),
        (["python", "-W", "ignore", "a.py"], "a.py"),
        (["python"], None),
        (["python", "pass word"], None),
        (["python", "x" * 65], None),
        (["bash", "-lc", "hunter2"], None),
        (["bash", "-e", "run.sh"], "run.sh"),
    ],
)
def test_the_program_of_an_interpreter_is_its_script_or_module(words: list[str], name: str | None) -> None:
    """And never another argument."""
    assert program(words) == name


@given(st.lists(st.text(max_size=20), max_size=8))
def test_no_command_line_is_too_odd(words: list[str]) -> None:
    """Whatever it is, the name is short and plain."""
    name = program(words)

    assert name is None or (0 < len(name) <= 64 and " " not in name)


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
