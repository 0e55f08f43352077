"""What the kernel's log told, as events: in sentences of ours, with the GPU's UUID in place of its address."""

import time
from collections.abc import Callable
from typing import Final

from agents.device import DeviceEvent
from agents.kernel_lines import Line
from agents.kernel_log import KernelLog

QUIET_S: Final = 60.0
"""The same sentence is told once in this time: a bus that corrects errors may say so a thousand times a second."""
_QUIET_MAX: Final = 1000


class KernelEvents:
    """An event source over the log; `gpu_at` gives the UUID of a PCI address, `is_of_gpu_program` says whose kill matters."""

    def __init__(
        self,
        source: KernelLog,
        gpu_at: Callable[[str], str | None],
        is_of_gpu_program: Callable[[int], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._gpu_at = gpu_at
        self._is_of_gpu_program = is_of_gpu_program
        self._clock = clock
        self._told: dict[str, float] = {}

    @property
    def is_read(self) -> bool:
        """True while the log is read."""
        return self._source.is_read

    def notify(self, on_event: Callable[[], None]) -> None:
        """Begin to read; call `on_event`, in any thread, as soon as there is something to report."""
        self._source.start(on_event)

    def events(self) -> list[DeviceEvent]:
        """What the log told since the call before."""
        now = self._clock()
        return [event for line, at in self._source.take() if (event := self._event(line, at, now)) is not None]

    def close(self) -> None:
        """Let the log go."""
        self._source.close()

    def _event(self, line: Line, at: float | None, now: float) -> DeviceEvent | None:
        uuid, where = self._gpu(line)
        if line.kind == "xid":
            return DeviceEvent("xid", uuid, line.code, _xid(line, where), at)
        if line.kind == "oom":
            if line.pid is None or not self._is_of_gpu_program(line.pid):
                return None
            return DeviceEvent("oom", None, None, f"The kernel killed{_process(line)} of a GPU program: memory ran out.", at)
        if line.kind == "bus" and uuid is None:
            return None  # another device's bus
        kind, text = _sentence(line, where)
        if now - self._told.get(text, -QUIET_S) < QUIET_S:
            return None
        if len(self._told) >= _QUIET_MAX:
            self._told.clear()
        self._told[text] = now
        return DeviceEvent(kind, uuid if kind != "sxid" else None, line.code, text, at)

    def _gpu(self, line: Line) -> tuple[str | None, str]:
        """The GPU that the line names, and the address to show."""
        for one in line.addresses:
            uuid = self._gpu_at(one)
            if uuid is not None:
                return uuid, one
        return None, line.addresses[0] if line.addresses else "an unknown address"


def _xid(line: Line, where: str) -> str:
    text = f"XID {line.code}"
    if line.detail is not None and line.code != 154:
        text += f".{line.detail}"
    text += f" on the GPU at {where}"
    if line.instance is not None:
        text += f", MIG instance {line.instance}"
    text += "," * (line.pid is not None or line.name is not None) + _process(line)
    if line.code == 154 and line.detail is not None:
        text += f", recovery action {line.detail}"
    return text + "."


def _sentence(line: Line, where: str) -> tuple[str, str]:
    if line.kind == "sxid":
        severity = "fatal" if line.is_fatal else "not fatal"
        return "sxid", f"NVSwitch {line.detail} at {where} reports SXid {line.code}, {severity}."
    if line.kind == "lost":
        return "gpu_lost", f"The GPU at {where} has fallen off the bus."
    if line.kind == "mismatch":
        return "driver", (
            f"A program{_process(line)} came with a driver library of another version than the kernel module's: reboot, or stop "
            "every GPU program and reload the nvidia modules."
        )
    severity = "an uncorrected" if line.is_fatal else "a corrected"
    return "driver", f"PCIe reports {severity} error of the GPU at {where}."


def _process(line: Line) -> str:
    if line.pid is None:
        return "" if line.name is None else f" process {line.name}"
    return f" process {line.pid}" + ("" if line.name is None else f" ({line.name})")
