"""One dcgm-exporter: asked in a thread of its own, every second while its answers change and more rarely while it repeats itself."""

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from agents.dcgm_readings import STALE_S, GpuAnswer, Habits, gpus
from agents.device import DeviceEvent
from agents.gpu_slot import MAX_GPUS
from agents.samples import Parser
from agents.scrape import DEADLINE_S, ScrapeError, Target, fetch
from wire.dcgm_fields import STARTS

log = logging.getLogger(__name__)

PERIOD_S: Final = 1.0
PERIOD_MAX_S: Final = 5.0
"""An exporter renews its values every 30 s by default: asking it again at once brings the same bytes."""


_REMEMBERED: Final = 2 * MAX_GPUS
"""GPUs that are gone are known again when they come back, so many of them."""


class TooManyGpusError(ScrapeError):
    """The exporter names more GPUs than a node has."""


@dataclass(slots=True)
class Memory:
    """What is known of an exporter over openings of the driver: one that stood still before is not live for being asked anew."""

    habits: Habits = field(default_factory=Habits)
    xids: dict[str, int] = field(default_factory=dict)
    changed: dict[str, tuple[tuple[object, ...], float]] = field(default_factory=dict)
    """By UUID: what the GPU's readings look like, and since which monotonic second."""

    is_silent: bool = False
    """It was told that it does not answer."""

    is_broken: bool = False
    """It was logged that its answer meets a defect."""

    def forget(self, told: Collection[str]) -> None:
        """Drop the oldest of the GPUs that are not told of any more, where there are too many."""
        for known in (self.changed, self.xids):
            gone = [uuid for uuid in known if uuid not in told]
            for uuid in gone[: max(0, len(known) - _REMEMBERED)]:
                del known[uuid]


class Endpoint:
    """One exporter. `gpus` is what it said last, `at` the monotonic second of its last answer, `error` why there is none.

    `tell` takes what happened.
    """

    def __init__(
        self, where: Target, tell: Callable[[DeviceEvent], None], memory: Memory, deadline_s: float = DEADLINE_S
    ) -> None:
        self.where = where
        self.gpus: dict[str, GpuAnswer] = {}
        self.at = float("-inf")
        self.error: ScrapeError | None = None
        self.habits = memory.habits
        self._memory = memory
        self.tell = tell
        self._deadline_s = deadline_s
        self._body = b""
        self._has_times = False
        self._parser = Parser(STARTS)
        self._bad_lines = 0
        self._period = PERIOD_S
        self._stop = threading.Event()

    def start(self) -> None:
        """Ask now and then until `stop`."""
        threading.Thread(target=self._run, name=f"dcgm-{self.where.origin}", daemon=True).start()

    def stop(self) -> None:
        """Ask no more."""
        self._stop.set()

    def ask(self) -> None:
        """One scrape; a failure is kept in `error`. Never raises."""
        try:
            body = fetch(self.where, self._deadline_s)
            if body != self._body or self._has_times:  # what has a time of its own ages though it stays the same
                self._take(body)
                self._period = PERIOD_S
            else:
                self._period = min(PERIOD_MAX_S, self._period * 2)
        except ScrapeError as error:
            self.error = error
            return
        except Exception:
            if not self._memory.is_broken:
                log.exception("The answer of %s could not be read, which is a defect", self.where.url)
            self._memory.is_broken = True
            self.error = ScrapeError("driver_error", f"The answer of {self.where.url} could not be read.")
            return
        self.at, self.error, self._memory.is_broken = time.monotonic(), None, False

    def tell_silence(self) -> None:
        """Tell that it does not answer, once, and that it does again; its neighbours may tell of the same GPUs."""
        if (self.error is not None) == self._memory.is_silent:
            return
        self._memory.is_silent = self.error is not None
        text = f"{self.where.url} answers again." if self.error is None else f"A dcgm-exporter is not read: {self.error}"
        self.tell(DeviceEvent("driver", None, None, text))

    def is_frozen(self, uuid: str, now: float) -> bool:
        """True for a GPU whose every reading, power among them, has stood still for longer than any live one's would."""
        before = self._memory.changed.get(uuid)
        return before is not None and before[0] != () and now - before[1] > STALE_S

    def _take(self, body: bytes) -> None:
        parsed = self._parser.read(body)
        self._has_times = any(sample.at is not None for sample in parsed.samples)
        if parsed.bad_lines and not self._bad_lines:
            log.warning("%s answers with %d lines that are no samples; they are left out.", self.where.url, parsed.bad_lines)
        self._bad_lines = parsed.bad_lines
        answers = gpus(parsed.samples, time.time())
        if len(answers) > MAX_GPUS:
            raise TooManyGpusError("out_of_range", f"dcgm-exporter names more than {MAX_GPUS} GPUs, which are not read")
        now = time.monotonic()
        for uuid, gpu in answers.items():
            fingerprint = gpu.fingerprint
            before = self._memory.changed.get(uuid)
            if before is None or before[0] != fingerprint:
                self._memory.changed[uuid] = (fingerprint, now)
            self._watch_xid(gpu)
        self._memory.forget(answers)
        self.gpus, self._body = answers, body

    def _watch_xid(self, gpu: GpuAnswer) -> None:
        """The exporter shows the last code for ever: another one is an event, the one that was there at first is not."""
        code = gpu.xid
        if code is None:
            return
        before = self._memory.xids.get(gpu.uuid)
        self._memory.xids[gpu.uuid] = code
        if before is not None and code != before and code != 0:
            self.tell(DeviceEvent("xid", gpu.uuid, code, f"XID {code}"))

    def _run(self) -> None:
        while not self._stop.wait(self._period):
            failed = self.error is not None
            self.ask()
            if self.error is not None and not failed:
                log.warning("%s The readings that it brings are absent until it answers.", self.error)
            elif self.error is None and failed:
                log.info("%s answers again.", self.where.url)
