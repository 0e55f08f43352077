"""The state that GPUs are measured in: who else is there, limits and clocks, and what they read during the run, by NVML."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from agents.bench.arithmetic import slope_per_min
from agents.device import DeviceError
from agents.nvml_device import NvmlDevice
from wire.bench import BenchGpu
from wire.messages import GpuFacts

EVERY_S: Final = 0.2
HELD_BYTES: Final = 1 << 30
"""More in use than a driver needs of itself: somebody holds the GPU, listed or in a container of its own."""
SLOPE_C_PER_MIN: Final = 0.5
"""A temperature that changes less is settled (the bench protocols' common rules)."""


class Sample(NamedTuple):
    """One look at one GPU; None: not told."""

    t: float
    sm_clock_mhz: float | None
    mem_clock_mhz: float | None
    temperature_c: float | None
    power_w: float | None
    reasons: int | None


def _ask(gpu: NvmlDevice, name: str, *args: int | str) -> Any:
    try:
        return gpu.call(name, args)
    except DeviceError:
        return None


def sample(gpu: NvmlDevice) -> Sample:
    """What the GPU reads now."""
    power = _ask(gpu, "nvmlDeviceGetPowerUsage")
    return Sample(
        time.time(),
        _ask(gpu, "nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
        _ask(gpu, "nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
        _ask(gpu, "nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
        None if power is None else power / 1000,
        _ask(gpu, "nvmlDeviceGetCurrentClocksEventReasons"),
    )


def holders(gpu: NvmlDevice) -> str:
    """Who uses the GPU, as the end of a sentence; empty: nobody that can be seen."""
    try:
        pids = sorted({pid for pid, _ in gpu.processes()})
    except DeviceError:
        pids = []
    if pids:
        return f"process{'es' if len(pids) > 1 else ''} {', '.join(map(str, pids[:10]))}"
    memory = _ask(gpu, "nvmlDeviceGetMemoryInfo", "nvmlMemory_v2")
    used = getattr(memory, "used", 0)
    if gpu.facts.memory_kind != "unified" and isinstance(used, int) and used > HELD_BYTES:
        return f"something that the driver does not list, with {used / (1 << 30):.1f} GiB of its memory"
    return ""


def local_cpus(bus: str | None, sys: Path) -> str:
    """The cores next to the GPU, as the kernel lists them; empty where it does not say."""
    try:
        domain, _, rest = (bus or "").lower().partition(":")
        return (sys / "bus/pci/devices" / f"{domain[-4:]}:{rest}" / "local_cpulist").read_text().strip()[:300]
    except (OSError, ValueError):
        return ""


class Watch:
    """Reads the GPUs in a thread until it is closed; the samples of an hour are kept at most."""

    def __init__(self, gpus: Sequence[NvmlDevice]) -> None:
        self._gpus = gpus
        self._samples: list[deque[Sample]] = [deque(maxlen=round(3600 / EVERY_S)) for _ in gpus]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, name="bench-watch", daemon=True)  # a stuck driver holds it for ever
        self._thread.start()

    def _read(self) -> None:
        while True:
            for gpu, kept in zip(self._gpus, self._samples, strict=True):
                kept.append(sample(gpu))
            if self._over.wait(EVERY_S):
                return

    def close(self) -> bool:
        """End it; False where the driver does not come back."""
        self._over.set()
        self._thread.join(5)
        return not self._thread.is_alive()

    def of(self, number: int, began: float, ended: float) -> list[Sample]:
        """Samples of one GPU between two epoch seconds; the nearest one where none lies between them."""
        kept = list(self._samples[number])
        inside = [one for one in kept if began <= one.t <= ended]
        return inside or sorted(kept, key=lambda one: abs(one.t - (began + ended) / 2))[:1]

    def slope(self, number: int, seconds: float) -> float | None:
        """How fast the GPU's temperature changed in the last `seconds`, in °C a minute; None: not told for so long."""
        kept = list(self._samples[number])
        first = time.time() - seconds
        points = [(one.t, float(one.temperature_c)) for one in kept if one.t >= first and one.temperature_c is not None]
        if not kept or kept[0].t > first + 1:
            return None
        return slope_per_min(points)

    def reasons(self, number: int) -> int | None:
        """Every clock event reason that was seen on one GPU; None: none was told."""
        told = [one.reasons for one in list(self._samples[number]) if one.reasons is not None]
        found = 0
        for bits in told:
            found |= bits
        return found if told else None


def middle(values: Sequence[float | None]) -> float | None:
    """The median of those that were told; None: none was."""
    told = [value for value in values if value is not None]
    return float(median(told)) if told else None


def set_clock(gpu: NvmlDevice) -> float | None:
    """The SM clock that was set for applications, in MHz; None: not told."""
    told = _ask(gpu, "nvmlDeviceGetApplicationsClock", "NVML_CLOCK_SM")
    return told if isinstance(told, int) else None


def of_gpu(
    facts: GpuFacts, watch: Watch, number: int, cpus: str, clock: float | None, settled: bool | None, slope: float | None
) -> BenchGpu:
    """What the report says of one GPU; the driver is not asked any more."""
    return BenchGpu(
        uuid=facts.uuid,
        index=facts.index,
        model=facts.name[:100],
        pci_bus_id=facts.pci_bus_id or "",
        mem_total_bytes=facts.mem_total_bytes,
        power_limit_w=facts.power_limit_w,
        power_limit_default_w=facts.power_limit_default_w,
        sm_clock_max_mhz=facts.sm_clock_max_mhz,
        sm_clock_set_mhz=clock,
        mem_clock_mhz=middle([one.mem_clock_mhz for one in watch.of(number, 0, time.time())]),
        clock_event_reasons=watch.reasons(number),
        pcie_link_gen_max=facts.pcie_link_gen_max,
        pcie_link_width_max=facts.pcie_link_width_max,
        nvlink_links=facts.nvlink_links,
        nvlink_bytes_per_s_per_link=facts.nvlink_bytes_per_s_per_link,
        compute_capability=facts.compute_capability or "",
        local_cpus=cpus,
        settled=settled,
        temperature_slope_c_per_min=None if slope is None else round(slope, 3),
    )
