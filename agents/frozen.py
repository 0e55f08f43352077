"""Readings that stand still though they cannot: a driver that goes on answering with what it knew some time ago.

Two groups are judged, each by itself: what the driver reads from the card, and the profiling metrics. Unchanging readings
alone prove nothing: clocks, utilisation and memory of an idle card stand still for minutes. What proves it:

- a card that draws power and has an energy counter: the counter must rise, whatever the card does;
- a card without one: only while it says that it works, since at rest nothing of it need move;
- profiling metrics: a share between 0 and 1, or traffic, that is the same to the last bit.

An idle H200, read for 200 s (tests/device_answers/h200-idle-200s.jsonl.gz): power, its instant value and PCIe traffic were
never the same in two readings, nor was energy. Memory, clocks, utilisation and all other profiling metrics never moved.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from wire.messages import Cell
from wire.metrics import Gpm, Metric, sent

FROZEN_S: Final = 180.0
"""Energy is read three times in it, and a dcgm-exporter that asks its cards once a minute tells three times."""
FROZEN_SAMPLES: Final = 10
"""An agent that reads rarely waits for as many."""
_GPU: Final[tuple[Metric, ...]] = tuple(sent("gpu"))
_AT: Final = {metric.name: position for position, metric in enumerate(_GPU)}
_ENERGY, _POWER, _UTILISATION = (_AT[name] for name in ("energy_j_total", "power_w", "gpu_util_pct"))


class Group(NamedTuple):
    """Readings that come from one place and freeze together."""

    name: str  # as an event calls them
    positions: tuple[int, ...]
    """What moves most stands first: it is nearly always all that is looked at."""
    must_move: Callable[[Sequence[Cell]], bool]
    """True where a row of all metrics cannot be followed by the same readings for FROZEN_S."""


def _card_must_move(row: Sequence[Cell]) -> bool:
    power, energy, working = row[_POWER], row[_ENERGY], row[_UTILISATION]
    if not power:  # none, or the 0 W of a card that does not measure it: what is left may stand still under an even load
        return False
    return bool(energy) or bool(working)


def _profile_must_move(row: Sequence[Cell]) -> bool:
    return any((row[at] or 0) > 0 and (_GPU[at].unit != "ratio" or row[at] != 1) for at in _PROFILE)


_PROFILE: Final = tuple(at for at, metric in enumerate(_GPU) if isinstance(metric.source, Gpm))
_LIVELY: Final = tuple(_AT[name] for name in ("power_w", "power_instant_w", "pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s"))
_CARD: Final = tuple(
    at
    for at, metric in enumerate(_GPU)
    if at not in _PROFILE and (metric.cadence == "fast" or at == _ENERGY) and metric.source is not None
)


def _lively_first(positions: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(positions, key=lambda at: (at not in _LIVELY, at)))


GROUPS: Final = (
    Group("readings", _lively_first(_CARD), _card_must_move),
    Group("profiling counters", _lively_first(_PROFILE), _profile_must_move),
)


class Standstill:
    """Whether one group of one GPU has stood still for too long."""

    def __init__(self, group: Group, after_s: float = FROZEN_S) -> None:
        self.group = group
        self.is_frozen = False
        self._after_s = after_s
        self._last: tuple[Cell, ...] = ()  # the whole row that moved last
        self._since = 0.0
        self._samples = 0

    def look(self, row: Sequence[Cell], now: float) -> bool:
        """Take in a row of all GPU metrics read at monotonic second `now`; True where `is_frozen` changed."""
        was = self.is_frozen
        if self._moved(row) or not self.group.must_move(row):
            self._last, self._since, self._samples, self.is_frozen = tuple(row), now, 1, False
        else:
            self._samples += 1
            self.is_frozen = now - self._since >= self._after_s and self._samples >= FROZEN_SAMPLES
        return self.is_frozen != was

    def _moved(self, row: Sequence[Cell]) -> bool:
        last = self._last
        if not last:
            return True
        for at in self.group.positions:  # noqa: SIM110 - any() would make a generator each second
            if row[at] != last[at]:
                return True
        return False

    def withdraw(self, values: list[Cell], reasons: list[str | None]) -> None:
        """Make the group's values of a row absent; what is absent keeps its own reason."""
        for at in self.group.positions:
            if values[at] is not None:
                values[at], reasons[at] = None, "frozen"
