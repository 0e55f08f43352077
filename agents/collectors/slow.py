"""Host readings that may take long or hang: read now and then in a thread of their own, with a deadline."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from agents.collectors import procfs
from agents.device import SLOW_S
from agents.worker import Worker
from wire.metrics import Number

log = logging.getLogger(__name__)

DEADLINE_S: Final = 5.0
"""A reading that takes longer is told as `timeout`; it may go on, and nothing else waits for it."""
FIRST_S: Final = 0.05
"""How long the very first reading is waited for: with luck the first tick has it."""


_told: Final[set[type]] = set()
"""Readers whose defect was logged."""


class Reader(Protocol):
    """What `Slow` reads."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the registry, scope `host`."""

    def read(self) -> Mapping[str, Number | str]:
        """A number or a reason for each name; one left out is `unsupported`. OSError, ValueError: none can be read now."""

    def close(self) -> None:
        """Close the files."""


class Slow:
    """Another reader's answers, at most `every_s` and one reading old; the tick never waits for them."""

    def __init__(self, reader: Reader, every_s: float = SLOW_S, clock: Callable[[], float] = time.monotonic) -> None:
        self.names = reader.names
        self._reader = reader
        self._every_s = every_s
        self._clock = clock
        self._worker = Worker(f"host-{type(reader).__name__.lower()}")
        self._answers: Mapping[str, Number | str] = dict.fromkeys(self.names, "no_previous")
        self._began: float | None = None
        self._closed = False

    def read(self) -> Mapping[str, Number | str]:
        """The last answers; `timeout` for all while a reading does not come back."""
        now = self._clock()
        if self._worker.busy:
            late = self._began is not None and now - self._began > DEADLINE_S
            return dict.fromkeys(self.names, "timeout") if late else self._answers
        if self._began is None or now - self._began >= self._every_s:
            first, self._began = self._began is None, now
            done = threading.Event()
            self._worker.start(self._job, done.set)
            if first:
                done.wait(FIRST_S)
        return self._answers

    def close(self) -> None:
        """Let the thread end; one that hangs is left to the exit, and its files with it."""
        self._closed = True
        if not self._worker.busy:
            self._reader.close()
        self._worker.close()

    def _job(self) -> None:
        self._answers = answers_of(self._reader)
        if self._closed:
            self._reader.close()


def answers_of(reader: Reader) -> Mapping[str, Number | str]:
    """What the reader answers; where it can answer nothing, the reason for all its names."""
    try:
        return reader.read()
    except OSError as error:
        reason = procfs.reason(error)
        # a file of /proc or /sys that this kernel does not have is `unsupported`, not `not_found`
        return dict.fromkeys(reader.names, "unsupported" if reason == "not_found" else reason)
    except (ValueError, IndexError):  # the kernel's text is not as it is known
        return dict.fromkeys(reader.names, "not_a_number")
    except Exception:  # likewise, and nobody thought of it: the readers beside it go on
        if type(reader) not in _told:
            _told.add(type(reader))
            log.exception("%s could not be read, which is a defect; it is tried again", ", ".join(reader.names[:3]))
        return dict.fromkeys(reader.names, "not_a_number")
