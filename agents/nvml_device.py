"""NVML behind the device seam; the only module that calls it.

`fn(handle, ...)` answers in NVML's units: milliwatts, millijoules, percent, MiB/s. The registry's sources
scale them. GPM's traffic is in MiB/s, as nvml.h says: on a recorded two-GPU DDP run with 735 M fp32 gradients, which
must send 4 bytes a parameter and step, the NVLink rate comes to 4.00 bytes with MiB and to an impossible 3.82
with MB; a pageable copy measured at 18.5 GB/s of payload reads 19.9 GB/s with MiB, the 8 % more being the headers of
256-byte PCIe packets.
"""

import _ctypes
import logging
import re
from collections.abc import Sequence
from ctypes import ArgumentError, byref, c_void_p, cast
from types import ModuleType
from typing import Any, Final

import pynvml

from agents.collectors.nvml import GpuCollector
from agents.device import Answer, DeviceError, DeviceEvent, DriverError, FieldId, ResetRequiredError, Versions
from agents.nvml_gpm import GpmSamples
from agents.nvml_mig import NvmlInstance
from wire.messages import GpuFacts

log = logging.getLogger(__name__)

_REASON: Final = {
    pynvml.NVML_ERROR_INVALID_ARGUMENT: "unsupported",
    pynvml.NVML_ERROR_NOT_SUPPORTED: "unsupported",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "unsupported",
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: "unsupported",
    pynvml.NVML_ERROR_DEPRECATED: "unsupported",
    pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: "unsupported",
    pynvml.NVML_ERROR_NO_PERMISSION: "not_permitted",
    pynvml.NVML_ERROR_NOT_FOUND: "not_found",
    pynvml.NVML_ERROR_NO_DATA: "not_found",
    pynvml.NVML_ERROR_TIMEOUT: "timeout",
    pynvml.NVML_ERROR_GPU_IS_LOST: "gpu_lost",
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "gpu_lost",
}
_GPM_REASON: Final = _REASON | {
    pynvml.NVML_ERROR_IN_USE: "profiler_busy",
    pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES: "profiler_busy",
    pynvml.NVML_ERROR_INVALID_STATE: "profiler_busy",
}
_STATE: Final = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no_library",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "no_library",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "no_driver",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "version_mismatch",
    pynvml.NVML_ERROR_NO_PERMISSION: "not_permitted",
    pynvml.NVML_ERROR_TIMEOUT: "timeout",
}
_MEMBER: Final = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}
Known = dict[tuple[str | None, str, bool | None], set[str]]
"""What devices cannot answer, by driver version, UUID and MIG mode."""
_UNAVAILABLE: Final = 0xFFFFFFFFFFFFFFFF
_MEMORY: Final = ("nvmlMemory_v2",)
_EVENTS: Final = {
    pynvml.nvmlEventTypeXidCriticalError: "xid",
    pynvml.nvmlEventTypeSingleBitEccError: "ecc",
    pynvml.nvmlEventTypeDoubleBitEccError: "ecc",
    pynvml.nvmlEventTypeGpuUnavailableError: "gpu_lost",
}
_ON_CHIP: Final = re.compile(r"\b(GB10|Thor|Orin|Xavier)\b")
"""GPUs without memory of their own."""
_LINK_COUNT_FIELD: Final = pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT
_LINK_SPEED_FIELDS: Final = (pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, pynvml.NVML_FI_DEV_NVLINK_GET_SPEED)
"""All links' common speed, which an H200 under driver 580 does not tell, and the first link's own (scope 0)."""


def _device_error(error: Exception, reasons: dict[int, str] = _REASON) -> DeviceError:
    status = getattr(error, "value", -1)
    if status == pynvml.NVML_ERROR_RESET_REQUIRED:
        return ResetRequiredError("driver_error", str(error))
    return DeviceError(reasons.get(status, "driver_error"), str(error))


def gpm_error(error: Exception | int) -> DeviceError:
    """What a status of a GPM call, or the error that it raised, means."""
    if isinstance(error, int):
        return DeviceError(_GPM_REASON.get(error, "driver_error"))
    return _device_error(error, _GPM_REASON)


class NvmlDevice:
    """One GPU behind an NVML handle. `nvml` is the pynvml module."""

    def __init__(self, nvml: ModuleType | Any, index: int, known: Known | None = None, driver: str | None = None) -> None:
        self._nvml = nvml
        self._driver = driver
        self._error: type[Exception] = nvml.NVMLError
        self._known = {} if known is None else known
        try:
            self._handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(nvml.nvmlDeviceGetUUID(self._handle))
        except self._error as error:
            raise _device_error(error) from error
        if not uuid.strip("GPU-0"):
            raise DeviceError("driver_error", f"GPU {index} has no UUID")
        self.facts = self._facts(index, uuid)
        self._gpm = GpmSamples(nvml, self._handle, gpm_error)
        self.found: tuple[str, ...] = ()  # instances, as `split` saw them

    @property
    def address(self) -> object:
        """What tells its handle from others."""
        return _address(self._handle)

    def reader(self, slow_s: float) -> GpuCollector:
        """A reader of the registry's NVML, field and GPM metrics."""
        return GpuCollector(self, slow_s)

    def unsupported(self, mig_mode: bool | None) -> set[str]:
        """What this GPU is known not to answer under its driver and in this MIG mode."""
        return self._known.setdefault((self._driver, self.facts.uuid, mig_mode), set())

    def call(self, name: str, args: tuple[int | str, ...], struct: str | None = None) -> Any:
        """The answer of one NVML function for this GPU; a text argument names a constant of the module."""
        return self.call_of(self._handle, name, args, struct)

    def call_of(self, handle: object, name: str, args: tuple[int | str, ...], struct: str | None = None) -> Any:
        """The answer of one NVML function for `handle`, this GPU's or that of one of its instances."""
        nvml = self._nvml
        try:
            if struct is not None:
                filled = getattr(nvml, struct)()
                getattr(nvml, name)(handle, byref(filled))
                return filled
            return getattr(nvml, name)(handle, *[getattr(nvml, a) if isinstance(a, str) else a for a in args])
        except self._error as error:
            if args == _MEMORY and getattr(error, "value", -1) == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                # a driver from before 510: what is reserved is not told, nor counted as used
                return self.call_of(handle, name, ())
            raise _device_error(error) from error
        except (AttributeError, TypeError, ValueError, UnicodeError) as error:
            raise DeviceError("unsupported", f"{name}: {error}") from error

    def fields(self, ids: Sequence[FieldId]) -> list[Answer]:
        """Field values in one call; the status of each is checked, so that success never hides a made-up zero."""
        try:
            values = self._nvml.nvmlDeviceGetFieldValues(self._handle, ids)
        except self._error as error:
            raise _device_error(error) from error
        answers: list[Answer] = []
        for value in values:
            if value.nvmlReturn:
                answers.append(DeviceError(_REASON.get(value.nvmlReturn, "driver_error"), f"NVML status {value.nvmlReturn}"))
                continue
            member = _MEMBER.get(value.valueType)
            answers.append(getattr(value.value, member) if member else DeviceError("not_a_number", "unknown value type"))
        return answers

    def gpm(self, ids: Sequence[int]) -> list[Answer]:
        """GPM metrics between the sample of the call before and now.

        DeviceError `profiler_busy` while another tool holds them, `timeout` while another GPU's call does not come back.
        """
        return self._gpm.read(ids)

    def let_profiling_go(self) -> None:
        """Free GPM's samples."""
        self._gpm.free()

    def processes(self) -> list[tuple[int, int | None]]:
        """Compute processes; DeviceError where the driver will not list them (which is not "none")."""
        return self.processes_of(self._handle)

    def processes_of(self, handle: object) -> list[tuple[int, int | None]]:
        """Compute processes of `handle`, this GPU's or that of one of its instances."""
        try:
            found = self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        except self._error as error:
            raise _device_error(error) from error
        return [(p.pid, p.usedGpuMemory if p.usedGpuMemory not in (None, _UNAVAILABLE) else None) for p in found]

    def mig_mode(self) -> bool | None:
        """True while MIG is on; None where the card has none."""
        try:
            return bool(self._nvml.nvmlDeviceGetMigMode(self._handle)[0])
        except self._error:
            return None

    def instance_handles(self) -> list[tuple[object, str]]:
        """(handle, UUID) of every MIG instance; ids have holes, so each is asked for."""
        nvml = self._nvml
        try:
            most = nvml.nvmlDeviceGetMaxMigDeviceCount(self._handle)
        except self._error:
            return []
        found: list[tuple[object, str]] = []
        for number in range(most):
            try:
                handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(self._handle, number)
                found.append((handle, _text(nvml.nvmlDeviceGetUUID(handle))))
            except self._error:
                continue
        return [(handle, uuid) for handle, uuid in found if uuid.strip("MIG-0")]

    def instances(self) -> tuple[str, ...]:
        """UUIDs of its MIG instances."""
        return tuple(uuid for _, uuid in self.instance_handles())

    def split(self) -> list[NvmlInstance]:
        """Its MIG instances, each a GPU of its own; none where it is not split."""
        if not self.facts.mig_mode:
            return []
        handles = self.instance_handles()
        self.found = tuple(uuid for _, uuid in handles)
        return [NvmlInstance(self, self._nvml, handle, uuid) for handle, uuid in handles]

    def gpm_of(self, gpu_instance: int) -> GpmSamples:
        """GPM's samples of one GPU instance."""
        return GpmSamples(self._nvml, self._handle, gpm_error, gpu_instance)

    def report_to(self, events: object, kinds: int) -> None:
        """Report events of `kinds`, as far as the card knows them, to an NVML event set; DeviceError where it will not."""
        try:
            known = self._nvml.nvmlDeviceGetSupportedEventTypes(self._handle)
            self._nvml.nvmlDeviceRegisterEvents(self._handle, kinds & known, events)
        except self._error as error:
            raise _device_error(error) from error

    def _facts(self, index: int, uuid: str) -> GpuFacts:
        nvml = self._nvml
        capability = self._try("nvmlDeviceGetCudaComputeCapability")
        memory = self._try("nvmlDeviceGetMemoryInfo", nvml.nvmlMemory_v2) or self._try("nvmlDeviceGetMemoryInfo")
        bus = getattr(self._try("nvmlDeviceGetPciInfo"), "busId", None)
        limit = self._try("nvmlDeviceGetEnforcedPowerLimit")
        default = self._try("nvmlDeviceGetPowerManagementDefaultLimit")
        try:
            links, *speeds = self.fields((_LINK_COUNT_FIELD, *_LINK_SPEED_FIELDS))
        except DeviceError as error:
            links, speeds = error, []
        has_links = isinstance(links, int) and links > 0
        speed = next((one for one in speeds if isinstance(one, int) and one > 0), None)
        return GpuFacts(
            index=index,
            uuid=uuid,
            name=_text(self._try("nvmlDeviceGetName") or "unknown GPU"),
            pci_bus_id=None if bus is None else _text(bus),
            compute_capability=None if capability is None else "{}.{}".format(*capability),
            mem_total_bytes=getattr(memory, "total", None),
            power_limit_w=None if limit is None else limit / 1000,
            power_limit_default_w=None if default is None else default / 1000,
            sm_clock_max_mhz=self._try("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
            mem_clock_max_mhz=self._try("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM),
            pcie_link_gen_max=self._try("nvmlDeviceGetMaxPcieLinkGeneration"),
            pcie_link_width_max=self._try("nvmlDeviceGetMaxPcieLinkWidth"),
            nvlink_links=links if isinstance(links, int) else None,
            # NVML says "Mbps" and means MB/s of one link: 26562 on an H200, whose links carry 26.562 GB/s.
            nvlink_bytes_per_s_per_link=speed * 1e6 if has_links and speed is not None else None,
            mig_mode=self.mig_mode(),
            memory_kind=self._memory_kind(memory),
            accounting_mode=None if (accounting := self._try("nvmlDeviceGetAccountingMode")) is None else bool(accounting),
        )

    def _memory_kind(self, memory: object) -> str | None:
        """`unified` where the CPU's memory and the GPU's are one coherent whole, `own` where the GPU has its own, None where nobody knows."""
        nvml = self._nvml
        link = self._try("nvmlDeviceGetC2cModeInfoV")  # the link to the CPU of a Grace superchip
        if getattr(link, "isC2cEnabled", 0) or self._try("nvmlDeviceGetAddressingMode") == nvml.NVML_DEVICE_ADDRESSING_MODE_ATS:
            return "unified"
        if (node := self._try("nvmlDeviceGetNumaNodeId")) is not None and node >= 0:  # the kernel hands its memory out too
            return "unified"
        if memory is None:  # a GPU on the CPU's chip has none to tell of
            return "unified" if _ON_CHIP.search(_text(self._try("nvmlDeviceGetName") or "")) else None
        return "own"

    def _try(self, name: str, *args: object) -> Any:
        try:
            return getattr(self._nvml, name)(self._handle, *args)
        except (self._error, AttributeError, TypeError):
            return None


class NvmlDriver:
    """NVML of this machine. `nvml` is the pynvml module."""

    def __init__(self, nvml: ModuleType | Any = pynvml) -> None:
        self._nvml = nvml
        self._unreachable: tuple[str, ...] = ()
        self._events: Any = None
        self._open = False
        self._known: Known = {}
        self._devices: list[NvmlDevice | NvmlInstance] = []
        self._waiting = False  # a thread is in the library, waiting for events

    def open(self) -> tuple[NvmlDevice | NvmlInstance, ...]:
        """Every GPU that answers, each followed by its MIG instances; DriverError with a named state otherwise."""
        nvml = self._nvml
        try:
            nvml.nvmlInit()
            self._open = True
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            self.close()
            if error.value == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
                self._forget_library()
            raise DriverError(_STATE.get(error.value, "driver_error"), str(error)) from error
        except OSError as error:
            raise DriverError("no_library", str(error)) from error
        driver = self.versions().driver
        devices: list[NvmlDevice] = []
        unreachable: list[str] = []
        for index in range(count):
            try:
                devices.append(NvmlDevice(nvml, index, self._known, driver))
            except DeviceError as error:
                unreachable.append(f"GPU {index} of {count} does not answer: {error}")
        self._unreachable = tuple(unreachable)
        if not devices:
            self.close()
            raise DriverError("no_gpu", "; ".join(unreachable))
        self._events = self._register(devices)
        self._devices = []
        for device in devices:
            self._devices += [device, *device.split()]
        return tuple(self._devices)

    def _forget_library(self) -> None:
        """Load the library anew with the next `open`: the one in memory may be from before an upgrade of the driver."""
        if self._waiting:
            return  # next time: unloading it under a thread would crash
        nvml: Any = self._nvml
        library, nvml.nvmlLib = nvml.nvmlLib, None
        nvml._nvmlGetFunctionPointer_cache.clear()
        if isinstance(handle := getattr(library, "_handle", None), int):
            _ctypes.dlclose(handle)

    def versions(self) -> Versions:
        """What the driver says of itself."""
        nvml = self._nvml
        driver = cuda = None
        try:
            driver = _text(nvml.nvmlSystemGetDriverVersion())
            number = nvml.nvmlSystemGetCudaDriverVersion()
            cuda = f"{number // 1000}.{number % 1000 // 10}"
        except nvml.NVMLError as error:
            log.debug("The driver does not tell its version: %s", error)
        return Versions(driver, cuda)

    def unreachable(self) -> tuple[str, ...]:
        """GPUs that were counted but did not answer."""
        return self._unreachable

    def event(self, timeout_ms: int) -> DeviceEvent | None:
        """The next XID, ECC error or lost GPU; None after `timeout_ms`."""
        nvml = self._nvml
        if self._events is None:
            raise DeviceError("unsupported", "no GPU reports events")
        try:
            self._waiting = True
            data = nvml.nvmlEventSetWait(self._events, timeout_ms)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                return None
            raise _device_error(error) from error
        finally:
            self._waiting = False
        uuid = self._uuid_of(data.device)
        kind = _EVENTS.get(data.eventType, "driver")
        if kind == "xid":
            return DeviceEvent(kind, uuid, int(data.eventData), f"XID {data.eventData}")
        if kind == "ecc":
            double = data.eventType == nvml.nvmlEventTypeDoubleBitEccError
            return DeviceEvent(kind, uuid, 2 if double else 1, "Uncorrected memory error" if double else "Corrected memory error")
        return DeviceEvent(kind, uuid, None, f"NVML event {data.eventType:#x}")

    def _uuid_of(self, handle: object) -> str | None:
        """Of an event's GPU, which may be lost already and say nothing of itself any more; None where nobody knows it."""
        place = _address(handle)
        for device in self._devices:
            if isinstance(device, NvmlDevice) and device.address == place:
                return device.facts.uuid
        try:
            return _text(self._nvml.nvmlDeviceGetUUID(handle))
        except self._nvml.NVMLError:
            return None

    def close(self) -> None:
        """Shut NVML down; errors do not matter any more."""
        if not self._open:
            return
        self._open = False
        for device in self._devices:
            device.let_profiling_go()
        self._devices = []
        try:
            if self._events is not None:
                self._nvml.nvmlEventSetFree(self._events)
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError as error:
            log.debug("NVML did not shut down: %s", error)
        self._events = None

    def _register(self, devices: Sequence[NvmlDevice]) -> Any:
        """An event set with every GPU that takes part; None when none does."""
        nvml = self._nvml
        wanted = 0
        for kind in _EVENTS:
            wanted |= kind
        try:
            events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            return None
        registered = 0
        for device in devices:
            try:
                device.report_to(events, wanted)
                registered += 1
            except DeviceError as error:
                log.info("GPU %s reports no events: %s", device.facts.uuid, error)
        return events if registered else None


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _address(handle: Any) -> object:
    """Where a handle points to: equal for all handles of one GPU while the driver is open."""
    try:
        return cast(handle, c_void_p).value
    except (ArgumentError, TypeError):
        return handle
