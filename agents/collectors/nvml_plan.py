"""What is asked of one GPU, sorted by cadence and kind of source, but for what it is known not to answer."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from agents.device import FieldId
from wire.metrics import Cadence, Gpm, Metric, Nvml, NvmlField, NvmlLinks, sent

GPU_METRICS: Final[tuple[Metric, ...]] = tuple(sent("gpu"))
_OTHERWISE: Final = "/otherwise"
_CADENCES: Final[tuple[Cadence, ...]] = ("fast", "slow", "rare", "static")
Ask = Callable[[], Any]
"""Asks one question of the device, ready made: its answer, or DeviceError."""


@dataclass(slots=True)
class Part:
    """Where one answer goes: the metric's position, the member that holds it, its scale, and what is plainly a reading of it."""

    position: int
    member: str | int | None
    scale: float
    low: float
    high: float
    whole: bool


@dataclass(slots=True)
class Call:
    """One NVML call and all the metrics that it answers."""

    ask: Ask
    parts: list[Part]


Entry = tuple[FieldId, Part]


@dataclass(slots=True)
class Request:
    """Fields that are asked together. `ids` is the same object as long as they are the same."""

    entries: tuple[Entry, ...]
    ids: tuple[FieldId, ...]


def _part(position: int, scale: float = 1, member: str | int | None = None) -> Part:
    metric = GPU_METRICS[position]
    return Part(position, member, scale, metric.low, metric.high, metric.is_integer)


class Plan:
    """The questions that are left. `unsupported` is the device's own memory of what it cannot answer in its mode; it is added to.

    `asker` makes a question ready: the call's name, its arguments, the struct that it fills.
    """

    def __init__(self, unsupported: set[str], asker: Callable[[str, tuple[int | str, ...], str | None], Ask]) -> None:
        self.calls: dict[Cadence, list[Call]] = {cadence: [] for cadence in _CADENCES}
        self._fields: dict[Cadence, list[Entry]] = {cadence: [] for cadence in _CADENCES}
        self._requests: dict[tuple[Cadence, ...], Request] = {}
        self.links: list[tuple[str, Part]] = []
        self.gpm: list[tuple[int, Part]] = []
        self.gpm_ids: tuple[int, ...] = ()
        """The same object as long as the metrics are the same."""
        self._unsupported = unsupported
        self._retired: list[str] = []  # since `begin`
        calls: dict[tuple[object, ...], Call] = {}
        for position, metric in enumerate(GPU_METRICS):
            source = metric.source
            if self.is_retired(position):
                continue
            if metric.name in unsupported and metric.otherwise is not None:
                self._add_field(position, metric.otherwise)
            elif isinstance(source, Nvml):
                key = (metric.cadence, source.call, source.args)
                if key not in calls:
                    calls[key] = Call(asker(source.call, source.args, source.struct), [])
                    self.calls[metric.cadence].append(calls[key])
                calls[key].parts.append(_part(position, source.scale, source.member))
            elif isinstance(source, NvmlField):
                self._add_field(position, source)
            elif isinstance(source, NvmlLinks):
                self.links.append((source.call, _part(position)))
            elif isinstance(source, Gpm):
                self.gpm.append((source.metric_id, _part(position, source.scale)))
        self._freeze()

    def begin(self) -> None:
        """A new tick: what is retired from now on may be taken back together."""
        self._retired.clear()

    def take_back(self) -> bool:
        """Forget what was retired since `begin`; False where that is nothing. The plan is to be made anew then."""
        self._unsupported.difference_update(self._retired)
        return bool(self._retired)

    def retire(self, position: int) -> None:
        """Remember that the device cannot answer; where another source may, that one is asked from the next reading on."""
        metric = GPU_METRICS[position]
        if metric.otherwise is None or metric.name in self._unsupported:
            self._remember(metric.name + _OTHERWISE if metric.otherwise else metric.name)
        else:
            self._remember(metric.name)
            self._add_field(position, metric.otherwise)

    def fields(self, due: tuple[Cadence, ...]) -> Request:
        """The fields of these cadences."""
        request = self._requests.get(due)
        if request is None:
            entries = tuple(entry for cadence in due for entry in self._fields[cadence])
            request = self._requests[due] = Request(entries, tuple(field for field, _ in entries))
        return request

    def retire_field(self, entry: Entry) -> list[Entry]:
        """Retire a field; those that stand in for it, to be asked in this reading still."""
        fields = self._fields[GPU_METRICS[entry[1].position].cadence]
        known = len(fields)
        self.retire(entry[1].position)
        stand_ins = fields[known:]
        fields.remove(entry)
        self._requests.clear()
        return stand_ins

    def drop_calls(self, cadence: Cadence) -> None:
        """Ask no more calls whose metric was retired."""
        left = self.calls[cadence]
        self.calls[cadence] = [call for call in left if GPU_METRICS[call.parts[0].position].name not in self._unsupported]

    def drop_gpm(self, positions: Iterable[int]) -> None:
        """Ask no more for these profiling metrics."""
        gone = set(positions)
        self.gpm = [entry for entry in self.gpm if entry[1].position not in gone]
        self._freeze()

    def is_retired(self, position: int) -> bool:
        """True where no source is left to ask."""
        metric = GPU_METRICS[position]
        return (metric.name + _OTHERWISE if metric.otherwise else metric.name) in self._unsupported

    def _add_field(self, position: int, source: NvmlField) -> None:
        field: FieldId = (source.field_id, source.scope) if source.scope else source.field_id
        self._fields[GPU_METRICS[position].cadence].append((field, _part(position, source.scale)))
        self._requests.clear()

    def _remember(self, name: str) -> None:
        self._unsupported.add(name)
        self._retired.append(name)

    def _freeze(self) -> None:
        self.gpm_ids = tuple(metric_id for metric_id, _ in self.gpm)
