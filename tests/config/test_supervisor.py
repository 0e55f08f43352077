"""The supervisor restarts what dies and leaves nothing behind."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from config.supervisor import Supervisor
from tests.serving import ROOT


@contextmanager
def running(supervisor: Supervisor) -> Iterator[None]:
    """The supervisor's loop in a thread; everything is stopped at the end."""
    loop = threading.Thread(target=supervisor.run, kwargs={"poll_s": 0.02})
    loop.start()
    try:
        yield
    finally:
        supervisor.stop()
        loop.join()


def until(true: object, seconds: float = 10) -> None:
    """Wait until `true()` holds."""
    assert callable(true)
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def test_it_starts_again_what_was_killed(tmp_path: Path) -> None:
    """A program that dies comes back as another process."""
    supervisor = Supervisor(tmp_path, os.environ)
    program = supervisor.start("sleeper", [sys.executable, "-c", "import time; time.sleep(60)"])
    with running(supervisor):
        assert program.process is not None
        first = program.process.pid
        os.kill(first, 9)
        until(lambda: program.process is not None and program.process.pid != first)

    assert program.process is not None
    assert program.process.poll() is not None


def test_it_ends_the_children_of_its_programs_too(tmp_path: Path) -> None:
    """A grandchild that ignores SIGTERM is gone after the stop."""
    pid_file = tmp_path / "pid"
    child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    parent = (
        f"import subprocess, sys, pathlib, time; p = subprocess.Popen([sys.executable, '-c', {child!r}]); "
        f"pathlib.Path({str(pid_file)!r}).write_text(str(p.pid)); time.sleep(60)"
    )
    supervisor = Supervisor(tmp_path, os.environ)
    supervisor.start("parent", [sys.executable, "-c", parent])
    with running(supervisor):
        until(lambda: pid_file.exists() and pid_file.read_text() != "")
        grandchild = int(pid_file.read_text())
        assert psutil.pid_exists(grandchild)

    until(lambda: not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == psutil.STATUS_ZOMBIE)


def test_it_waits_longer_after_each_failure_and_keeps_the_others_running(tmp_path: Path) -> None:
    """A program that ends at once is tried again with growing pauses; its neighbour is left alone."""
    supervisor = Supervisor(tmp_path, os.environ)
    broken = supervisor.start("broken", [sys.executable, "-c", "print('no luck'); raise SystemExit(3)"])
    steady = supervisor.start("steady", [sys.executable, "-c", "import time; time.sleep(60)"])
    assert steady.process is not None
    pid = steady.process.pid
    with running(supervisor):
        until(lambda: broken.failures >= 2)
        assert steady.process.pid == pid
        assert "no luck" in (tmp_path / "broken.log").read_text()
        assert broken.next_start - time.monotonic() < 30


def test_it_bounds_a_log_while_its_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that never ends cannot fill the disk with its log; what it said last stays readable."""
    monkeypatch.setattr("config.supervisor.LOG_BYTES", 10_000)
    talk = "import time\nfor n in range(4000): print(f'line {n}', flush=True)\ntime.sleep(60)"
    supervisor = Supervisor(tmp_path, os.environ)
    supervisor.start("talker", [sys.executable, "-c", talk])
    log = tmp_path / "talker.log"
    with running(supervisor):
        until(
            lambda: (
                "line 3999" in log.read_text() + (tmp_path / "talker.log.1").read_text()
                if log.with_suffix(".log.1").exists()
                else False
            )
        )
        until(lambda: log.stat().st_size <= 10_000)


def test_a_child_whose_parent_was_gone_before_it_could_ask_ends_at_once() -> None:
    """The kernel tells of a parent's death only those who asked before it."""
    code = "import os; from config.supervisor import _die_with; _die_with(os.getppid() + 1); print('alive')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
