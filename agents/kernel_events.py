"""What the kernel's log told, as events: in sentences of ours, with the GPU's UUID in place of its address.

The machine's own errors are told whatever part they are of, those of PCIe where a GPU is at the address or below the port.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from agents.device import DeviceEvent
from agents.kernel_line import Line
from agents.kernel_log import KernelLog
from agents.kernel_storms import QUIET_S, Storms

log = logging.getLogger(__name__)

_QUIET_MAX: Final = 1000
_HARDWARE: Final = ("bus", "cpu", "memory", "hardware", "logged")
_DETAILS: Final = ("cpu", "memory", "hardware")
_HOW: Final = {"info": "a corrected", "warn": "an uncorrected", "critical": "a fatal"}


class KernelEvents:
    """An event source over the log; `gpu_at` gives the UUID of a PCI address, `is_of_gpu_program` says whose kill matters.

    `gpus_below` gives the UUIDs of the GPUs below a PCIe port (`0000:00:01.1`).
    """

    def __init__(
        self,
        source: KernelLog,
        gpu_at: Callable[[str], str | None],
        is_of_gpu_program: Callable[[int], bool],
        clock: Callable[[], float] = time.monotonic,
        gpus_below: Callable[[str], tuple[str, ...]] = lambda port: (),
    ) -> None:
        self._source = source
        self._gpu_at = gpu_at
        self._is_of_gpu_program = is_of_gpu_program
        self._clock = clock
        self._gpus_below = gpus_below
        self._told: dict[str, float] = {}
        self._storms = Storms()

    @property
    def is_read(self) -> bool:
        """True while the log is read."""
        return self._source.is_read

    @property
    def trouble(self) -> str:
        """Why the log is not read and what to do; empty while it is, and before the start."""
        return self._source.trouble

    def notify(self, on_event: Callable[[], None]) -> None:
        """Begin to read; call `on_event`, in any thread, as soon as there is something to report."""
        self._source.start(on_event)

    def events(self) -> list[DeviceEvent]:
        """What the log told since the call before."""
        now = self._clock()
        told = self._storms.ended(now)
        came = self._source.take()
        if any(line.kind in _DETAILS for line, _ in came):  # a line or two further the kernel says what it was
            came = [(line, at) for line, at in came if line.kind != "logged"]
        return told + [event for line, at in came if (event := self._safe_event(line, at, now)) is not None]

    def close(self) -> None:
        """Let the log go."""
        self._source.close()

    def _safe_event(self, line: Line, at: float | None, now: float) -> DeviceEvent | None:
        """A line that our telling of it stumbles over costs itself alone, not those that came with it."""
        try:
            return self._event(line, at, now)
        except Exception:
            log.exception("A line of the kernel's log (%s) could not be told of", line.kind)
            return None

    def _event(self, line: Line, at: float | None, now: float) -> DeviceEvent | None:
        uuid, where = self._gpu(line)
        if line.kind == "xid":
            return DeviceEvent("xid", uuid, line.code, _xid(line, where), at, line.severity, _details(line))
        if line.kind == "oom":
            if line.pid is None or not self._is_of_gpu_program(line.pid):
                return None
            return DeviceEvent("oom", None, None, f"The kernel killed{_process(line)} of a GPU program: memory ran out.", at)
        if line.kind in _HARDWARE:
            event = self._of_bus(line, uuid, where, at) if line.kind == "bus" else _of_machine(line, at)
            return None if event is None else self._storms.take(event, line.count, now)
        kind, text = _sentence(line, where)
        if now - self._told.get(text, -QUIET_S) < QUIET_S:
            return None
        if len(self._told) >= _QUIET_MAX:
            self._told.clear()
        self._told[text] = now
        severity = None if kind != "sxid" else "critical" if line.is_fatal else "info"
        return DeviceEvent(kind, uuid if kind != "sxid" else None, line.code, text, at, severity, _details(line))

    def _of_bus(self, line: Line, uuid: str | None, where: str, at: float | None) -> DeviceEvent | None:
        """None: neither a GPU's nor of a port above one."""
        how = _HOW[line.severity or "warn"]
        if uuid is not None:
            return DeviceEvent("pcie", uuid, None, f"PCIe reports {how} error of the GPU at {where}.", at, line.severity)
        below = self._gpus_below(line.where)
        if not below:
            return None
        whom = "a GPU" if len(below) == 1 else f"{len(below)} GPUs"
        text = f"PCIe reports {how} error of the port at {line.where}, above {whom}."
        return DeviceEvent("pcie", below[0] if len(below) == 1 else None, None, text, at, line.severity)

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


def _details(line: Line) -> dict[str, int | str]:
    """What the line says, by the names of wire.messages.DETAILS."""
    said: dict[str, int | str | None] = {
        "pci_bus_id": line.addresses[0] if line.addresses else None,
        "mig_instance": line.instance,
        "pid": line.pid,
        "process": line.name,
    }
    if line.kind == "xid":
        said["recovery_action" if line.code == 154 else "sub_code"] = line.detail
        said |= {"unit": line.where or None, "link": line.link}
    elif line.kind == "sxid":
        said |= {"switch": line.detail, "fatal": int(line.is_fatal)}
    return {name: value for name, value in said.items() if value is not None}


def _sentence(line: Line, where: str) -> tuple[str, str]:
    if line.kind == "sxid":
        severity = "fatal" if line.is_fatal else "not fatal"
        return "sxid", f"NVSwitch {line.detail} at {where} reports SXid {line.code}, {severity}."
    if line.kind == "lost":
        return "gpu_lost", f"The GPU at {where} has fallen off the bus."
    return "driver", (
        f"A program{_process(line)} came with a driver library of another version than the kernel module's: reboot, or stop "
        "every GPU program and reload the nvidia modules."
    )


def _of_machine(line: Line, at: float | None) -> DeviceEvent:
    """A machine check, an error of the host's memory, or what the firmware reports of another part."""
    if line.kind == "logged":
        text = "The kernel logged machine check events without saying more; mcelog or rasdaemon may know what they are."
        return DeviceEvent("cpu", None, None, text, at, "info")
    how, where = _HOW[line.severity or "warn"], f": {line.where}" if line.where else ""
    if line.kind == "cpu":
        return DeviceEvent("cpu", None, None, f"The CPU reports {how} machine check{where}.", at, line.severity)
    if line.kind == "memory":
        return DeviceEvent("memory", None, None, f"The host's memory has {how} error{where}.", at, line.severity)
    return DeviceEvent("hardware", None, None, f"The firmware reports {how} hardware error{where}.", at, line.severity)


def _process(line: Line) -> str:
    if line.pid is None:
        return "" if line.name is None else f" process {line.name}"
    return f" process {line.pid}" + ("" if line.name is None else f" ({line.name})")
