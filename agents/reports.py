"""What training scripts tell of themselves through `clients/fettle_report.py`, as readings of their processes.

Who sends is the kernel's word; what is sent is anybody's, so it is bounded in size, number and range, and what does not fit is
dropped and counted. `agents/step_report.py` has what a datagram says.
"""

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from agents import described, step_report
from agents.collectors.process_readers import Answers
from agents.config import AgentConfig
from agents.report_socket import ReportSocket, ReportSocketError, places
from agents.step_report import Facts, Told

log = logging.getLogger(__name__)

PLACE: Final = "FETTLE_REPORT_SOCKET"
"""The variable by which a program finds the socket."""
MAX_SENDERS: Final = 512
BURST: Final = 64
"""Datagrams taken at once before anything else of the agent has its turn."""
RATE: Final = 1000
"""Datagrams a second; past that the agent does not look until the second is over, and the kernel drops what has no room."""
HOLD_MIN_S: Final = 10.0
HOLD_MAX_S: Final = 600.0
HOLD_STEPS: Final = 3
"""While a step is under way the last ones' figures stand; after as many times a step's length without one they are absent."""
_TRY_S: Final = 60.0
_TELL_S: Final = 600.0


@dataclass(slots=True)
class _Sender:
    latest: Told
    at: float
    base: Told | None = None
    start: int | None = None
    means: Answers = field(default_factory=dict)
    is_asked_for: bool = False
    stepped_at: float | None = None
    longest_s: float | None = None
    """Of the steps that came since somebody asked."""
    facts: Facts | None = None
    labels: dict[str, str] | None = None
    before: dict[str, str] = field(default_factory=dict)  # the labels of what was told before
    """What the facts come to; None: not judged yet."""

    def take(self, told: Told, now: float) -> None:
        """The next datagram."""
        if told.steps > (self.latest.steps if self.stepped_at is not None else 0):
            self.stepped_at = now
        if told.step_max_s is not None and told.timed:
            self.longest_s = max(told.step_max_s, self.longest_s or 0.0)
        if told.described is not None and told.described != self.facts:
            self.facts, self.labels, self.before = told.described, None, self.labels or self.before
        self.latest, self.at = told, now


class Reports:
    """Receives in the running event loop from the first `attach` on; `of` gives a process's readings.

    `paths` are the places where the socket may stand, best first. Where none can be had it is said once and tried again.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.received = 0
        self.refused = 0
        self.trouble = ""
        """Why nobody can report; empty while the socket is open."""
        self._paths = paths
        self._socket: ReportSocket | None = None
        self._try_at = float("-inf")
        self._senders: dict[int, _Sender] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._second = 0.0
        self._left = RATE
        self._told_at = float("-inf")

    def attach(self) -> None:
        """Open the socket and begin to receive, where that is not done yet."""
        if self._socket is not None or (now := time.monotonic()) < self._try_at:
            return
        self._try_at = now + _TRY_S
        found = []
        for path in self._paths:
            try:
                self._socket = ReportSocket(path)
                break
            except ReportSocketError as error:
                found.append(str(error))
        if self._socket is not None:
            self.trouble = ""
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._socket.fileno(), self._readable, self._socket)
        elif self.trouble != (trouble := " ".join(found)):
            self.trouble = trouble
            log.warning("Training scripts cannot report their steps: %s", trouble)

    def close(self) -> None:
        """Stop, and remove the socket."""
        link, self._socket = self._socket, None
        if link is not None:
            if self._loop is not None:
                self._loop.remove_reader(link.fileno())
            link.close()
        self._try_at = float("inf")

    def of(self, pid: int, start: int, now: float) -> Answers:
        """Readings of the process that reported under this pid; empty where none did. `now` is a monotonic second."""
        sender = self._senders.get(pid)
        if sender is None:
            return {}
        if sender.start not in (None, start):  # the pid is another's now; what came since may still be the first one's
            del self._senders[pid]
            return {}
        sender.start, sender.is_asked_for = start, True
        told, base = sender.latest, sender.base
        if base is None or told.steps != base.steps:
            sender.means = step_report.means(base, told)
            sender.means["step_time_max_s"] = "not_found" if sender.longest_s is None else sender.longest_s
            sender.base, sender.longest_s = told, None
        step_s = sender.means.get("step_time_s")
        hold = HOLD_STEPS * step_s if isinstance(step_s, float) else HOLD_MIN_S
        found = step_report.lasting(told, max(0.0, now - sender.at))
        if sender.stepped_at is None:
            return found
        since_step_s = max(0.0, now - sender.stepped_at)
        found["since_step_s"] = round(since_step_s, 1)
        if since_step_s <= min(HOLD_MAX_S, max(HOLD_MIN_S, hold)):
            found |= sender.means | step_report.passing(told)
        return found

    def labels(self, pid: int, user: str) -> dict[str, str]:
        """What the process that reported under this pid says of its run, as labels; `of` was asked for it before."""
        sender = self._senders.get(pid)
        if sender is None or sender.facts is None:
            return {}
        if sender.labels is None:
            sender.labels = described.labels(sender.facts, user, sender.before)
        return sender.labels

    def _readable(self, link: ReportSocket) -> None:
        now = time.monotonic()
        if now - self._second >= 1:
            self._second, self._left = now, RATE
        for _ in range(BURST):
            if self._left <= 0:
                self._pause(link, now)
                return
            try:
                pid, data = link.receive()
            except BlockingIOError:
                return
            except OSError as error:
                self.close()
                self._try_at = now + _TRY_S
                self._tell(now, f"the socket cannot be read: {error.strerror or error}")
                return
            self._left -= 1
            self._take(pid, data, now)

    def _pause(self, link: ReportSocket, now: float) -> None:
        """Leave the socket alone until this second is over."""
        if self._loop is not None:
            self._loop.remove_reader(link.fileno())
            self._loop.call_later(max(0.0, self._second + 1 - now), self._resume, link)
            self._tell(now, f"more than {RATE} datagrams a second came")

    def _resume(self, link: ReportSocket) -> None:
        if self._loop is not None and self._socket is link:
            self._loop.add_reader(link.fileno(), self._readable, link)

    def _take(self, pid: int, data: bytes | None, now: float) -> None:
        self.received += 1
        try:
            if pid <= 0:
                raise ValueError("its sender is in another pid namespace")
            if data is None:
                raise ValueError("it is too long")
            told = step_report.decode(data)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            self.refused += 1
            self._tell(now, f"a datagram of process {pid} was refused: {str(error)[:100]}")
            return
        before = self._senders.pop(pid, None)
        if before is None and len(self._senders) >= MAX_SENDERS:
            senders = self._senders.items()  # the one that was silent longest first
            forgotten = next((one for one, sender in senders if not sender.is_asked_for or now - sender.at > HOLD_MAX_S), None)
            if forgotten is None:
                self.refused += 1
                return
            del self._senders[forgotten]
        if before is None or told.steps < before.latest.steps:  # begun anew, by another process or by the same one
            before = _Sender(told, now)
        before.take(told, now)
        self._senders[pid] = before

    def _tell(self, now: float, what: str) -> None:
        """One line now and then, however many there are."""
        if now - self._told_at >= _TELL_S:
            self._told_at = now
            log.warning("Reports of training scripts: %s; %d of %d were refused so far.", what, self.refused, self.received)


def listening(config: AgentConfig) -> Reports:
    """Reports at the place that the settings name, or at the usual ones."""
    return Reports(places() if config.report_socket is None else (config.report_socket,))


@contextmanager
def private() -> Iterator[Reports | None]:
    """Reports of the programs that this one starts meanwhile; None where they report to an agent already. Needs a running loop."""
    if PLACE in os.environ:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="fettle-") as folder:
        found = Reports((Path(folder) / "report.sock",))
        os.environ[PLACE] = f"{folder}/report.sock"
        try:
            found.attach()
            yield found
        finally:
            del os.environ[PLACE]
            found.close()
