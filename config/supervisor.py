"""Runs programs side by side, restarts what dies, stops all of them: what `manage.py up` stands on."""

import contextlib
import ctypes
import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

log = logging.getLogger(__name__)

GRACE_S = 20.0
"""Seconds that a program has to end after SIGTERM before it is killed: more than web.ENDS_S."""
LOG_BYTES = 20_000_000
"""A program's log is set aside as `.1` when it has grown past this."""

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class Program:
    """One program and what became of it. Its output goes to `<logs>/<name>.log`."""

    name: str
    command: Sequence[str]
    process: "subprocess.Popen[bytes] | None" = None
    started_at: float = 0.0
    failures: int = 0
    next_start: float = 0.0


@dataclass(slots=True)
class Supervisor:
    """Starts programs in their own process groups, so that none of their children outlives them."""

    logs: Path
    environment: Mapping[str, str]
    programs: list[Program] = field(default_factory=list)
    stopping: bool = False

    def start(self, name: str, command: Sequence[str]) -> Program:
        """Start one more program."""
        program = Program(name, command)
        self.programs.append(program)
        self._spawn(program)
        return program

    def run(self, poll_s: float = 0.2) -> None:
        """Watch the programs until `stopping` is set; one that ends is started again, later each time."""
        while not self.stopping:
            for program in self.programs:
                self._watch(program)
                self._bound_log(program)
            time.sleep(poll_s)

    def stop(self) -> None:
        """End all programs, the last started first: SIGTERM, a grace, SIGKILL; returns when none is left."""
        self.stopping = True
        for program in reversed(self.programs):
            _signal(program, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        for program in reversed(self.programs):
            if program.process is None:
                continue
            try:
                program.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("%s did not end within %.0f s and is killed.", program.name, GRACE_S)
            _signal(program, signal.SIGKILL)  # also what its group may have left behind
            program.process.wait()

    def _watch(self, program: Program) -> None:
        now = time.monotonic()
        if program.process is None:
            if now >= program.next_start:
                self._spawn(program)
            return
        code = program.process.poll()
        if code is None:
            return
        _signal(program, signal.SIGKILL)  # its children go before it comes back: no two of anything
        program.failures = 0 if now - program.started_at > 60 else program.failures + 1
        wait_s = min(30.0, 0.5 * 2**program.failures)
        program.process, program.next_start = None, now + wait_s
        log.warning(
            "%s ended with code %d; it starts again in %.1f s. The end of %s:\n%s",
            program.name, code, wait_s, self._log_path(program), self._tail(program),
        )  # fmt: skip

    def _spawn(self, program: Program) -> None:
        with self._log_path(program).open("ab") as output:
            program.process = subprocess.Popen(  # noqa: S603 - our own programs
                program.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(self.environment),
                start_new_session=True,
                preexec_fn=partial(_die_with, os.getpid()),
            )
        program.started_at = time.monotonic()

    def _bound_log(self, program: Program) -> None:
        """Set a long log aside. The program goes on appending to the same file, so it is copied and emptied, not moved."""
        path = self._log_path(program)
        if path.exists() and path.stat().st_size > LOG_BYTES:
            shutil.copyfile(path, path.with_suffix(".log.1"))
            os.truncate(path, 0)

    def _log_path(self, program: Program) -> Path:
        return self.logs / f"{program.name}.log"

    def _tail(self, program: Program, lines: int = 15) -> str:
        with self._log_path(program).open("rb") as file:
            file.seek(max(0, os.path.getsize(file.name) - 8192))
            return "\n".join("    " + line for line in file.read().decode(errors="replace").splitlines()[-lines:])


def _die_with(parent: int) -> None:
    """Ask the kernel to end this child when its parent is killed; end at once when that has happened already."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)


def _signal(program: Program, number: signal.Signals) -> None:
    if program.process is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing of it is left
            os.killpg(program.process.pid, number)
