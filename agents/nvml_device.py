"""NVML behind the device seam; its modules agents/nvml_*.py are the only ones that call it.

`fn(handle, ...)` answers in NVML's units: milliwatts, millijoules, percent, MiB/s. The registry's sources
scale them. GPM's traffic is in MiB/s, as nvml.h says: on a recorded two-GPU DDP run with 735 M fp32 gradients, which
must send 4 bytes a parameter and step, the NVLink rate comes to 4.00 bytes with MiB and to an impossible 3.82
with MB; a pageable copy measured at 18.5 GB/s of payload reads 19.9 GB/s with MiB, the 8 % more being the headers of
256-byte PCIe packets.
"""

import _ctypes
import logging
from collections.abc import Callable, Sequence
from ctypes import byref
from types import ModuleType
from typing import Any, Final

import pynvml

from agents.collectors.nvml import GpuCollector
from agents.device import Answer, DeviceError, DeviceEvent, DriverError, FieldId, Versions
from agents.nvml_errors import REASON, STATE, device_error, gpm_error
from agents.nvml_events import NvmlEvents, address
from agents.nvml_facts import facts, text
from agents.nvml_gpm import GpmSamples
from agents.nvml_mig import NvmlInstance

log = logging.getLogger(__name__)

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


class NvmlDevice:
    """One GPU behind an NVML handle. `nvml` is the pynvml module."""

    def __init__(self, nvml: ModuleType | Any, index: int, known: Known | None = None, driver: str | None = None) -> None:
        self._nvml = nvml
        self._driver = driver
        self._error: type[Exception] = nvml.NVMLError
        self._known = {} if known is None else known
        try:
            self._handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = text(nvml.nvmlDeviceGetUUID(self._handle))
        except self._error as error:
            raise device_error(error) from error
        if not uuid.strip("GPU-0"):
            raise DeviceError("driver_error", f"GPU {index} has no UUID")
        self.facts = facts(nvml, self._handle, index, uuid, self.fields)
        self._gpm = GpmSamples(nvml, self._handle, gpm_error)
        self.found: tuple[str, ...] = ()  # instances, as `split` saw them

    @property
    def address(self) -> object:
        """What tells its handle from others."""
        return address(self._handle)

    def reader(self, slow_s: float) -> GpuCollector:
        """A reader of the registry's NVML, field and GPM metrics."""
        return GpuCollector(self, slow_s)

    def unsupported(self, mig_mode: bool | None) -> set[str]:
        """What this GPU is known not to answer under its driver and in this MIG mode."""
        return self._known.setdefault((self._driver, self.facts.uuid, mig_mode), set())

    def call(self, name: str, args: tuple[int | str, ...], struct: str | None = None) -> Any:
        """The answer of one NVML function for this GPU; a text argument names a constant of the module."""
        return self.asker_of(self._handle, name, args, struct)()

    def asker(self, name: str, args: tuple[int | str, ...], struct: str | None = None) -> Callable[[], Any]:
        """Asks one NVML function for this GPU, each time that it is called."""
        return self.asker_of(self._handle, name, args, struct)

    def asker_of(self, handle: object, name: str, args: tuple[int | str, ...], struct: str | None = None) -> Callable[[], Any]:
        """Asks one NVML function for `handle`, this GPU's or that of one of its instances."""
        nvml, failed = self._nvml, self._error
        try:
            function = getattr(nvml, name)
            filled = None if struct is None else getattr(nvml, struct)
            given = [getattr(nvml, a) if isinstance(a, str) else a for a in args]
        except AttributeError as error:
            return _refusing(f"{name}: {error}")

        def ask() -> Any:
            try:
                if filled is not None:
                    answer = filled()
                    function(handle, byref(answer))
                    return answer
                return function(handle, *given)
            except failed as error:
                if args == _MEMORY and getattr(error, "value", -1) == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                    # a driver from before 510: what is reserved is not told, nor counted as used
                    return self.asker_of(handle, name, ())()
                raise device_error(error) from error
            except (AttributeError, TypeError, ValueError, UnicodeError) as error:
                raise DeviceError("unsupported", f"{name}: {error}") from error

        return ask

    def fields(self, ids: Sequence[FieldId]) -> list[Answer]:
        """Field values in one call; the status of each is checked, so that success never hides a made-up zero."""
        try:
            values = self._nvml.nvmlDeviceGetFieldValues(self._handle, ids)
        except self._error as error:
            raise device_error(error) from error
        answers: list[Answer] = []
        for value in values:
            if value.nvmlReturn:
                answers.append(DeviceError(REASON.get(value.nvmlReturn, "driver_error"), f"NVML status {value.nvmlReturn}"))
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
            raise device_error(error) from error
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
                found.append((handle, text(nvml.nvmlDeviceGetUUID(handle))))
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
            raise device_error(error) from error


def _refusing(text: str) -> Callable[[], Any]:
    def ask() -> Any:
        raise DeviceError("unsupported", text)

    return ask


class NvmlDriver:
    """NVML of this machine. `nvml` is the pynvml module."""

    def __init__(self, nvml: ModuleType | Any = pynvml) -> None:
        self._nvml = nvml
        self._unreachable: tuple[str, ...] = ()
        self._events: NvmlEvents | None = None
        self._open = False
        self._known: Known = {}
        self._devices: list[NvmlDevice | NvmlInstance] = []

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
            raise DriverError(STATE.get(error.value, "driver_error"), str(error)) from error
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
        self._events = NvmlEvents(nvml, devices)
        self._devices = []
        for device in devices:
            self._devices += [device, *device.split()]
        return tuple(self._devices)

    def _forget_library(self) -> None:
        """Load the library anew with the next `open`: the one in memory may be from before an upgrade of the driver."""
        if self._events is not None and self._events.is_waiting:
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
            driver = text(nvml.nvmlSystemGetDriverVersion())
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
        if self._events is None:
            raise DeviceError("unsupported", "the driver is not open")
        return self._events.wait(timeout_ms)

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
                self._events.free()
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError as error:
            log.debug("NVML did not shut down: %s", error)
