"""What one GPU tells NVML of itself once: name, sizes, limits, links, modes."""

import re
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

import pynvml

from agents.device import Answer, DeviceError
from wire.messages import GpuFacts

_ON_CHIP: Final = re.compile(r"\b(GB10|Thor|Orin|Xavier)\b")
"""GPUs without memory of their own."""
_LINK_COUNT_FIELD: Final = pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT
_LINK_SPEED_FIELDS: Final = (pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, pynvml.NVML_FI_DEV_NVLINK_GET_SPEED)
"""All links' common speed, which an H200 under driver 580 does not tell, and the first link's own (scope 0)."""
_GA100: Final = (8, 0)
"""Later ones tell power as the mean of a second, it and older ones an instant (the text of nvmlDeviceGetPowerUsage in
https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html)."""
Ask = Callable[..., Any]
"""The answer of a function of NVML for the GPU; None where it has none."""


def facts(
    nvml: ModuleType | Any, handle: object, index: int, uuid: str, fields: Callable[[Sequence[int]], list[Answer]]
) -> GpuFacts:
    """The facts of the GPU behind `handle`; `nvml` is the pynvml module, `fields` asks for field values."""

    def ask(name: str, *args: object) -> Any:
        try:
            return getattr(nvml, name)(handle, *args)
        except (nvml.NVMLError, AttributeError, TypeError):
            return None

    capability = ask("nvmlDeviceGetCudaComputeCapability")
    memory = ask("nvmlDeviceGetMemoryInfo", nvml.nvmlMemory_v2) or ask("nvmlDeviceGetMemoryInfo")
    name = text(ask("nvmlDeviceGetName") or "unknown GPU")
    bus = getattr(ask("nvmlDeviceGetPciInfo"), "busId", None)
    limit = ask("nvmlDeviceGetEnforcedPowerLimit")
    default = ask("nvmlDeviceGetPowerManagementDefaultLimit")
    mig = ask("nvmlDeviceGetMigMode")
    scope = _power_scope(ask)
    accounting = ask("nvmlDeviceGetAccountingMode")
    try:
        links, *speeds = fields((_LINK_COUNT_FIELD, *_LINK_SPEED_FIELDS))
    except DeviceError as error:
        links, speeds = error, []
    has_links = isinstance(links, int) and links > 0
    speed = next((one for one in speeds if isinstance(one, int) and one > 0), None)
    return GpuFacts(
        index=index,
        uuid=uuid,
        name=name,
        pci_bus_id=None if bus is None else text(bus),
        compute_capability=None if capability is None else "{}.{}".format(*capability),
        mem_total_bytes=getattr(memory, "total", None),
        power_limit_w=None if limit is None else limit / 1000,
        power_limit_default_w=None if default is None else default / 1000,
        sm_clock_max_mhz=ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
        mem_clock_max_mhz=ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM),
        pcie_link_gen_max=ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        pcie_link_width_max=ask("nvmlDeviceGetMaxPcieLinkWidth"),
        nvlink_links=links if isinstance(links, int) else None,
        # NVML says "Mbps" and means MB/s of one link: 26562 on an H200, whose links carry 26.562 GB/s.
        nvlink_bytes_per_s_per_link=speed * 1e6 if has_links and speed is not None else None,
        mig_mode=None if mig is None else bool(mig[0]),
        memory_kind=_memory_kind(nvml, ask, name, memory),
        power_scope=scope,
        power_average_s=None if capability is None or scope is None else 1.0 if tuple(capability) > _GA100 else 0.0,
        accounting_mode=None if accounting is None else bool(accounting),
    )


def _memory_kind(nvml: ModuleType | Any, ask: Ask, name: str, memory: object) -> str | None:
    """`unified` where the CPU's memory and the GPU's are one coherent whole, `own` where the GPU has its own, None: unknown."""
    link = ask("nvmlDeviceGetC2cModeInfoV")  # the link to the CPU of a Grace superchip
    if getattr(link, "isC2cEnabled", 0) or ask("nvmlDeviceGetAddressingMode") == nvml.NVML_DEVICE_ADDRESSING_MODE_ATS:
        return "unified"
    if (node := ask("nvmlDeviceGetNumaNodeId")) is not None and node >= 0:  # the kernel hands its memory out too
        return "unified"
    if memory is None:  # a GPU on the CPU's chip has none to tell of
        return "unified" if _ON_CHIP.search(name) else None
    return "own"


def _power_scope(ask: Ask) -> str | None:
    """`module` on a superchip: its energy counter counts the CPU too (https://github.com/ml-energy/zeus/pull/172), and the GPU slows
    down for a limit of the module that its own limit does not show. `gpu` elsewhere; None: no answer to tell it by.
    """
    if getattr(ask("nvmlDeviceGetC2cModeInfoV"), "isC2cEnabled", 0):
        return "module"
    return None if ask("nvmlDeviceGetPowerUsage") is None else "gpu"


def text(value: str | bytes) -> str:
    """What NVML answers as text, whichever version of its binding says it."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
