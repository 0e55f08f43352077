"""A machine's processes as they reach a tick: their labels once read, and what they report of themselves."""

import asyncio
import subprocess
import sys
from pathlib import Path

from agents import once
from agents.machine import Machine
from agents.nvml_device import NvmlDriver
from agents.reports import Reports
from agents.source import PROCESS, Tick
from tests.agents.fake_nvml import FakeNvml

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
