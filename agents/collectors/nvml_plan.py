"""What is asked of one GPU, sorted by cadence and kind of source, but for what it is known not to answer."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from agents.device import FieldId
from wire.metrics import Gpm, Metric, Nvml, NvmlField, NvmlLinks, sent

GPU_METRICS: Final[tuple[Metric, ...]] = tuple(sent("gpu"))
_OTHERWISE: Final = "/otherwise"
_BY_CADENCE: Final = ("fast", "slow", "static")


@dataclass(slots=True)
class Part:
    """Where one answer goes: the metric's position, the member that holds it, its scale."""

    position: int
    member: str | int | None
    scale: float


@dataclass(slots=True)
class Call:
    """One NVML call and all the metrics that it answers."""

    name: str
    args: tuple[int | str, ...]
    struct: str | None
    parts: list[Part]


class Plan:
    """The questions that are left. `unsupported` is the device's own memory of what it cannot answer in its mode; it is added to."""

    def __init__(self, unsupported: set[str]) -> None:
        self.calls: dict[str, list[Call]] = {cadence: [] for cadence in _BY_CADENCE}
        self.fields: dict[str, list[tuple[FieldId, Part]]] = {cadence: [] for cadence in _BY_CADENCE}
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
                    calls[key] = Call(source.call, source.args, source.struct, [])
                    self.calls[metric.cadence].append(calls[key])
                calls[key].parts.append(Part(position, source.member, source.scale))
            elif isinstance(source, NvmlField):
                self._add_field(position, source)
            elif isinstance(source, NvmlLinks):
                self.links.append((source.call, Part(position, None, 1)))
            elif isinstance(source, Gpm):
                self.gpm.append((source.metric_id, Part(position, None, source.scale)))
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

    def retire_field(self, entry: tuple[FieldId, Part]) -> list[tuple[FieldId, Part]]:
        """Retire a field; those that stand in for it, to be asked in this reading still."""
        fields = self.fields[GPU_METRICS[entry[1].position].cadence]
        known = len(fields)
        self.retire(entry[1].position)
        stand_ins = fields[known:]
        fields.remove(entry)
        return stand_ins

    def drop_calls(self, cadence: str) -> None:
        """Ask no more calls whose metric was retired."""
        left = self.calls[cadence]
        self.calls[cadence] = [call for call in left if GPU_METRICS[call.parts[0].position].name not in self._unsupported]

    def drop_gpm(self, positions: Iterable[int]) -> None:
        """Ask no more for these profiling metrics."""
        gone = set(positions)
        if gone:
            self.gpm = [entry for entry in self.gpm if entry[1].position not in gone]
            self._freeze()

    def is_retired(self, position: int) -> bool:
        """True where no source is left to ask."""
        metric = GPU_METRICS[position]
        return (metric.name + _OTHERWISE if metric.otherwise else metric.name) in self._unsupported

    def _add_field(self, position: int, source: NvmlField) -> None:
        field: FieldId = (source.field_id, source.scope) if source.scope else source.field_id
        self.fields[GPU_METRICS[position].cadence].append((field, Part(position, None, source.scale)))

    def _remember(self, name: str) -> None:
        self._unsupported.add(name)
        self._retired.append(name)

    def _freeze(self) -> None:
        self.gpm_ids = tuple(metric_id for metric_id, _ in self.gpm)
