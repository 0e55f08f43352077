"""What NVML reports of its own accord: XIDs, ECC errors and lost GPUs, of all GPUs that take part."""

import logging
from collections.abc import Sequence
from ctypes import ArgumentError, c_void_p, cast
from types import ModuleType
from typing import Any, Final, Protocol

import pynvml

from agents.device import DeviceError, DeviceEvent
from agents.nvml_errors import device_error
from agents.nvml_facts import text
from wire.messages import GpuFacts

log = logging.getLogger(__name__)

_KINDS: Final = {
    pynvml.nvmlEventTypeXidCriticalError: "xid",
    pynvml.nvmlEventTypeSingleBitEccError: "ecc",
    pynvml.nvmlEventTypeDoubleBitEccError: "ecc",
    pynvml.nvmlEventTypeGpuUnavailableError: "gpu_lost",
}


class Reporter(Protocol):
    """A GPU that can report."""

    @property
    def facts(self) -> GpuFacts:
        """Of which its UUID is needed."""

    @property
    def address(self) -> object:
        """What tells its handle from others."""

    def report_to(self, events: object, kinds: int) -> None:
        """Report to an event set; DeviceError where it will not."""


class NvmlEvents:
    """An event set with every GPU that takes part. `nvml` is the pynvml module."""

    def __init__(self, nvml: ModuleType | Any, gpus: Sequence[Reporter]) -> None:
        self.is_waiting = False  # a thread is in the library
        self._nvml = nvml
        self._uuids = {gpu.address: gpu.facts.uuid for gpu in gpus}
        self._events = self._registered(gpus)

    def wait(self, timeout_ms: int) -> DeviceEvent | None:
        """The next XID, ECC error or lost GPU; None after `timeout_ms`, DeviceError where nothing is to be had."""
        nvml = self._nvml
        if self._events is None:
            raise DeviceError("unsupported", "no GPU reports events")
        try:
            self.is_waiting = True
            data = nvml.nvmlEventSetWait(self._events, timeout_ms)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                return None
            raise device_error(error) from error
        finally:
            self.is_waiting = False
        uuid = self._uuid_of(data.device)
        kind = _KINDS.get(data.eventType, "driver")
        if kind == "xid":
            return DeviceEvent(kind, uuid, int(data.eventData), f"XID {data.eventData}")
        if kind == "ecc":
            double = data.eventType == nvml.nvmlEventTypeDoubleBitEccError
            return DeviceEvent(kind, uuid, 2 if double else 1, "Uncorrected memory error" if double else "Corrected memory error")
        return DeviceEvent(kind, uuid, None, f"NVML event {data.eventType:#x}")

    def free(self) -> None:
        """Give the set back, nothing is reported any more; raises NVML's own error."""
        events, self._events = self._events, None
        if events is not None:
            self._nvml.nvmlEventSetFree(events)

    def _registered(self, gpus: Sequence[Reporter]) -> Any:
        """The set; None when no GPU takes part."""
        nvml = self._nvml
        wanted = 0
        for kind in _KINDS:
            wanted |= kind
        try:
            events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            return None
        registered = 0
        for gpu in gpus:
            try:
                gpu.report_to(events, wanted)
                registered += 1
            except DeviceError as error:
                log.info("GPU %s reports no events: %s", gpu.facts.uuid, error)
        return events if registered else None

    def _uuid_of(self, handle: object) -> str | None:
        """Of an event's GPU, which may be lost already and say nothing of itself any more; None where nobody knows it."""
        known = self._uuids.get(address(handle))
        if known is not None:
            return known
        try:
            return text(self._nvml.nvmlDeviceGetUUID(handle))
        except self._nvml.NVMLError:
            return None


def address(handle: Any) -> object:
    """Where a handle points to: equal for all handles of one GPU while the driver is open."""
    try:
        return cast(handle, c_void_p).value
    except (ArgumentError, TypeError):
        return handle
