"""Every GPU metric of the registry, read from one device.

A metric that the device cannot answer is asked once and then remembered as absent, by the device, for its driver and MIG
mode; any other failure is asked again. Slow metrics keep their last value between two readings.
"""

from collections.abc import Sequence
from typing import Final

from agents.collectors.nvml_plan import GPU_METRICS, Part, Plan
from agents.device import SLOW_S, Accounts, Answer, DeviceError, FieldId, NvmlGpu, ResetRequiredError
from agents.nvml_accounting import accounts
from wire.messages import Cell
from wire.metrics import Metric, Number, accept

PROFILER_FIRST_S: Final = 5.0
PROFILER_LAST_S: Final = 300.0
"""How long another profiler is left alone before the counters are asked for again: at first, and at most."""
_XID: Final = next(i for i, metric in enumerate(GPU_METRICS) if metric.name == "xid_errors_total")
_RECOVERY: Final = next(i for i, metric in enumerate(GPU_METRICS) if metric.name == "recovery_action")
_RESET: Final = 1
"""The recovery action "GPU reset"."""
_STATIC: Final = [i for i, metric in enumerate(GPU_METRICS) if metric.cadence == "static"]
_ROUNDING: Final = 1.005
"""GPM divides two counters that are not read at the same instant: full load may read 100.3 %."""


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
        self.instances = device.found
        self.accounts = Accounts(device.facts.accounting_mode)
        self._paused_until = self._profiler_at = float("-inf")
        self._profiler_wait_s = PROFILER_FIRST_S
        self._failed = False
        self._needs_reset = False
        self._make_plan()

    def pause_profiling(self, until: float) -> None:
        """Leave the profiling counters alone until monotonic second `until`; they are let go with the next tick."""
        self._paused_until = until

    def _make_plan(self) -> None:
        """Ask for everything, but for what this device is known not to answer in its mode."""
        self._plan = Plan(self.device.unsupported(self.mig_mode))
        self._static_done = False
        for position, metric in enumerate(GPU_METRICS):
            if self._plan.is_retired(position):
                self.values[position], self.reasons[position] = None, "unsupported"
            elif metric.source is None:
                self.reasons[position] = "unsupported"

    @property
    def is_lost(self) -> bool:
        """True when the GPU fell off the bus in the last tick, or was marked so."""
        return self.reasons[_XID] == "gpu_lost"

    def collect(self, now: float) -> None:
        """Read what is due at monotonic second `now`. Never raises DeviceError: a failure is a reason."""
        slow = now - self._slow_at >= self._slow_s
        needed_reset, self._needs_reset = self._needs_reset, False
        self.answered = False
        self._plan.begin()
        try:
            if slow:
                self._slow_at = now
                mig = self.device.mig_mode()
                if mig != self.mig_mode:
                    self.mig_mode = mig
                    self._make_plan()
                self.instances = self.device.instances() if mig else ()
                if not self._static_done:
                    self._read_calls("static")
                self._read_calls("slow")
                self._read_links()
            self._read_calls("fast")
            self._read_fields(slow)
            self._static_done = self._static_done or (slow and not any(self._is_due(position) for position in _STATIC))
            self._read_gpm(now)
        except _LostError:
            self.fail("gpu_lost")
            return
        if not self.answered and self._plan.take_back():  # a handle that is dead refuses everything: that is no lack of the GPU
            self._make_plan()
            self.fail("driver_error")
            return
        if self._needs_reset:
            self.answered = True  # that is an answer too: opening the driver anew would not help
            self.values[_RECOVERY], self.reasons[_RECOVERY] = _RESET, None
        elif needed_reset:
            self._slow_at = float("-inf")  # what it recommends now is asked with the next tick
        self.values[_XID] = self.xids
        self.reasons[_XID] = None
        if self._failed:  # what is not asked any more is absent for its own reason again
            self._failed = False
            for position in range(len(GPU_METRICS)):
                if self._plan.is_retired(position):
                    self.reasons[position] = "unsupported"
        try:
            self.holds = self.device.processes()
            self.holds_reason = None
        except DeviceError as error:
            self.holds = []
            self.holds_reason = error.reason
        if slow:
            self.accounts = accounts(self.device, [pid for pid, _ in self.holds])

    def _is_due(self, position: int) -> bool:
        """True where a static reading failed for now."""
        return self.reasons[position] not in (None, "unsupported")

    def fail(self, reason: str) -> None:
        """Mark the whole GPU absent for `reason`; every metric is read again as soon as it answers."""
        self.values = [None] * len(GPU_METRICS)
        self.reasons = [reason] * len(GPU_METRICS)
        self.holds = []
        self.holds_reason = reason
        self._failed = True
        self._slow_at = float("-inf")
        self._static_done = False

    def _read_calls(self, cadence: str) -> None:
        unsupported = False
        for call in self._plan.calls[cadence]:
            try:
                answer = self.device.call(call.name, call.args, call.struct)
            except DeviceError as error:
                self._needs_reset |= isinstance(error, ResetRequiredError)
                for part in call.parts:
                    self._absent(part.position, error.reason)
                    unsupported |= error.reason == "unsupported"
                continue
            for part in call.parts:
                self._set(part, _member(answer, part.member))
        if unsupported:
            self._plan.drop_calls(cadence)

    def _read_links(self) -> None:
        for name, part in list(self._plan.links):
            up, refused = 0, 0
            links = self.device.facts.nvlink_links or 0
            for link in range(links):
                try:
                    up += self.device.call(name, (link,)) == 1
                except DeviceError as error:
                    if error.reason != "unsupported":
                        self._absent(part.position, error.reason)
                        break
                    refused += 1  # a link that this board does not wire
            else:
                if refused == links:
                    self._absent(part.position, "unsupported")
                    self._plan.links.remove((name, part))
                else:
                    self._set(part, up)

    def _read_fields(self, slow: bool) -> None:
        fields = self._plan.fields
        asked = list(fields["fast"])
        if slow:
            asked += fields["slow"]
            if not self._static_done:
                asked += fields["static"]
        while asked:  # once, but for a field that another one stands in for
            stand_ins: list[tuple[FieldId, Part]] = []
            for entry, answer in zip(asked, self._answers(tuple(field for field, _ in asked)), strict=True):
                part = entry[1]
                if isinstance(answer, DeviceError) and answer.reason == "unsupported":
                    self.values[part.position], self.reasons[part.position] = None, "unsupported"
                    stand_ins += self._plan.retire_field(entry)
                elif isinstance(answer, DeviceError):
                    self._absent(part.position, answer.reason)
                else:
                    self._set(part, answer)
            asked = stand_ins

    def _answers(self, fields: Sequence[FieldId]) -> list[Answer]:
        """The values of all fields. Some drivers refuse, or blank, a whole request for one id that they do not know: then it is
        halved until that one stands alone. It is not asked again, so this happens once."""
        try:
            answers = self.device.fields(fields)
        except DeviceError as error:
            answers = [error] * len(fields)
        refused = all(isinstance(answer, DeviceError) and answer.reason == "unsupported" for answer in answers)
        if not refused or len(fields) == 1:
            return answers
        half = len(fields) // 2
        return self._answers(fields[:half]) + self._answers(fields[half:])

    def _read_gpm(self, now: float) -> None:
        gpm = self._plan.gpm
        if not gpm:
            return
        paused = now < self._paused_until
        if paused:
            self.device.let_profiling_go()
        if paused or now < self._profiler_at:
            for _, part in gpm:
                self._absent(part.position, "paused" if paused else "profiler_busy")
            return
        try:
            answers = self.device.gpm(self._plan.gpm_ids)
        except DeviceError as error:
            answers = [error] * len(gpm)
        if all(isinstance(answer, DeviceError) and answer.reason == "profiler_busy" for answer in answers):
            self._profiler_at = now + self._profiler_wait_s
            self._profiler_wait_s = min(PROFILER_LAST_S, self._profiler_wait_s * 2)
        else:
            self._profiler_wait_s = PROFILER_FIRST_S
        unsupported = []
        for (_, part), answer in zip(gpm, answers, strict=True):
            if isinstance(answer, DeviceError):
                self._absent(part.position, answer.reason)
                if answer.reason == "unsupported":
                    unsupported.append(part.position)
            else:
                self._set(part, answer)
        self._plan.drop_gpm(unsupported)

    def _set(self, part: Part, raw: object) -> None:
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
        if reason == "unsupported":
            self._plan.retire(position)
        self.values[position] = None
        self.reasons[position] = reason


class _LostError(Exception):
    """The GPU fell off the bus: asking on would only wait."""


def _member(answer: object, member: str | int | None) -> object:
    if isinstance(member, str):
        return getattr(answer, member, None)
    if isinstance(member, int):
        return answer[member] if isinstance(answer, list | tuple) and len(answer) > member else None
    return answer


def _scaled(metric: Metric, raw: Number, scale: float) -> tuple[Cell, str | None]:
    """`raw` in the registry's unit, accepted or refused; a sentinel is known by its unscaled value."""
    value = raw * scale
    if metric.unit == "ratio" and 1 < value <= _ROUNDING:
        return 1.0, None
    accepted, reason = accept(metric, value)
    if reason is not None and accept(metric, raw)[1] == "blank":
        reason = "blank"
    return accepted, reason
