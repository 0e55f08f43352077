"""A MIG instance as a GPU of its own: its memory, its processes, and the profiling metrics of its slice.

All else that NVML tells (power, temperature, clocks, health) is the whole card's, and stands there: on each slice it would be
counted several times. NVML has no utilisation of an instance; `sm_active` is what there is, of Hopper and newer.
"""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from agents.collectors.nvml import GpuCollector
from agents.device import Answer, DeviceError, FieldId
from wire.messages import GpuFacts

if TYPE_CHECKING:
    from agents.nvml_device import NvmlDevice

_ITS_OWN: Final = ("nvmlDeviceGetMemoryInfo",)


class NvmlInstance:
    """One MIG device of `parent`, behind its own NVML handle; `uuid` is the driver's and never used again by it."""

    def __init__(self, parent: "NvmlDevice", nvml: ModuleType | Any, handle: object, uuid: str) -> None:
        self._parent = parent
        self._handle = handle
        gpu_instance = self._told("nvmlDeviceGetGpuInstanceId")
        compute_instance = self._told("nvmlDeviceGetComputeInstanceId")
        attributes = self._told("nvmlDeviceGetAttributes_v2")
        memory = self._told("nvmlDeviceGetMemoryInfo", "nvmlMemory_v2") or self._told("nvmlDeviceGetMemoryInfo")
        name = self._told("nvmlDeviceGetName")
        name = name.decode(errors="replace") if isinstance(name, bytes) else name or f"{parent.facts.name} MIG"
        self.facts = GpuFacts(
            index=parent.facts.index,
            uuid=uuid,
            name=name,
            pci_bus_id=parent.facts.pci_bus_id,
            compute_capability=parent.facts.compute_capability,
            mem_total_bytes=getattr(memory, "total", None),
            parent_uuid=parent.facts.uuid,
            mig_profile=_profile(name, attributes),
            mig_gpu_instance=gpu_instance,
            mig_compute_instance=compute_instance,
            memory_kind=parent.facts.memory_kind,
        )
        # GPM tells of the GPU instance: where several compute instances share it, none of them can call it its own
        shared = attributes is not None and attributes.computeInstanceSliceCount < attributes.gpuInstanceSliceCount
        self._gpm = None if gpu_instance is None or shared else parent.gpm_of(gpu_instance)
        self._unsupported: set[str] = set()
        self.found: tuple[str, ...] = ()

    def reader(self, slow_s: float) -> GpuCollector:
        """A reader of what the instance has of its own."""
        return GpuCollector(self, slow_s)

    def call(self, name: str, args: tuple[int | str, ...], struct: str | None = None) -> Any:
        """Its memory; everything else is the card's."""
        return self.asker(name, args, struct)()

    def asker(self, name: str, args: tuple[int | str, ...], struct: str | None = None) -> Callable[[], Any]:
        """Asks for its memory, each time that it is called."""
        ask_driver = self._parent.asker_of(self._handle, name, args, struct)

        def ask() -> Any:
            if name not in _ITS_OWN:
                raise DeviceError("unsupported", f"{name} tells of the whole card")
            try:
                return ask_driver()
            except DeviceError as error:  # what it could answer before it was destroyed is no lack of the card
                raise DeviceError("not_found" if error.reason == "unsupported" else error.reason, str(error)) from error

        return ask

    def unsupported(self, mig_mode: bool | None) -> set[str]:
        """What this instance cannot answer; another one, of another size, has its own."""
        return self._unsupported

    def fields(self, ids: Sequence[FieldId]) -> list[Answer]:
        """Fields are the card's."""
        return [DeviceError("unsupported", "fields tell of the whole card") for _ in ids]

    def gpm(self, ids: Sequence[int]) -> list[Answer]:
        """Means of its slice since the call before."""
        if self._gpm is None:
            raise DeviceError("unsupported", "the GPU instance is shared by several compute instances")
        return self._gpm.read(ids)

    def let_profiling_go(self) -> None:
        """Free GPM's samples."""
        if self._gpm is not None:
            self._gpm.free()

    def processes(self) -> list[tuple[int, int | None]]:
        """Compute processes in this instance."""
        return self._parent.processes_of(self._handle)

    def mig_mode(self) -> bool | None:
        """An instance cannot be split further by MIG."""
        return None

    def instances(self) -> tuple[str, ...]:
        """None."""
        return ()

    def _told(self, name: str, *args: str) -> Any:
        try:
            return self._parent.asker_of(self._handle, name, args)()
        except DeviceError:
            return None


def _profile(name: str, attributes: Any) -> str | None:
    """`1g.10gb`: as the driver writes it in the name (old ones do not), else from the slice's size."""
    _, _, told = name.partition(" MIG ")
    if told:
        return told.strip()
    if attributes is None:
        return None
    return f"{attributes.gpuInstanceSliceCount}g.{round(attributes.memorySizeMB / 1024)}gb"
