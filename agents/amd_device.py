"""AMD SMI's Python library (`amdsmi`) behind the device seam; the only module that calls it.

It is imported where it is installed and nowhere else. What its pages say of units is not always what it does: temperatures are documented
as millidegrees and divided by 1000 on the way (amd_smi.cc, amdsmi_get_temp_metric); power caps are microwatts on bare metal in one release
and watts in another. No real value lies in both ranges, so the size tells the unit. Its MB are 1024² bytes.
"""

import importlib
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from agents.amd_readings import AmdReader, number
from agents.device import DeviceError, DeviceEvent, DriverError, GpuReader, Versions
from wire.messages import GpuFacts

log = logging.getLogger(__name__)

ROCM_PYTHON: Final = Path("/opt/rocm/share/amd_smi")
"""Where the package amd-smi-lib puts its Python library; pip copies it from there, which an agent without pip cannot."""
_CODES: Final = {  # amdsmi_status_t; the wrapper's own numbers come first, where it has the name
    "AMDSMI_STATUS_INVAL": 1,
    "AMDSMI_STATUS_NOT_SUPPORTED": 2,
    "AMDSMI_STATUS_NOT_YET_IMPLEMENTED": 3,
    "AMDSMI_STATUS_FAIL_LOAD_MODULE": 4,
    "AMDSMI_STATUS_FAIL_LOAD_SYMBOL": 5,
    "AMDSMI_STATUS_TIMEOUT": 8,
    "AMDSMI_STATUS_RETRY": 9,
    "AMDSMI_STATUS_NO_PERM": 10,
    "AMDSMI_STATUS_FILE_ERROR": 14,
    "AMDSMI_STATUS_INIT_ERROR": 18,
    "AMDSMI_STATUS_BUSY": 30,
    "AMDSMI_STATUS_NOT_FOUND": 31,
    "AMDSMI_STATUS_NOT_INIT": 32,
    "AMDSMI_STATUS_DRIVER_NOT_LOADED": 34,
    "AMDSMI_STATUS_NO_DATA": 40,
    "AMDSMI_STATUS_NO_DRV": 51,
    "AMDSMI_STATUS_FILE_NOT_FOUND": 52,
}
_REASON: Final = {
    "AMDSMI_STATUS_INVAL": "unsupported",  # a sensor or clock that the card has not
    "AMDSMI_STATUS_NOT_SUPPORTED": "unsupported",
    "AMDSMI_STATUS_NOT_YET_IMPLEMENTED": "unsupported",
    "AMDSMI_STATUS_FAIL_LOAD_SYMBOL": "unsupported",
    "AMDSMI_STATUS_FILE_NOT_FOUND": "unsupported",  # the driver has no such file for this card
    "AMDSMI_STATUS_NO_PERM": "not_permitted",
    "AMDSMI_STATUS_NOT_FOUND": "not_found",
    "AMDSMI_STATUS_NO_DATA": "not_found",
    "AMDSMI_STATUS_TIMEOUT": "timeout",
    "AMDSMI_STATUS_RETRY": "timeout",
    "AMDSMI_STATUS_BUSY": "timeout",
}
_STATE: Final = {
    "AMDSMI_STATUS_DRIVER_NOT_LOADED": "no_amd_driver",
    "AMDSMI_STATUS_NO_DRV": "no_amd_driver",
    "AMDSMI_STATUS_NO_PERM": "amd_not_permitted",
    "AMDSMI_STATUS_FILE_ERROR": "amd_not_permitted",
    "AMDSMI_STATUS_FAIL_LOAD_MODULE": "no_amd_library",
    "AMDSMI_STATUS_FAIL_LOAD_SYMBOL": "no_amd_library",
    "AMDSMI_STATUS_TIMEOUT": "timeout",
}
_REASON_OF_CLASS: Final = {
    "AmdSmiTimeoutException": "timeout",
    "AmdSmiRetryException": "timeout",
    "AmdSmiParameterException": "unsupported",  # the library's release does not know the argument
    "AmdSmiKeyException": "unsupported",
}


def library() -> Any:
    """The module `amdsmi`; ImportError where it is not installed, DriverError where its libamd_smi.so does not load."""
    try:
        return importlib.import_module("amdsmi")
    except ImportError:
        if not (ROCM_PYTHON / "amdsmi").is_dir():
            raise
    except Exception as error:  # it loads its library at import, and says in many ways that it cannot
        raise DriverError("no_amd_library", str(error)) from error
    sys.path.append(str(ROCM_PYTHON))
    try:
        return importlib.import_module("amdsmi")
    except Exception as error:
        raise DriverError("no_amd_library", str(error)) from error
    finally:
        sys.path.remove(str(ROCM_PYTHON))


class AmdGpu:
    """One GPU behind a handle of AMD SMI. `smi` is the module; `sysfs` is where the kernel shows its PCI devices."""

    def __init__(self, smi: Any, handle: object, index: int, sysfs: Path) -> None:
        self._smi = smi
        self._handle = handle
        uuid = str(self.ask("amdsmi_get_gpu_device_uuid")).strip()
        if not uuid.strip("-0") or uuid == "N/A":
            raise DeviceError("driver_error", f"GPU {index} has no UUID")
        self.facts = self._facts(index, uuid)
        self._pci = sysfs / "bus" / "pci" / "devices"

    def reader(self, slow_s: float) -> GpuReader:
        """A reader of what AMD SMI answers for this GPU."""
        return AmdReader(self, slow_s)

    def ask(self, call: str, *args: str) -> Any:
        """The answer of one call; an argument `AmdSmiClkType.GFX` names a member of the library's enumerations."""
        smi = self._smi
        try:
            function = getattr(smi, call)
            members = [getattr(getattr(smi, kind), member) for kind, _, member in (arg.partition(".") for arg in args)]
        except AttributeError as error:
            raise DeviceError("unsupported", f"this release of AMD SMI has no {error.name}") from error
        try:
            return function(self._handle, *members)
        except smi.AmdSmiException as error:
            raise DeviceError(_reason(smi, error), _words(error)) from error
        except (KeyError, ValueError, TypeError, UnicodeError) as error:  # its wrapper chokes on what the driver answers
            raise DeviceError("not_a_number", f"{call}: {error}") from error

    def is_gone(self) -> bool:
        """True when the kernel no longer shows the card on its bus: AMD SMI has no word of its own for that."""
        bus = self.facts.pci_bus_id
        return bus is not None and self._pci.is_dir() and not (self._pci / bus.lower()).exists()

    def _facts(self, index: int, uuid: str) -> GpuFacts:
        name = self._try(lambda: self.ask("amdsmi_get_gpu_asic_info")["market_name"])
        bus = self._try(lambda: self.ask("amdsmi_get_gpu_device_bdf"))
        cap = self._try(lambda: self.ask("amdsmi_get_power_cap_info")) or {}
        links = self._try(lambda: self.ask("amdsmi_get_pcie_info")["pcie_static"]) or {}
        return GpuFacts(
            index=index,
            uuid=uuid,
            name=str(name) if name and name != "N/A" else "AMD GPU",
            pci_bus_id=str(bus) if bus else None,
            mem_total_bytes=self._fact("mem_total_bytes", lambda: self.ask("amdsmi_get_gpu_vram_usage")["vram_total"]),
            power_limit_w=number("power_limit_w", cap.get("power_cap"))[0],
            power_limit_default_w=number("power_limit_w", cap.get("default_power_cap"))[0],
            sm_clock_max_mhz=self._fact("sm_clock_max_mhz", lambda: self._clock("GFX")),
            mem_clock_max_mhz=self._fact("mem_clock_max_mhz", lambda: self._clock("MEM")),
            pcie_link_gen_max=_whole(number("pcie_link_gen", links.get("pcie_interface_version"))[0]),
            pcie_link_width_max=_whole(number("pcie_link_width", links.get("max_pcie_width"))[0]),
        )

    def _clock(self, kind: str) -> object:
        return self.ask("amdsmi_get_clock_info", f"AmdSmiClkType.{kind}").get("max_clk")

    def _fact(self, metric: str, answer: Callable[[], object]) -> int | None:
        return _whole(number(metric, self._try(answer))[0])

    def _try(self, answer: Callable[[], Any]) -> Any:
        try:
            return answer()
        except (DeviceError, KeyError, TypeError, AttributeError):
            return None


class AmdDriver:
    """AMD SMI of this machine. `load` returns the module; `sysfs` is the kernel's /sys."""

    def __init__(self, load: Callable[[], Any] = library, sysfs: Path = Path("/sys")) -> None:
        self._load = load
        self._sysfs = sysfs
        self._smi: Any = None
        self._versions = Versions()
        self._unreachable: tuple[str, ...] = ()

    def open(self) -> tuple[AmdGpu, ...]:
        """Every GPU that answers; DriverError with a named state otherwise."""
        try:
            smi = self._load()
        except ImportError as error:
            raise DriverError("no_amd_library", str(error)) from error
        try:
            smi.amdsmi_init()
            self._smi = smi
            handles = list(smi.amdsmi_get_processor_handles())
        except smi.AmdSmiException as error:
            self.close()
            raise DriverError(self._state(smi, error), _words(error)) from error
        gpus: list[AmdGpu] = []
        unreachable: list[str] = []
        for index, handle in enumerate(handles):
            try:
                gpus.append(AmdGpu(smi, handle, index, self._sysfs))
            except DeviceError as error:
                unreachable.append(f"GPU {index} of {len(handles)} does not answer: {error}")
        self._unreachable = tuple(unreachable)
        if not gpus:
            self.close()
            raise DriverError("no_gpu", "; ".join(unreachable))
        self._versions = _versions(gpus[0])
        return _told_apart(gpus)

    def versions(self) -> Versions:
        """The version of the amdgpu driver; there is no CUDA."""
        return self._versions

    def unreachable(self) -> tuple[str, ...]:
        """GPUs that were counted but did not answer."""
        return self._unreachable

    def event(self, timeout_ms: int) -> DeviceEvent | None:
        """DeviceError: AMD SMI's events are not read."""
        raise DeviceError("unsupported", "AMD SMI's events are not read")

    def close(self) -> None:
        """Shut AMD SMI down, once for each time that it was started."""
        smi, self._smi = self._smi, None
        if smi is None:
            return
        try:
            smi.amdsmi_shut_down()
        except smi.AmdSmiException as error:
            log.debug("AMD SMI did not shut down: %s", _words(error))

    def _state(self, smi: Any, error: Exception) -> str:
        state = _STATE.get(_status(smi, error))
        if state is None and not (self._sysfs / "module" / "amdgpu").exists():
            return "no_amd_driver"  # it then says INIT_ERROR or NOT_INIT, as it does for other troubles too
        return state or "driver_error"


def _told_apart(gpus: list[AmdGpu]) -> tuple[AmdGpu, ...]:
    """The GPUs under UUIDs of their own: the partitions of one card may all answer with the card's."""
    seen: set[str] = set()
    for gpu in gpus:
        if gpu.facts.uuid in seen:
            place = gpu.facts.pci_bus_id or str(gpu.facts.index)
            gpu.facts = structs.replace(gpu.facts, uuid=f"{gpu.facts.uuid}@{place}")
        seen.add(gpu.facts.uuid)
    return tuple(gpus)


def _versions(gpu: AmdGpu) -> Versions:
    try:
        version = str(gpu.ask("amdsmi_get_gpu_driver_info").get("driver_version", "")).strip()
    except DeviceError as error:
        log.debug("AMD SMI does not tell the driver's version: %s", error)
        version = ""
    return Versions(driver=version if version not in ("", "N/A") else None)


def _status(smi: Any, error: Exception) -> str:
    """The name of an exception's status; empty where it has none that matters here."""
    code = getattr(error, "err_code", None)
    wrapper = getattr(smi, "amdsmi_wrapper", None)
    return next((name for name, known in _CODES.items() if code == getattr(wrapper, name, known)), "")


def _reason(smi: Any, error: Exception) -> str:
    for kind in type(error).__mro__:
        if kind.__name__ in _REASON_OF_CLASS:
            return _REASON_OF_CLASS[kind.__name__]
    return _REASON.get(_status(smi, error), "driver_error")


def _words(error: Exception) -> str:
    """What an exception says, on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
