"""Every GPU metric of the registry, read from one device.

A metric that the device cannot answer is asked once and then remembered as absent, by the device, for its driver and MIG
mode; any other failure is asked again. Slow and rare metrics keep their last value between two readings.
"""

from collections.abc import Sequence
from typing import Final

from agents.collectors.nvml_answer import judged, member_of
from agents.collectors.nvml_plan import GPU_METRICS, Entry, Part, Plan
from agents.device import SLOW_S, Accounts, Answer, DeviceError, FieldId, NvmlGpu, ResetRequiredError
from agents.nvml_accounting import accounts
from wire.messages import Cell
from wire.metrics import Cadence

RARE_EVERY: Final = 4
"""Every fourth reading of the slow metrics is one of the rare ones too: once a minute."""

PROFILER_FIRST_S: Final = 5.0
PROFILER_LAST_S: Final = 300.0
"""How long another profiler is left alone before the counters are asked for again: at first, and at most."""
_XID: Final = next(i for i, metric in enumerate(GPU_METRICS) if metric.name == "xid_errors_total")
_RECOVERY: Final = next(i for i, metric in enumerate(GPU_METRICS) if metric.name == "recovery_action")
_RESET: Final = 1
"""The recovery action "GPU reset"."""
_EACH_TICK: Final[tuple[Cadence, ...]] = ("fast",)
_RARE, _STATIC = ([i for i, metric in enumerate(GPU_METRICS) if metric.cadence == cadence] for cadence in ("rare", "static"))
_FOR_NOW: Final = ("timeout", "driver_error")


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
        self._slow_at = self._rare_at = float("-inf")
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
        self._plan = Plan(self.device.unsupported(self.mig_mode), self.device.asker)
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
        due = self._due(now)
        slow = "slow" in due
        needed_reset, self._needs_reset = self._needs_reset, False
        self.answered = False
        self._plan.begin()
        try:
            if slow:
                due = self._look_at_mig(due)
            for cadence in due:
                self._read_calls(cadence)
            if "rare" in due:
                self._read_links()
            self._read_fields(due)
            if slow:
                self._look_at_failures(due)
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
            self._read_all_soon()  # what it recommends now, and counters that began anew
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

    def _due(self, now: float) -> tuple[Cadence, ...]:
        """What is read at `now`."""
        if now - self._slow_at < self._slow_s:
            return _EACH_TICK
        self._slow_at = now
        due: tuple[Cadence, ...] = ("fast", "slow")
        if now - self._rare_at >= (RARE_EVERY - 0.5) * self._slow_s:
            self._rare_at = now
            due += ("rare",)
        return due if self._static_done else (*due, "static")

    def _read_all_soon(self) -> None:
        """Read everything but what is static with the next tick."""
        self._slow_at = self._rare_at = float("-inf")

    def _look_at_mig(self, due: tuple[Cadence, ...]) -> tuple[Cadence, ...]:
        """Look how the GPU is split; what is due, which is everything where that is another mode than before."""
        mig = self.device.mig_mode()
        if mig != self.mig_mode:
            self.mig_mode = mig
            self._make_plan()
            self._rare_at = self._slow_at
            due = ("fast", "slow", "rare", "static")
        self.instances = self.device.instances() if mig else ()
        return due

    def _look_at_failures(self, due: tuple[Cadence, ...]) -> None:
        """What failed for now is not left absent until the next minute, or for ever."""
        if "static" in due:
            self._static_done = all(self.reasons[position] in (None, "unsupported") for position in _STATIC)
        if "rare" in due and any(self.reasons[position] in _FOR_NOW for position in _RARE):
            self._rare_at = float("-inf")

    def fail(self, reason: str) -> None:
        """Mark the whole GPU absent for `reason`; every metric is read again as soon as it answers."""
        self.values = [None] * len(GPU_METRICS)
        self.reasons = [reason] * len(GPU_METRICS)
        self.holds = []
        self.holds_reason = reason
        self._failed = True
        self._read_all_soon()
        self._static_done = False

    def _read_calls(self, cadence: Cadence) -> None:
        unsupported = False
        for call in self._plan.calls[cadence]:
            try:
                answer = call.ask()
            except DeviceError as error:
                self._needs_reset |= isinstance(error, ResetRequiredError)
                for part in call.parts:
                    self._absent(part.position, error.reason)
                    unsupported |= error.reason == "unsupported"
                continue
            for part in call.parts:
                self._set(part, answer if part.member is None else member_of(answer, part.member))
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

    def _read_fields(self, due: tuple[Cadence, ...]) -> None:
        request = self._plan.fields(due)
        entries: Sequence[Entry] = request.entries
        ids = request.ids
        while entries:  # once, but for a field that another one stands in for
            stand_ins: list[Entry] = []
            for entry, answer in zip(entries, self._answers(ids), strict=True):
                part = entry[1]
                if not isinstance(answer, DeviceError):
                    self._set(part, answer)
                elif answer.reason == "unsupported":
                    self.values[part.position], self.reasons[part.position] = None, "unsupported"
                    stand_ins += self._plan.retire_field(entry)
                else:
                    self._absent(part.position, answer.reason)
            entries, ids = stand_ins, tuple(field for field, _ in stand_ins)

    def _answers(self, fields: Sequence[FieldId]) -> list[Answer]:
        """The values of all fields. Some drivers refuse, or blank, a whole request for one id that they do not know: then it is
        halved until that one stands alone. It is not asked again, so this happens once."""
        try:
            answers = self.device.fields(fields)
        except DeviceError as error:
            answers = [error] * len(fields)
        if len(fields) == 1 or not all(isinstance(answer, DeviceError) and answer.reason == "unsupported" for answer in answers):
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
        if unsupported:
            self._plan.drop_gpm(unsupported)

    def _set(self, part: Part, raw: object) -> None:
        self.answered = True
        position = part.position
        kind = type(raw)
        if kind is float or kind is int:
            value = raw * part.scale  # type: ignore[operator]
            if part.low <= value <= part.high and not (part.whole and type(value) is float):  # as nearly always
                self.values[position], self.reasons[position] = value, None
                return
        self.values[position], self.reasons[position] = judged(GPU_METRICS[position], raw, part.scale)

    def _absent(self, position: int, reason: str) -> None:
        if reason == "gpu_lost":
            raise _LostError
        if reason == "unsupported":
            self._plan.retire(position)
        self.values[position] = None
        self.reasons[position] = reason


class _LostError(Exception):
    """The GPU fell off the bus: asking on would only wait."""
