"""The serving engines of the node: asked every few seconds, each in a thread of its own, told with every tick.

Between two answers the last readings stand, for as long as they are young; an engine that does not answer keeps its row
with every reading absent. Engines are configured, or found by their command lines.
"""

import logging
import os
import re
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from agents.config import AgentConfig
from agents.device import DeviceEvent
from agents.engine_metrics import KINDS
from agents.engine_readings import ENGINE_METRICS, Answer, answer, is_of, model, readings
from agents.engine_search import Found, Search
from agents.samples import Parser
from agents.scrape import DEADLINE_S, ScrapeError, Target, fetch, target
from agents.source import metric_major
from agents.worker import Worker
from wire.messages import Cell, Engines

log = logging.getLogger(__name__)

PERIOD_S: Final = 5.0
MAX_AGE_S: Final = 15.0
"""Readings older than this say nothing of now."""
GAP_S: Final = 60.0
"""Answers further apart than this make no mean: it would be of another time."""
MAX_ENGINES: Final = 32
_PLAIN: Final = re.compile(r"[A-Za-z0-9._~%/+:,;=\[\]-]{1,200}")
"""An address that the server takes as a name; another one is told without its path."""
_WIDTH: Final = len(ENGINE_METRICS)


class EngineRows(Struct):
    """One tick of all engines; `reasons[e][m]` for people, values None where they say why."""

    engines: Engines
    reasons: list[list[str | None]]


class Asked:
    """One engine. `values` and `reasons` are its last answer's, or why there is none."""

    def __init__(self, kind: str, targets: Sequence[Target], pid: int | None, is_configured: bool) -> None:
        self.kind = kind
        self.targets = tuple(targets)
        self.pid = pid
        self.is_configured = is_configured
        self.worker = Worker(f"engine-{targets[0].origin}")
        self.error: ScrapeError | None = None
        self.model = ""
        self.values: list[Cell] = [None] * _WIDTH
        self.reasons: list[str | None] = ["no_previous"] * _WIDTH
        self.at = float("-inf")
        self.due = float("-inf")
        self.told_error = False
        self._parser = Parser(KINDS[kind].starts)
        self._before: Answer | None = None

    @property
    def name(self) -> str:
        """Where it is asked: `http://127.0.0.1:8000`, with its path where that is not the usual one."""
        where = self.targets[0]
        usual = where.path in ("/metrics", *KINDS[self.kind].paths)
        return where.url if not usual and _PLAIN.fullmatch(where.url) else where.origin

    def ask(self, now: float) -> None:
        """Ask it once, at monotonic second `now`; never raises."""
        try:
            self._take(self._answer(now))
        except ScrapeError as error:
            self.error = error
        except Exception:
            log.exception("The answer of %s could not be read", self.name)
            self.error = ScrapeError("driver_error", f"The answer of {self.name} could not be read.")

    def _answer(self, now: float) -> Answer:
        """Its answer under the first path that has one."""
        kind = KINDS[self.kind]
        error = None
        for where in self.targets:
            try:
                found = answer(self._parser.read(fetch(where, DEADLINE_S)).samples, now)
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
        before = self._before if self._before is not None and now.t - self._before.t <= GAP_S else None
        self.values, self.reasons = readings(KINDS[self.kind], before, now)
        self.model = model(KINDS[self.kind], now) or self.model
        self._before, self.at, self.error = now, now.t, None


class EngineCollector:
    """All engines of the node. `configured`: `KIND=URL` each; `search` None: no others are looked for."""

    def __init__(self, configured: Sequence[str] = (), search: Search | None = None, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._search = search
        self._taken: list[Found] | None = None
        self._searcher = Worker("engine-search")
        self._asked: dict[str, Asked] = {}
        self._happened: deque[DeviceEvent] = deque(maxlen=1000)
        for one in configured:
            kind, _, url = one.partition("=")
            self._add(Asked(kind, _targets(kind, url), None, is_configured=True))

    @property
    def is_busy(self) -> bool:
        """True while a search or an engine is being asked."""
        return self._searcher.busy or any(asked.worker.busy for asked in self._asked.values())

    def notify(self, on_event: Callable[[], None]) -> None:
        """Events are found while a tick is taken, and told with it: there is nothing to wake anybody for."""

    def events(self) -> list[DeviceEvent]:
        """Which engines ceased to answer or answer again since the call before."""
        happened = []
        while self._happened:
            happened.append(self._happened.popleft())
        return happened

    def collect(self, now: float) -> EngineRows:
        """What is known at monotonic second `now`, and whatever is due is begun; waits for nothing."""
        self._look(now)
        rows = EngineRows(Engines(), [])
        values: list[list[Cell]] = []
        for asked in list(self._asked.values()):
            if not asked.worker.busy:
                if self._is_over(asked):
                    del self._asked[asked.name]
                    asked.worker.close()
                    continue
                self._tell(asked)
                if now >= asked.due:
                    asked.due = now + PERIOD_S
                    asked.worker.start(partial(asked.ask, now), _nothing)
            cells, reasons = self._row(asked, now)
            rows.engines.name.append(asked.name)
            rows.engines.kind.append(asked.kind)
            rows.engines.model.append(asked.model)
            rows.engines.pid.append(asked.pid)
            values.append(cells)
            rows.reasons.append(reasons)
        rows.engines.values.extend(metric_major(values, _WIDTH) if values else [])
        return rows

    def close(self) -> None:
        """Let the threads end; does not wait for them."""
        self._searcher.close()
        for asked in self._asked.values():
            asked.worker.close()

    def _row(self, asked: Asked, now: float) -> tuple[list[Cell], list[str | None]]:
        if asked.error is not None:
            return [None] * _WIDTH, [asked.error.reason] * _WIDTH
        if asked.at == float("-inf"):
            return [None] * _WIDTH, ["no_previous"] * _WIDTH
        if now - asked.at > MAX_AGE_S:
            return [None] * _WIDTH, ["timeout"] * _WIDTH
        return list(asked.values), list(asked.reasons)

    def _look(self, now: float) -> None:
        """Take what the last search found and begin another when one is due."""
        if self._search is None or self._searcher.busy:
            return
        if self._search.found is not self._taken:
            self._taken = self._search.found
            for found in self._taken:
                asked = Asked(found.kind, found.targets, found.pid, is_configured=False)
                known = self._asked.get(asked.name)
                if known is None:
                    self._add(asked)
                elif known.kind == found.kind:
                    known.pid = found.pid
        if self._search.is_due(now):
            self._searcher.start(self._search.run, _nothing)

    def _add(self, asked: Asked) -> None:
        if len(self._asked) < MAX_ENGINES:
            self._asked[asked.name] = asked

    def _is_over(self, asked: Asked) -> bool:
        """True for a found engine whose process has ended."""
        if asked.is_configured or asked.error is None or asked.pid is None:
            return False
        return not os.path.exists(self._proc / str(asked.pid))

    def _tell(self, asked: Asked) -> None:
        """Tell of a change, once. An engine that never answered yet may still be loading its model: that is worth a line, no event."""
        failed = asked.error is not None
        if failed == asked.told_error:
            return
        asked.told_error = failed
        if asked.error is not None:
            log.info("The %s engine is not read: %s", asked.kind, asked.error)
            if asked.at > float("-inf"):
                self._happened.append(DeviceEvent("agent", None, None, f"The {asked.kind} engine is not read: {asked.error}"))
        else:
            log.info("The %s engine at %s answers.", asked.kind, asked.name)
            self._happened.append(DeviceEvent("agent", None, None, f"The {asked.kind} engine at {asked.name} answers."))


def of(config: AgentConfig) -> EngineCollector:
    """The collector that the settings describe."""
    search = Search(config.proc) if config.find_engines else None
    return EngineCollector(config.engines, search, config.proc)


def _targets(kind: str, url: str) -> tuple[Target, ...]:
    """The endpoints that a configured address stands for: the usual paths where it names none."""
    bare = target(url, path="")
    if bare.path.partition("?")[0]:
        return (target(url),)
    return tuple(target(url, path=path) for path in KINDS[kind].paths)


def _nothing() -> None:
    pass
