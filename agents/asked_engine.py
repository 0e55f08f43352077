"""One serving engine: where it is asked, what it answered last, and what that takes in memory."""

import logging
import re
import time
from collections.abc import Sequence
from typing import Final

from agents.engine_metrics import KINDS
from agents.engine_readings import ENGINE_METRICS, Answer, answer, is_of, model, readings
from agents.room import Holding, Room
from agents.samples import Parser
from agents.scrape import DEADLINE_S, ScrapeError, Target, fetch, hold
from agents.worker import Worker
from wire.messages import Cell

log = logging.getLogger(__name__)

GAP_S: Final = 60.0
"""Answers further apart than this make no mean: it would be of another time."""
_SERIES_BYTES: Final = 200
_LABEL_BYTES: Final = 64
"""What a series of the last answer takes, and each of its labels; the words are those that its parser keeps."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9._~%/+:,;=\[\]-]{1,200}")
"""An address that the server takes as a name; another one is told without its path."""
WIDTH: Final = len(ENGINE_METRICS)


def name(kind: str, where: Target) -> str:
    """What an engine is called: `http://127.0.0.1:8000`, with its path where that is not the usual one."""
    usual = where.path in ("/metrics", *KINDS[kind].paths)
    return where.url if not usual and _PLAIN.fullmatch(where.url) else where.origin


class Asked:
    """One engine. `values` and `reasons` are its last answer's, or why there is none."""

    def __init__(self, kind: str, targets: Sequence[Target], pid: int | None, is_configured: bool, room: Room) -> None:
        self.kind = kind
        self.targets = tuple(targets)
        self.pid = pid
        self.is_configured = is_configured
        self.worker = Worker(f"engine-{targets[0].origin}")
        self.error: ScrapeError | None = None
        self.model = ""
        self.values: list[Cell] = [None] * WIDTH
        self.reasons: list[str | None] = ["no_previous"] * WIDTH
        self.at = float("-inf")
        self.due = float("-inf")
        self.told_error = False
        self._parser = Parser(KINDS[kind].starts)
        self._before: Answer | None = None
        self._before_bytes = 0
        self._is_broken = False
        self._holding = Holding(room)

    @property
    def name(self) -> str:
        """Where it is asked."""
        return name(self.kind, self.targets[0])

    def ask(self, now: float) -> None:
        """Ask it once, at monotonic second `now`; never raises."""
        try:
            self._take(self._answer(now))
        except ScrapeError as error:
            self.error = error
            if error.reason == "out_of_range":  # whoever answers with too much is not given more for it
                self._forget()
        except Exception:
            if not self._is_broken:
                log.exception("The answer of %s could not be read, which is a defect", self.name)
            self._is_broken = True
            self.error = ScrapeError("driver_error", f"The answer of {self.name} could not be read.")
        self._holding.shrink(self._parser.kept + self._before_bytes)

    def close(self) -> None:
        """Let its thread end, and give back what it holds; not while it is asked."""
        self.worker.close()
        self._forget()
        self._holding.shrink(0)

    def _answer(self, now: float) -> Answer:
        """Its answer under the first path that has one."""
        kind = KINDS[self.kind]
        error = None
        ends = time.monotonic() + DEADLINE_S
        for where in self.targets:
            try:
                body = fetch(where, max(0.1, ends - time.monotonic()), holding=self._holding)
                found = answer(self._parser.read(body, self._holding).samples, now)
            except ScrapeError as failed:
                if failed.reason != "not_found" or len(self.targets) == 1:
                    raise
                error = failed
                continue
            if is_of(kind, found):
                self.targets = (where,)
                return found
            hint = " (start it with --enable-metrics)" if self.kind == "sglang" else ""
            error = ScrapeError("unsupported", f"{where.url} answers without any metric of {self.kind}{hint}.")
        raise error or ScrapeError("not_found", f"Nobody listens at {self.name}.")

    def _take(self, now: Answer) -> None:
        size = sum(_SERIES_BYTES + _LABEL_BYTES * len(key) for told in now.samples.values() for key in told)
        hold(self._holding, size)
        before = self._before if self._before is not None and now.t - self._before.t <= GAP_S else None
        self.values, self.reasons = readings(KINDS[self.kind], before, now)
        self.model = model(KINDS[self.kind], now) or self.model
        self._before, self._before_bytes, self.at, self.error = now, size, now.t, None
        self._is_broken = False

    def _forget(self) -> None:
        self._parser.forget()
        self._before, self._before_bytes = None, 0
