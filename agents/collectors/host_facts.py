"""What of a host does not change from tick to tick: size, kernel, NUMA, the NVIDIA module and its parameters."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from agents.collectors import procfs
from agents.collectors.memory import meminfo
from wire.messages import GpuFacts, HostFacts
from wire.pci import address

PARAMETERS: Final = (
    "CoherentGPUMemoryMode",
    "CreateImexChannel0",
    "DmaRemapPeerMmio",
    "DynamicPowerManagement",
    "EnableGpuFirmware",
    "EnableMSI",
    "EnablePCIERelaxedOrderingMode",
    "EnablePCIeGen3",
    "EnableResizableBar",
    "EnableStreamMemOPs",
    "EnableUserNUMAManagement",
    "ExcludedGpus",
    "GrdmaPciTopoCheckOverride",
    "ImexChannelCount",
    "InitializeSystemMemoryAllocations",
    "NvLinkDisable",
    "PreserveVideoMemoryAllocations",
    "RegistryDwords",
    "RegistryDwordsPerDevice",
    "RmNvlinkBandwidthLinkCount",
    "RmProfilingAdminOnly",
    "UsePageAttributeTable",
)
"""Parameters of the module that bear on speed or on what can be read; no other one is told (some are paths)."""
_MODULE: Final = re.compile(rb"Kernel Module(?: for \S+)?\s+(\d[\d.]*)")
_VALUE_MAX: Final = 200
_PEER_MODULES: Final = ("nvidia_peermem", "nv_peer_mem")
_DMA_BUF_KERNEL: Final = (5, 12)
_BOOTED: Final = re.compile(rb"(?m)^btime (\d{1,12})$")
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)")


def facts(proc: Path = Path("/proc"), sys: Path = Path("/sys"), gpus: Iterable[GpuFacts] = ()) -> HostFacts:
    """The host's facts, and on which NUMA node each of `gpus` is; what the host does not say is named in `absent`, with the reason."""
    gpus = tuple(gpus)
    absent: dict[str, str] = {}
    content = _read(proc / "meminfo", absent, "mem_total_bytes")
    version = _read(proc / "driver" / "nvidia" / "version", absent, "nvidia_module_version")
    module = _MODULE.search(version or b"")
    if version is not None and module is None:
        absent["nvidia_module_version"] = "not_a_number"
    governor = _read(sys / "devices" / "system" / "cpu" / "cpu0" / "cpufreq" / "scaling_governor", absent, "cpu_governor")
    parameters = _read(proc / "driver" / "nvidia" / "params", absent, "nvidia_parameters")
    distances = _distances(sys / "devices" / "system" / "node")
    if not distances:
        absent["numa_distances"] = "not_found"
    nodes = _gpu_nodes(sys / "bus" / "pci" / "devices", gpus)
    if gpus and not nodes:
        absent["gpu_numa_nodes"] = "not_found"
    booted = _BOOTED.search(_read(proc / "stat", absent, "booted_at") or b"")
    ready = _rdma_ready(version, sys / "module", os.uname().release)
    if ready is None:
        absent["rdma_ready"] = absent.get("nvidia_module_version", "not_found")
    return HostFacts(
        rdma_ready=ready,
        booted_at=None if booted is None else float(booted[1]),
        cores=os.cpu_count(),
        mem_total_bytes=None if content is None else meminfo(content)[0],
        kernel=os.uname().release,
        cpu_governor=None if governor is None else governor.decode("ascii", "replace").strip()[:40] or None,
        numa_distances=distances,
        gpu_numa_nodes=nodes,
        nvidia_module_version=module[1].decode() if module else None,
        nvidia_parameters=_parameters(parameters or b""),
        absent=absent,
    )


def _rdma_ready(version: bytes | None, modules: Path, release: str) -> bool | None:
    """Whether adapters may read and write the GPUs' memory without the host's; None where that cannot be told.

    Either a module of NVIDIA's or Mellanox's does it, or NVIDIA's open kernel module through DMA-BUF, on Linux 5.12 and newer
    (https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html).
    """
    if version is None:
        return None
    if any((modules / name).exists() for name in _PEER_MODULES):
        return True
    found = _RELEASE.match(release)
    if b"Open Kernel Module" in version and found is not None:
        return (int(found[1]), int(found[2])) >= _DMA_BUF_KERNEL
    return False if modules.is_dir() else None


def _distances(nodes: Path) -> dict[int, tuple[int, ...]]:
    """The distances from each NUMA node to all of them, in their order; 10 is a node's own memory."""
    found = {}
    for folder in nodes.glob("node[0-9]*"):
        try:
            found[int(folder.name[4:])] = tuple(map(int, (_read(folder / "distance") or b"").split()))
        except ValueError:
            continue
    return dict(sorted(found.items()))


def _gpu_nodes(devices: Path, gpus: Iterable[GpuFacts]) -> dict[str, int]:
    """NUMA node of each GPU by its UUID; the kernel's -1 means that it does not know."""
    found = {}
    for gpu in gpus:
        where = address(gpu.pci_bus_id)
        content = None if where is None else _read(devices / f"{where}.0" / "numa_node")
        try:
            node = int(content or b"-1")
        except ValueError:
            continue
        if node >= 0:
            found[gpu.uuid] = node
    return found


def _parameters(content: bytes) -> dict[str, str]:
    found = {}
    for line in content.decode("utf-8", "replace").splitlines():
        name, colon, value = line.partition(":")
        if colon and name in PARAMETERS:
            found[name] = value.strip().strip('"')[:_VALUE_MAX]
    return found


def _read(path: Path, absent: dict[str, str] | None = None, fact: str = "") -> bytes | None:
    """What the file holds; None where it cannot be read, and then `absent` has the reason under the fact's name."""
    try:
        return procfs.read(str(path))
    except OSError as error:
        if absent is not None:
            absent[fact] = procfs.reason(error)
        return None
