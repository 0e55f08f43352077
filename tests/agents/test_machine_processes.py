"""A machine's processes as they reach a tick: their labels once read, and what they report of themselves."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from agents import once
from agents.machine import Machine
from agents.nvml_device import NvmlDriver
from agents.reports import Reports
from agents.source import HOST, PROCESS, Tick
from tests.agents.fake_nvml import FakeNvml
from wire.pci import address

CLIENTS = Path(__file__).resolve().parents[2] / "clients"


async def ticked(machine: Machine) -> Tick:
    """A tick by which labels were read."""
    await machine.collect()
    async with asyncio.timeout(10):
        while not (tick := await machine.collect()).processes.labels:
            await asyncio.sleep(0.01)
    return tick


async def test_labels_and_reported_steps_of_a_holder_are_in_its_tick(tmp_path: Path) -> None:
    """The holder is a real process that reports with the real client; closing removes the socket."""
    path = tmp_path / "report.sock"
    nvml = FakeNvml()
    machine = Machine(NvmlDriver(nvml), reports=Reports((path,)))
    await machine.collect()
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, fettle_report as f; f.describe(layers=32); f.step(loss=0.5); print(flush=True); sys.stdin.read()",
        ],
        env={
            "PYTHONPATH": str(CLIENTS),
            "FETTLE_REPORT_SOCKET": str(path),
            "SLURM_JOB_ID": "7",
            "CUDA_VISIBLE_DEVICES": "1",
            "HF_TOKEN": "hunter2",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        nvml.gpus[0]["processes"] = [{"pid": child.pid, "usedGpuMemory": 1 << 30}]
        while "slurm_job" not in (tick := await ticked(machine)).processes.labels[0].labels:
            await asyncio.sleep(0.01)  # what it describes is known before its environment is read
        shown = once.as_dict("n", 0.0, machine, tick)["processes"][0]
    finally:
        child.communicate()
        await machine.close()

    assert tick.processes.pid == [child.pid]
    (labels,) = tick.processes.labels
    assert (labels.pid, labels.labels["slurm_job"], labels.labels["visible_gpus"]) == (child.pid, "7", "?1")
    assert labels.labels["told.layers"] == "32"
    assert "hunter2" not in str(labels)
    assert tick.processes.values[PROCESS.index("steps_total")] == [1]
    assert tick.processes.values[PROCESS.index("loss")] == [0.5]
    assert (shown["labels"]["slurm_job"], shown["steps_total"]) == ("7", 1)
    assert not path.exists()


async def test_a_holder_is_on_the_node_of_its_gpu_and_what_it_uses_is_not_others(tmp_path: Path) -> None:
    """All this machine's CPUs belong to the first of two nodes, where the first GPU is and the second is not; this process holds both
    in turn. The host's other cores are those that it keeps busy less this process's."""
    nvml = FakeNvml()
    for number, cpus in enumerate(("0-8191", "8192-8193")):
        (tmp_path / f"devices/system/node/node{number}").mkdir(parents=True)
        (tmp_path / f"devices/system/node/node{number}/cpulist").write_text(cpus + "\n")
    machine = Machine(NvmlDriver(nvml), sys=tmp_path)
    found = []
    try:
        await machine.collect()
        for number, gpu in enumerate(machine.inventory.gpus[:2]):
            folder = tmp_path / "bus/pci/devices" / f"{address(gpu.pci_bus_id)}.0"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "numa_node").write_text(f"{number}\n")
    finally:
        await machine.close()
    machine = Machine(NvmlDriver(nvml), sys=tmp_path)
    try:
        await machine.collect()
        for number in range(2):
            for one, card in enumerate(nvml.gpus):
                card["processes"] = [{"pid": os.getpid(), "usedGpuMemory": 1 << 30}] if one == number else []
            await machine.collect()
            await asyncio.sleep(0.05)
            tick = await machine.collect()
            found.append(tick.processes.values[PROCESS.index("numa_local")])
    finally:
        await machine.close()

    busy, others = (tick.host[HOST.index(name)] for name in ("cpu_busy_cores", "cpu_other_cores"))
    assert found == [[1], [0]]
    assert (others is None) == (busy is None)  # a sandbox may show no CPU time at all
    assert others is None or busy is None or 0 <= others <= busy
