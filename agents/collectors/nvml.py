"""Every GPU metric of the registry, read from one device.

A metric that the device cannot answer is asked once and then remembered as absent until the driver is opened
anew or MIG is switched; any other failure is asked again. Slow metrics keep their last value between two readings.
"""

from dataclasses import dataclass
from typing import Final

from agents.device import SLOW_S, Answer, DeviceError, NvmlGpu
from wire.messages import Cell
from wire.metrics import Gpm, Metric, Number, Nvml, NvmlField, accept, sent

GPU_METRICS: Final[tuple[Metric, ...]] = tuple(sent("gpu"))
_XID: Final = next(i for i, metric in enumerate(GPU_METRICS) if metric.name == "xid_errors_total")
_ROUNDING: Final = 1.005
"""GPM divides two counters that are not read at the same instant: full load may read 100.3 %."""


@dataclass(slots=True)
class _Part:
    """Where one answer goes: the metric's position, the struct member that holds it, its scale."""

    position: int
    member: str | None
    scale: float


@dataclass(slots=True)
class _Call:
    """One NVML call and all the metrics that it answers."""

    name: str
    args: tuple[int | str, ...]
    parts: list[_Part]


class GpuCollector:
    """Reads one GPU. `values[i]` and `reasons[i]` belong to GPU_METRICS[i]; exactly one of them is None.

    `holds` are its processes; where `holds_reason` is not None they could not be listed, which is not "none".
    """

    def __init__(self, device: NvmlGpu, slow_s: float = SLOW_S) -> None:
        self.device = device
        self._slow_s = slow_s
        self.values: list[Cell] = [None] * len(GPU_METRICS)
        self.reasons: list[str | None] = ["no_previous"] * len(GPU_METRICS)
        self.holds: list[tuple[int, int | None]] = []
        self.holds_reason: str | None = "no_previous"
        self.xids = 0
        self.answered = False  # in the last tick the device answered at least one question
        self._slow_at = float("-inf")
        self.mig_mode = device.facts.mig_mode
        self._plan()

    def _plan(self) -> None:
        """Sort the registry by cadence and kind of source; forgets which metrics the device could not answer."""
        self._calls: dict[str, list[_Call]] = {"fast": [], "slow": [], "static": []}
        self._fields: dict[str, list[tuple[int, _Part]]] = {"fast": [], "slow": [], "static": []}
        self._gpm: list[tuple[int, _Part]] = []
        calls: dict[tuple[str, str, tuple[int | str, ...]], _Call] = {}
        for position, metric in enumerate(GPU_METRICS):
            source = metric.source
            if isinstance(source, Nvml):
                key = (metric.cadence, source.call, source.args)
                if key not in calls:
                    calls[key] = _Call(source.call, source.args, [])
                    self._calls[metric.cadence].append(calls[key])
                calls[key].parts.append(_Part(position, source.member, source.scale))
            elif isinstance(source, NvmlField):
                self._fields[metric.cadence].append((source.field_id, _Part(position, None, source.scale)))
            elif isinstance(source, Gpm):
                self._gpm.append((source.metric_id, _Part(position, None, source.scale)))
            else:
                self.reasons[position] = "unsupported"
        self._static_done = False
        self._freeze()

    def _freeze(self) -> None:
        self._gpm_ids = tuple(metric_id for metric_id, _ in self._gpm)

    @property
    def is_lost(self) -> bool:
        """True when the GPU fell off the bus in the last tick, or was marked so."""
        return self.reasons[_XID] == "gpu_lost"

    def collect(self, now: float) -> None:
        """Read what is due at monotonic second `now`. Never raises DeviceError: a failure is a reason."""
        slow = now - self._slow_at >= self._slow_s
        self.answered = False
        try:
            if slow:
                self._slow_at = now
                mig = self.device.mig_mode()
                if mig != self.mig_mode:
                    self.mig_mode = mig
                    self._plan()
                if not self._static_done:
                    self._static_done = True
                    self._read_calls("static")
                self._read_calls("slow")
            self._read_calls("fast")
            self._read_fields(slow)
            self._read_gpm()
        except _LostError:
            self.fail("gpu_lost")
            return
        self.values[_XID] = self.xids
        self.reasons[_XID] = None
        try:
            self.holds = self.device.processes()
            self.holds_reason = None
        except DeviceError as error:
            self.holds = []
            self.holds_reason = error.reason

    def fail(self, reason: str) -> None:
        """Mark the whole GPU absent for `reason`; every metric is read again as soon as it answers."""
        self.values = [None] * len(GPU_METRICS)
        self.reasons = [reason] * len(GPU_METRICS)
        self.holds = []
        self.holds_reason = reason
        self._slow_at = float("-inf")
        self._static_done = False

    def _read_calls(self, cadence: str) -> None:
        calls = self._calls[cadence]
        unsupported = False
        for call in calls:
            try:
                answer = self.device.call(call.name, call.args)
            except DeviceError as error:
                for part in call.parts:
                    self._absent(part.position, error.reason)
                unsupported |= error.reason == "unsupported"
                continue
            for part in call.parts:
                self._set(part, getattr(answer, part.member, None) if part.member else answer)
        if unsupported:
            self._calls[cadence] = [call for call in calls if self.reasons[call.parts[0].position] != "unsupported"]

    def _read_fields(self, slow: bool) -> None:
        asked = self._fields["fast"] + self._fields["slow"] if slow else self._fields["fast"]
        if not asked:
            return
        ids = tuple(field_id for field_id, _ in asked)
        try:
            answers = self.device.fields(ids)
        except DeviceError as error:
            # one bad id may refuse all of them (seen on old drivers): ask one by one, once
            answers = [self._field(field_id) for field_id in ids] if error.reason == "unsupported" else [error] * len(ids)
        if self._take(asked, answers):
            for cadence, entries in self._fields.items():
                self._fields[cadence] = [entry for entry in entries if self.reasons[entry[1].position] != "unsupported"]

    def _field(self, field_id: int) -> Answer:
        try:
            return self.device.fields((field_id,))[0]
        except DeviceError as error:
            return error

    def _read_gpm(self) -> None:
        if not self._gpm:
            return
        try:
            answers = self.device.gpm(self._gpm_ids)
        except DeviceError as error:
            answers = [error] * len(self._gpm)
        if self._take(self._gpm, answers):
            self._gpm = [entry for entry in self._gpm if self.reasons[entry[1].position] != "unsupported"]
            self._freeze()

    def _take(self, asked: list[tuple[int, _Part]], answers: list[Answer]) -> bool:
        """Store the answers; True when one of them will never come."""
        unsupported = False
        for (_, part), answer in zip(asked, answers, strict=True):
            if isinstance(answer, DeviceError):
                self._absent(part.position, answer.reason)
                unsupported |= answer.reason == "unsupported"
            else:
                self._set(part, answer)
        return unsupported

    def _set(self, part: _Part, raw: object) -> None:
        self.answered = True
        position = part.position
        metric = GPU_METRICS[position]
        if (type(raw) is int or type(raw) is float) and part.scale != 1:
            self.values[position], self.reasons[position] = _scaled(metric, raw, part.scale)
        else:  # text, None and booleans are judged as they are: no arithmetic on them
            self.values[position], self.reasons[position] = accept(metric, raw)

    def _absent(self, position: int, reason: str) -> None:
        if reason == "gpu_lost":
            raise _LostError
        self.values[position] = None
        self.reasons[position] = reason


class _LostError(Exception):
    """The GPU fell off the bus: asking on would only wait."""


def _scaled(metric: Metric, raw: Number, scale: float) -> tuple[Cell, str | None]:
    """`raw` in the registry's unit, accepted or refused; a sentinel is known by its unscaled value."""
    value = raw * scale
    if metric.unit == "ratio" and 1 < value <= _ROUNDING:
        return 1.0, None
    accepted, reason = accept(metric, value)
    if reason is not None and accept(metric, raw)[1] == "blank":
        reason = "blank"
    return accepted, reason
