"""This machine with a kernel log: a fault that the driver and the log both report is one event, counted once."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pynvml  # noqa: TID251 - constants of the real module
import pytest

from agents import kept_driver
from agents.device import DeviceEvent
from agents.kernel_log import KernelLog
from agents.machine import Machine
from agents.nvml_device import NvmlDriver
from agents.source import GPU
from tests.agents.fake_nvml import FakeNvml
from tests.agents.proc import Proc
from wire.pci import address


class Node:
    """A machine of two GPUs whose kernel log is a file."""

    def __init__(self, folder: Path) -> None:
        self.nvml = FakeNvml()
        self.file = folder / "kmsg"
        self.file.touch()
        self.log = KernelLog(self.file)
        (folder / "proc").mkdir()
        self.proc = Proc(folder / "proc")
        self.machine = Machine(NvmlDriver(self.nvml), self.proc.root, kernel_log=self.log)
        self.told: list[DeviceEvent] = []
        self.machine.notify(lambda: None)

    async def begin(self) -> None:
        """The GPUs are known, and the log is read."""
        await self.machine.collect()
        await self.until(lambda: self.log.is_read)
        await asyncio.sleep(0.1)
        self.events()

    def pci(self, index: int) -> str:
        """Where a GPU is."""
        return address(self.machine.inventory.gpus[index].pci_bus_id) or ""

    def log_says(self, *messages: str) -> None:
        """As the kernel writes them."""
        with self.file.open("a") as file:
            file.writelines(f"3,1,1000,-;{message}\n" for message in messages)

    def events(self) -> list[DeviceEvent]:
        """Everything told so far."""
        self.told += self.machine.events()
        return self.told

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for threads."""
        for _ in range(500):
            if condition():
                return
            await asyncio.sleep(0.01)
        raise AssertionError(self.told)

    async def xids(self) -> list[object]:
        """The count of each GPU."""
        tick = await self.machine.collect()
        return list(tick.gpu[GPU.index("xid_errors_total")])


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Tests do not wait for real back-offs."""
    monkeypatch.setattr(kept_driver, "RETRY_FIRST_S", 0.01)
    monkeypatch.setattr(kept_driver, "_EVENT_WAIT_MS", 20)
    monkeypatch.setattr("agents.kernel_log._IDLE_S", 0.02)
    return Node(tmp_path)


async def test_an_xid_of_both_is_told_with_the_logs_text_and_counted_once(node: Node) -> None:
    """Its address leads to the GPU that NVML names by UUID."""
    await node.begin()
    node.log_says(f"NVRM: Xid (PCI:{node.pci(1)}): 31, pid=4242, name=python, Ch 00000008")
    node.nvml.events.put((1, pynvml.nvmlEventTypeXidCriticalError, 31))
    await node.until(lambda: len(node.events()) == 1)
    await asyncio.sleep(0.7)

    assert [(event.gpu_uuid, event.code) for event in node.events()] == [(node.nvml.gpus[1]["uuid"], 31)]
    assert "process 4242 (python)" in node.told[0].text
    assert await node.xids() == [0, 1]
    await node.machine.close()


async def test_where_nvml_tells_no_events_the_log_alone_counts(node: Node) -> None:
    """As with dcgm-exporter, in containers, on drivers that refuse the event set."""
    await node.begin()
    node.log_says(*[f"NVRM: Xid (PCI:{node.pci(0)}): 45, pid=1, name=a, Ch 0000000{i}" for i in range(3)])
    await node.until(lambda: len(node.events()) == 3)

    assert await node.xids() == [3, 0]
    await node.machine.close()


async def test_a_gpu_that_the_log_calls_lost_is_told_lost_once(node: Node) -> None:
    """The XID, the text, and NVML's own answer (D01); when it is back that is told, and the next loss too."""
    await node.begin()
    node.log_says(
        f"NVRM: Xid (PCI:{node.pci(1)}): 79, pid=0, GPU has fallen off the bus.",
        f"NVRM: GPU {node.pci(1)}.0: GPU has fallen off the bus.",
    )
    await node.until(lambda: len(node.events()) == 2)
    whole = dict(node.nvml.gpus[1])
    node.nvml.fail(1, pynvml.NVML_ERROR_GPU_IS_LOST)
    for _ in range(3):
        await node.machine.collect()
        await asyncio.sleep(0.02)
    assert [event.kind for event in node.events()] == ["xid", "gpu_lost"]
    node.nvml.gpus[1] = whole
    for _ in range(5):
        await node.machine.collect()
        await asyncio.sleep(0.03)

    assert [event.kind for event in node.events()] == ["xid", "gpu_lost", "gpu_back"]
    await node.machine.close()


async def test_kills_of_a_gpu_program_are_told(node: Node) -> None:
    """NVML forgets a process at once, so who held a GPU of late is remembered; its data loader workers hold none themselves."""
    pid, worker = 4000, 4001
    node.proc.process(pid)
    node.proc.process(worker, parent=pid)
    node.nvml.gpus[0]["processes"] = [{"pid": pid, "usedGpuMemory": 1 << 30}]
    await node.begin()
    node.log_says(f"Out of memory: Killed process {worker} (pt_data_worker) total-vm:1kB")
    await node.until(lambda: len(node.events()) == 1)
    node.nvml.gpus[0]["processes"] = []
    await node.machine.collect()
    node.log_says(
        f"Out of memory: Killed process {pid} (python) total-vm:1kB", "Out of memory: Killed process 9 (x) total-vm:1kB"
    )
    await node.until(lambda: len(node.events()) == 2)

    assert [event.kind for event in node.told] == ["oom", "oom"]
    assert "process 4001 (pt_data_worker) of a GPU program" in node.told[0].text
    assert "process 4000 (python) of a GPU program" in node.told[1].text
    await node.machine.close()
