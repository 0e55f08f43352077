"""Which reasons of serving engines the server has been told, so that each travels once and again when it changes."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import structs

from agents.source import ENGINE
from wire.messages import EngineAbsence, Engines

CALM_S: Final = 15.0
"""An engine with few requests has means in one round and none in the next: its metrics' reasons are told at most as often."""
_NOT_ASKED: Final = "no_previous"

_Reasons = tuple[str | None, dict[str, str]]


class ToldEngines:
    """What was told of each engine that is still there."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[str, tuple[_Reasons, float]] = {}

    def news(self, engines: Engines, reasons: Sequence[Sequence[str | None]]) -> Engines:
        """`engines` with the reasons that are new or changed; `reasons[e][m]` says why metric m of engine e has no value."""
        now = self._clock()
        for name in self._told.keys() - set(engines.name):
            del self._told[name]
        news: list[EngineAbsence] = []
        for name, why in zip(engines.name, reasons, strict=False):  # a recording has engines and no reasons
            found = _reasons(why)
            before = self._told.get(name)
            if found[0] == _NOT_ASKED or (before is not None and before[0] == found):
                continue
            if before is not None and before[0][0] == found[0] and now - before[1] < CALM_S:
                continue
            self._told[name] = (found, now)
            news.append(EngineAbsence(name, *found))
        return structs.replace(engines, absent=news) if news else engines

    def reset(self) -> None:
        """Tell everything again from the next tick on: what was told may not have arrived."""
        self._told = {}


def _reasons(why: Sequence[str | None]) -> _Reasons:
    """The reason of all of them, where they have one; else each metric's that has one."""
    if why and why[0] is not None and all(reason == why[0] for reason in why):
        return why[0], {}
    return None, {metric: reason for metric, reason in zip(ENGINE, why, strict=True) if reason is not None}
