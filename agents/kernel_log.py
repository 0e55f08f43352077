"""The kernel's log as a source of events: XIDs, NVSwitch errors, lost GPUs, version mismatches, kills for want of memory.

It is read from now on. What was logged since the boot and after this agent last looked (it keeps the number of the last
record beside its spool) is read too, so a GPU that fell off the bus while the agent was updated, or took the node
with it, is told of; an agent that never ran here before begins with now. Only what the kernel itself logged counts: records
that programs write into the log are left out.
"""

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from agents.config import AgentConfig
from agents.kernel_lines import Line, Lines
from agents.kernel_records import Journal, Kmsg, LogError, Record

log = logging.getLogger(__name__)

KEPT_MAX: Final = 10_000
"""Lines between two looks; a storm of more loses its oldest."""
RETRY_S: Final = 60.0
_ENDED: Final = "its reader ended with a defect, which the agent's log tells, and is begun anew within a minute"
_IDLE_S: Final = 0.5


class KernelLog:
    """Reads in a thread of its own, from `start` to `close`; `take` gives what came, with the second of what is not new."""

    def __init__(self, path: Path = Path("/dev/kmsg"), mark: Path | None = None, proc: Path = Path("/proc")) -> None:
        self.trouble = ""
        """Why it cannot be read and what to do; empty while it is read, and before the start."""
        self.is_read = False
        self._kmsg = Kmsg(path, mark, proc)
        self._came: deque[tuple[Line, float | None]] = deque(maxlen=KEPT_MAX)
        self._thread: threading.Thread | None = None
        self._began = 0.0
        self._wake: tuple[int, int] | None = None
        self._on_line: Callable[[], None] = _nothing

    def start(self, on_line: Callable[[], None]) -> None:
        """Begin; `on_line` is called, in the thread, as soon as there is something to take."""
        self._on_line = on_line
        self._wake = os.pipe()
        self._begin(self._wake[0])

    def _begin(self, wake: int) -> None:
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, args=(wake,), name="kernel-log", daemon=True)
        self._thread.start()

    def take(self) -> list[tuple[Line, float | None]]:
        """Lines since the call before, each with the epoch second it was logged; None: just now. Begins a thread that ended anew."""
        if self._thread is not None and self._wake is not None and not self._thread.is_alive():
            self.trouble = _ENDED
            if time.monotonic() - self._began >= RETRY_S:
                self._begin(self._wake[0])
        came = []
        while self._came:
            came.append(self._came.popleft())
        return came

    def close(self) -> None:
        """End the thread; within half a second."""
        if self._thread is None or self._wake is None:
            return
        os.write(self._wake[1], b"x")
        self._thread.join(_IDLE_S)
        if not self._thread.is_alive():
            for fd in self._wake:
                os.close(fd)
        self._wake = None

    def _run(self, wake: int) -> None:
        told = ""
        while True:
            try:
                if self._is_over(wake):
                    return
            except Exception as error:
                log.exception("The kernel log is not read any more; it is begun with again in %.0f s", RETRY_S)
                self.trouble = f"{_ENDED} ({type(error).__name__})"
            if self.trouble != told:
                told = self.trouble
                log.info("The kernel log is not read: %s. XIDs come from the driver alone.", told)
            if _readable(wake, RETRY_S):
                return

    def _is_over(self, wake: int) -> bool:
        """Follow the first source that can be had; True when the thread is to end, False when there is none or it has ended."""
        troubles: list[str] = []
        for source in (self._kmsg, Journal()):
            try:
                source.open()
                self.trouble = ""
                return self._follow(source, wake)
            except LogError as error:
                troubles.append(str(error))
                self.trouble = "; ".join(troubles)
            finally:
                self.is_read = False
                source.close()
        return False

    def _follow(self, source: Kmsg | Journal, wake: int) -> bool:
        """True when the thread is to end, False when the source has."""
        self.is_read = True
        lines = Lines()
        poll = select.poll()
        poll.register(source.fileno(), select.POLLIN)
        poll.register(wake, select.POLLIN)
        while True:
            try:
                records = source.read()
            except OSError as error:
                self.trouble = f"the kernel log cannot be read any more: {error.strerror or error}"
                return False
            self._take(records, lines, source)
            if records is None:
                if isinstance(source, Journal):
                    self.trouble = "journalctl ended"
                    return False
                if _readable(wake, _IDLE_S):  # a file's end, or a pipe that nobody writes to: poll would not wait
                    return True
            elif any(fd == wake for fd, _ in poll.poll(0 if records else None)):
                return True

    def _take(self, records: list[Record] | None, lines: Lines, source: Kmsg | Journal) -> None:
        found = [(line, record.at) for record in records or () if (line := _read(lines, record.message)) is not None]
        if found:
            self._came.extend(found)
            source.keep_mark()
            self._on_line()


def _read(lines: Lines, message: str) -> Line | None:
    """What a message tells; one that our reading of it stumbles over costs itself alone."""
    try:
        return lines.read(message)
    except Exception:
        log.exception("A line of the kernel's log could not be read; those after it are")
        return None


def of(config: AgentConfig) -> KernelLog:
    """The log as the settings say; how far it was read is kept beside the spool, where there is one."""
    return KernelLog(config.kernel_log, None if config.spool is None else config.spool / "kernel-log", config.proc)


def _readable(fd: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _nothing() -> None:
    pass
