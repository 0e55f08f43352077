"""What a host is: NUMA, the NVIDIA module, the governor."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from agents.collectors.host_facts import facts
from wire.messages import GpuFacts


def test_facts_tell_the_module_and_where_each_gpu_is(tmp_path: Path) -> None:
    """The version and the parameters are those of a node of H200; paths are not told."""
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    (proc / "driver/nvidia").mkdir(parents=True)
    (proc / "driver/nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)  \n"
        "GCC version:  gcc version 15.3.0 (GCC) \n"
    )
    (proc / "driver/nvidia/params").write_text(
        'RmProfilingAdminOnly: 1\nEnableGpuFirmware: 18\nRegistryDwords: ""\nTemporaryFilePath: "/home/somebody"\n'
    )
    for node, distances in ((0, "10 21"), (1, "21 10")):
        (sys / f"devices/system/node/node{node}").mkdir(parents=True)
        (sys / f"devices/system/node/node{node}/distance").write_text(distances + "\n")
    for bus, node in (("0000:19:00.0", 1), ("0000:3b:00.0", -1)):
        (sys / "bus/pci/devices" / bus).mkdir(parents=True)
        (sys / "bus/pci/devices" / bus / "numa_node").write_text(f"{node}\n")
    (sys / "devices/system/cpu/cpu0/cpufreq").mkdir(parents=True)
    (sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor").write_text("powersave\n")
    gpus = [
        GpuFacts(index=i, uuid=f"GPU-{i}", name="H200", pci_bus_id=bus)
        for i, bus in enumerate(["00000000:19:00.0", "00000000:3B:00.0", "00000000:5D:00.0", None])
    ]
    (proc / "stat").write_bytes(b"cpu  1 2 3 4\nbtime 1750000000\nprocesses 9\n")
    told = facts(proc, sys, gpus)

    assert told.nvidia_module_version == "580.159.04"
    assert told.nvidia_parameters == {"RmProfilingAdminOnly": "1", "EnableGpuFirmware": "18", "RegistryDwords": ""}
    assert told.gpu_numa_nodes == {"GPU-0": 1}
    assert told.numa_distances == {0: (10, 21), 1: (21, 10)}
    assert told.cpu_governor == "powersave"
    assert told.booted_at == 1_750_000_000
    assert told.absent == {"mem_total_bytes": "not_found"}
    assert told.rdma_ready is (tuple(map(int, os.uname().release.split(".")[:2])) >= (5, 12))


def test_a_host_that_tells_nothing_has_no_facts_made_up(tmp_path: Path) -> None:
    """No NVIDIA, no NUMA, no cpufreq: absent, not zero."""
    told = facts(tmp_path, tmp_path)

    assert (told.mem_total_bytes, told.cpu_governor, told.nvidia_module_version) == (None, None, None)
    assert (told.numa_distances, told.gpu_numa_nodes, told.nvidia_parameters) == ({}, {}, {})
    assert told.absent == dict.fromkeys(
        (
            "booted_at",
            "mem_total_bytes",
            "cpu_governor",
            "numa_distances",
            "nvidia_module_version",
            "nvidia_parameters",
            "rdma_ready",
        ),
        "not_found",
    )


def test_facts_that_may_not_be_read_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A governor in a container's hidden /sys is another matter than none."""

    def refuse(path: str) -> bytes:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("agents.collectors.procfs.read", refuse)

    assert facts(tmp_path, tmp_path).absent["cpu_governor"] == "not_permitted"


def test_the_older_closed_module_writes_its_version_without_open(tmp_path: Path) -> None:
    """As drivers before 515 do."""
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    (tmp_path / "driver/nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n"
    )

    assert facts(tmp_path, tmp_path).nvidia_module_version == "535.183.01"


@pytest.mark.parametrize(
    ("module", "loaded", "kernel", "ready"),
    [
        ("Open Kernel Module for x86_64  580.159.04", (), "6.8.0-45-generic", True),
        ("Open Kernel Module for x86_64  580.159.04", (), "5.10.0-9-amd64", False),
        ("Open Kernel Module for x86_64  580.159.04", ("nvidia_peermem",), "5.10.0-9-amd64", True),
        ("x86_64 Kernel Module  535.183.01", (), "6.8.0", False),
        ("x86_64 Kernel Module  535.183.01", ("nv_peer_mem",), "6.8.0", True),
        ("x86_64 Kernel Module  535.183.01", None, "6.8.0", None),
        (None, ("nvidia_peermem",), "6.8.0", None),
    ],
)
def test_adapters_reach_the_gpus_memory_by_a_module_or_by_dma_buf(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: str | None,
    loaded: tuple[str, ...] | None,
    kernel: str,
    ready: bool | None,
) -> None:
    """DMA-BUF needs NVIDIA's open module and Linux 5.12; where modules cannot be seen, or there is no driver, nothing is known."""
    if module is not None:
        (tmp_path / "driver/nvidia").mkdir(parents=True)
        (tmp_path / "driver/nvidia/version").write_text(f"NVRM version: NVIDIA UNIX {module}  Release Build\n")
    if loaded is not None:
        (tmp_path / "module").mkdir()
        for name in loaded:
            (tmp_path / "module" / name).mkdir()
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(release=kernel))
    told = facts(tmp_path, tmp_path)

    assert told.rdma_ready is ready
    assert ("rdma_ready" in told.absent) is (ready is None)
