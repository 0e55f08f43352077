"""The serving engines of the node: asked every few seconds, each in a thread of its own, told with every tick.

Between two answers the last readings stand, for as long as they are young; an engine that does not answer keeps its row
with every reading absent. Engines are configured, or found by their command lines.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from agents.asked_engine import WIDTH, Asked, name
from agents.config import AgentConfig
from agents.device import DeviceEvent
from agents.engine_metrics import KINDS
from agents.engine_search import Found, Search
from agents.room import Room
from agents.scrape import Target, target
from agents.source import metric_major
from agents.worker import Worker
from wire.messages import Cell, Engines

log = logging.getLogger(__name__)

PERIOD_S: Final = 5.0
MAX_AGE_S: Final = 15.0
"""Readings older than this say nothing of now."""
MAX_ENGINES: Final = 32
_ROOM: Final = (12_000_000, 8_000_000)
"""Bytes of memory for what all engines answer, and for one of them; one of 16 replicas takes 6 MB while it is read, and 3 MB after."""


class EngineRows(Struct):
    """One tick of all engines; `reasons[e][m]` for people, values None where they say why."""

    engines: Engines
    reasons: list[list[str | None]]


class EngineCollector:
    """All engines of the node. `configured`: `KIND=URL` each; `search` None: no others are looked for."""

    def __init__(self, configured: Sequence[str] = (), search: Search | None = None, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._search = search
        self._taken: list[Found] | None = None
        self._searcher = Worker("engine-search")
        self._asked: dict[str, Asked] = {}
        self._room = Room(*_ROOM)
        self._gave_up: dict[str, float] = {}  # by name, when an engine lost its place to others
        self._left_out: list[str] = []
        self._said = False
        self._happened: deque[DeviceEvent] = deque(maxlen=1000)
        for one in configured:
            kind, _, url = one.partition("=")
            self._add(Found(kind, _targets(kind, url), None))
        self._never = tuple(self._left_out)  # configured ones give up their place to nobody
        self._say()

    @property
    def trouble(self) -> str:
        """Which engines are not asked because there are too many; empty where all are."""
        if not self._left_out:
            return ""
        some = ", ".join(self._left_out[:3]) + (", ..." if len(self._left_out) > 3 else "")
        return (
            f"an agent asks {MAX_ENGINES} serving engines, and {len(self._left_out)} more are left out now ({some}); those that were found and do"
            " not answer give up their place in turn"
        )

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
                    self._drop(asked)
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
        rows.engines.values.extend(metric_major(values, WIDTH) if values else [])
        return rows

    def close(self) -> None:
        """Let the threads end; does not wait for them."""
        self._searcher.close()
        for asked in self._asked.values():
            asked.worker.close()

    def _row(self, asked: Asked, now: float) -> tuple[list[Cell], list[str | None]]:
        if asked.error is not None:
            return [None] * WIDTH, [asked.error.reason] * WIDTH
        if asked.at == float("-inf"):
            return [None] * WIDTH, ["no_previous"] * WIDTH
        if now - asked.at > MAX_AGE_S:
            return [None] * WIDTH, ["timeout"] * WIDTH
        return list(asked.values), list(asked.reasons)

    def _look(self, now: float) -> None:
        """Take what the last search found and begin another when one is due."""
        if self._search is None or self._searcher.busy:
            return
        if self._search.found is not self._taken:
            self._taken = self._search.found
            self._place(self._taken, now)
        if self._search.is_due(now):
            self._searcher.start(self._search.run, _nothing)

    def _place(self, found: Sequence[Found], now: float) -> None:
        """Ask what was found; where there are too many, those that do not answer make room, whoever waits longest first."""
        waiting = []
        for one in found:
            known = self._asked.get(name(one.kind, one.targets[0]))
            if known is None:
                waiting.append(one)
            elif known.kind == one.kind:
                known.pid = one.pid
        names = {one: name(one.kind, one.targets[0]) for one in waiting}
        waiting.sort(key=lambda one: self._gave_up.get(names[one], float("-inf")))
        silent = [asked for asked in self._asked.values() if self._is_silent(asked, now)]
        self._left_out = list(self._never)
        for one in waiting:
            if len(self._asked) >= MAX_ENGINES and silent:
                gone = silent.pop(0)  # the one that was given its place first
                self._drop(gone)
                self._left_out.append(gone.name)
                self._gave_up[gone.name] = now
            self._add(one)
        here = {*names.values(), *self._left_out}
        self._gave_up = {one: at for one, at in self._gave_up.items() if one in here}
        self._say()

    def _is_silent(self, asked: Asked, now: float) -> bool:
        """True for a found engine that does not answer, and has had the time to."""
        return not (asked.is_configured or asked.worker.busy or asked.error is None) and now - asked.at > MAX_AGE_S

    def _add(self, found: Found) -> None:
        asked = Asked(found.kind, found.targets, found.pid, found.pid is None, self._room)
        if len(self._asked) < MAX_ENGINES:
            self._asked[asked.name] = asked
        elif asked.name not in self._left_out:
            self._left_out.append(asked.name)

    def _drop(self, asked: Asked) -> None:
        del self._asked[asked.name]
        asked.close()

    def _say(self) -> None:
        """Log that engines are left out, once."""
        if bool(self._left_out) != self._said:
            self._said = bool(self._left_out)
            if self._said:
                log.warning("Serving engines: %s.", self.trouble)

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
