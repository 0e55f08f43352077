"""What AMD SMI answers, in the registry's names and units: one row of QUESTIONS a call.

The die's temperature is the hotspot's ("junction"), by which the card throttles and which every Instinct card has; the edge sensor
stands in where there is no hotspot. What has no counterpart that means the same stays absent: AMD's throttling status is no NVML event
reason, its PCIe figure is both directions in one, its XGMI figures are totals a link.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from agents.device import NO_ACCOUNTS, DeviceError
from wire.messages import Cell, GpuFacts
from wire.metrics import Metric, Number, accept, sent

GPU_METRICS: Final[tuple[Metric, ...]] = tuple(sent("gpu"))
PROCESSES_S: Final = 5.0
"""Seconds between two looks at who holds a GPU: the library looks through every process of the machine for it."""
_PLACE: Final = {metric.name: place for place, metric in enumerate(GPU_METRICS)}
_NEVER: Final = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
_PCIE_GENERATION: Final = {2500: 1, 5000: 2, 8000: 3, 16000: 4, 32000: 5, 64000: 6}  # by MT/s


class Answers(Protocol):
    """A GPU that can be asked: agents.amd_device.AmdGpu."""

    @property
    def facts(self) -> GpuFacts:
        """What does not change."""

    def ask(self, call: str, *args: str) -> Any:
        """The answer of one call; DeviceError where there is none."""

    def is_gone(self) -> bool:
        """True when the card is no longer on its bus."""


@dataclass(frozen=True, slots=True)
class Part:
    """A metric within an answer: the first of `paths` that leads to a number that is not blank; a path of "" is the answer itself."""

    metric: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """One call and what its answer holds; `sensors` are arguments to try one after another until one is supported."""

    call: str
    parts: tuple[Part, ...]
    sensors: tuple[tuple[str, ...], ...] = ((),)
    slow: bool = False


def _temperature(*sensors: str) -> tuple[tuple[str, ...], ...]:
    return tuple((f"AmdSmiTemperatureType.{sensor}", "AmdSmiTemperatureMetric.CURRENT") for sensor in sensors)


QUESTIONS: Final = (
    Question("amdsmi_get_gpu_activity", (Part("gpu_util_pct", ("gfx_activity",)), Part("mem_copy_util_pct", ("umc_activity",)))),
    Question("amdsmi_get_gpu_vram_usage", (Part("mem_used_bytes", ("vram_used",)), Part("mem_total_bytes", ("vram_total",)))),
    Question("amdsmi_get_temp_metric", (Part("temperature_c", ("",)),), _temperature("HOTSPOT", "EDGE")),
    Question("amdsmi_get_temp_metric", (Part("memory_temperature_c", ("",)),), _temperature("VRAM")),
    Question("amdsmi_get_power_info", (Part("power_w", ("current_socket_power", "average_socket_power", "socket_power")),)),
    Question(
        "amdsmi_get_clock_info",
        (Part("sm_clock_mhz", ("clk", "cur_clk")), Part("sm_clock_max_mhz", ("max_clk",))),
        (("AmdSmiClkType.GFX",),),
    ),
    Question(
        "amdsmi_get_clock_info",
        (Part("mem_clock_mhz", ("clk", "cur_clk")), Part("mem_clock_max_mhz", ("max_clk",))),
        (("AmdSmiClkType.MEM",),),
    ),
    Question(
        "amdsmi_get_power_cap_info",
        (
            Part("power_limit_w", ("power_cap",)),
            Part("power_limit_min_w", ("min_power_cap",)),
            Part("power_limit_max_w", ("max_power_cap",)),
        ),
        slow=True,
    ),
    Question("amdsmi_get_energy_count", (Part("energy_j_total", ("joules",)),), slow=True),
    Question(
        "amdsmi_get_pcie_info",
        (
            Part("pcie_link_gen", ("pcie_metric.pcie_speed",)),
            Part("pcie_link_width", ("pcie_metric.pcie_width",)),
            Part("pcie_replays_total", ("pcie_metric.pcie_replay_count",)),
            Part("pcie_recoveries_total", ("pcie_metric.pcie_l0_to_recovery_count",)),
            Part("pcie_naks_sent_total", ("pcie_metric.pcie_nak_sent_count",)),
            Part("pcie_naks_received_total", ("pcie_metric.pcie_nak_received_count",)),
        ),
        slow=True,
    ),
    Question(  # the driver counts from its start: a reset or reload begins anew
        "amdsmi_get_gpu_total_ecc_count",
        (
            Part("ecc_corrected_volatile_total", ("correctable_count",)),
            Part("ecc_uncorrected_volatile_total", ("uncorrectable_count",)),
        ),
        slow=True,
    ),
)


def number(name: str, raw: object) -> tuple[Cell, str | None]:
    """AMD SMI's `raw` as a reading of metric `name`: `(number, None)` or `(None, reason)`."""
    metric = GPU_METRICS[_PLACE[name]]
    if raw == "N/A":
        return None, "blank"
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        # 0xFFFF fills fields of 16 bits; it is an honest count of errors or MiB
        if raw in _NEVER or (raw == 0xFFFF and metric.unit != "bytes" and metric.kind != "counter"):
            return None, "blank"
        raw = _in_unit(metric, raw)
    return accept(metric, raw)


def _in_unit(metric: Metric, raw: Number) -> Number:
    if metric.unit == "bytes":
        return int(raw) << 20
    if metric.unit == "celsius":
        return raw / 1000 if abs(raw) >= 1000 else raw
    if metric.name.startswith("power_limit"):
        return raw / 1e6 if raw >= 1e6 else raw
    if metric.name == "pcie_link_gen" and raw > 10:
        return _PCIE_GENERATION.get(int(raw), 0)
    return raw


class AmdReader:
    """Reads one GPU. `values[i]` and `reasons[i]` belong to GPU_METRICS[i]; exactly one of them is None."""

    def __init__(self, gpu: Answers, slow_s: float) -> None:
        self._gpu = gpu
        self._slow_s = slow_s
        self.holds: list[tuple[int, int | None]] = []
        self.holds_reason: str | None = "no_previous"
        self.xids = 0
        self.answered = False
        self.mig_mode: bool | None = None
        self.instances: tuple[str, ...] = ()
        self.accounts = NO_ACCOUNTS
        self._slow_at = self._processes_at = float("-inf")
        self._begin("no_previous")

    def collect(self, now: float) -> None:
        """Read what is due at monotonic second `now`; a failure is a reason."""
        self.answered = False
        if self._failed:
            self._begin("unsupported")  # what no question asks for stays so
        slow = now - self._slow_at >= self._slow_s
        if slow:
            self._slow_at = now
        for number_of, question in enumerate(QUESTIONS):
            if slow or not question.slow:
                self._ask(number_of, question)
        if now - self._processes_at >= PROCESSES_S:
            self._processes_at = now
            self._read_processes()
        if not self.answered and self._gpu.is_gone():
            self.fail("gpu_lost")

    def fail(self, reason: str) -> None:
        """Mark the whole GPU absent for `reason`; everything is read again as soon as it answers."""
        self._begin(reason)
        self.holds_reason = reason
        self._failed = True
        self.is_lost = reason == "gpu_lost"

    def pause_profiling(self, until: float) -> None:
        """Nothing: AMD SMI's readings take no profiling counters."""

    def _begin(self, reason: str) -> None:
        """Know nothing, for `reason`, and which sensors the card has not least of all."""
        self.values: list[Cell] = [None] * len(GPU_METRICS)
        self.reasons: list[str | None] = [reason] * len(GPU_METRICS)
        self.holds = []
        self.holds_reason = "no_previous"
        self.is_lost = False
        self._failed = reason != "unsupported"
        self._sensors = [list(question.sensors) for question in QUESTIONS]
        self._slow_at = self._processes_at = float("-inf")

    def _ask(self, number_of: int, question: Question) -> None:
        """One question to the first sensor that the card has; one that it has not is never asked about again."""
        sensors = self._sensors[number_of]
        while sensors:
            try:
                answer = self._gpu.ask(question.call, *sensors[0])
            except DeviceError as error:
                self._absent(question, error.reason)
                if error.reason != "unsupported":
                    return
                del sensors[0]
                continue
            self._take(question, answer)
            return

    def _take(self, question: Question, answer: Any) -> None:
        self.answered = True
        if question.call == "amdsmi_get_energy_count":
            answer = {"joules": _joules(answer)}
        for part in question.parts:
            place = _PLACE[part.metric]
            self.values[place], self.reasons[place] = _first(part, answer)

    def _absent(self, question: Question, reason: str) -> None:
        for part in question.parts:
            place = _PLACE[part.metric]
            self.values[place], self.reasons[place] = None, reason

    def _read_processes(self) -> None:
        try:
            listed = self._gpu.ask("amdsmi_get_gpu_process_list")
        except DeviceError as error:
            self.holds, self.holds_reason = [], error.reason
            return
        self.answered = True
        try:
            self.holds, self.holds_reason = list(_holds(listed)), None
        except (TypeError, KeyError):  # releases before 6.0 give handles, which would have to be asked one by one
            self.holds, self.holds_reason = [], "unsupported"


def _first(part: Part, answer: Any) -> tuple[Cell, str | None]:
    """The first number that is not blank, one that is not 0 before one that is: a field that the card does not fill may read 0."""
    found: tuple[Cell, str | None] = (None, "unsupported")
    for path in part.paths:
        value = number(part.metric, _at(answer, path))
        if value[0]:
            return value
        if found[0] is None and (value[0] is not None or found[1] == "unsupported"):
            found = value
    return found


def _at(answer: Any, path: str) -> object:
    for name in path.split(".") if path else ():
        answer = answer.get(name) if isinstance(answer, dict) else None
    return answer


def _joules(answer: Any) -> object:
    """The counter times its resolution, which is in microjoules; older releases name the counter `power`."""
    counted = _at(answer, "energy_accumulator")
    counted = _at(answer, "power") if counted is None else counted
    resolution = _at(answer, "counter_resolution")
    if isinstance(counted, int) and isinstance(resolution, int | float) and counted not in _NEVER:
        return counted * resolution / 1e6
    return counted if counted in ("N/A", *_NEVER) else None


def _holds(listed: Iterable[Any]) -> Iterable[tuple[int, int | None]]:
    for process in listed:
        used = process["memory_usage"]["vram_mem"] if "memory_usage" in process else process.get("mem")
        known = isinstance(used, int) and not isinstance(used, bool) and used not in _NEVER
        yield int(process["pid"]), used if known else None
