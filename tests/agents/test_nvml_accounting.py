"""What NVML's accounting keeps of processes: told where it is switched on, absent with a reason elsewhere, never switched."""

import time
from typing import Any

import pynvml  # noqa: TID251 - constants of the real module
import pytest

from agents import kept_driver
from agents.collectors.nvml import GpuCollector
from agents.device import ACCOUNTED, SLOW_S, Accounts
from agents.gpus import Gpus
from agents.nvml_device import NvmlDevice, NvmlDriver
from tests.agents.fake_nvml import FakeNvml
from tests.agents.nvml_gpus import DEADLINE_S, instance, split, tick
from wire.metrics import Accounted

PID = 4711
NAMES = {metric.name for metric in ACCOUNTED}


@pytest.fixture
def nvml() -> FakeNvml:
    """Two H200; one process holds both, and both keep an account of it."""
    found = FakeNvml()
    for number, gpu in enumerate(found.gpus):
        gpu["processes"] = [{"pid": PID, "usedGpuMemory": 1 << 30}]
        keep(found, number, gpuUtilization=40 + 20 * number, maxMemoryUsage=(2 - number) << 30)
    return found


def keep(nvml: FakeNvml, gpu: int, **told: Any) -> None:
    """Let a GPU's driver keep an account, of a process that runs unless told otherwise."""
    running = {"gpuUtilization": 40, "memoryUtilization": 5, "maxMemoryUsage": 1 << 30, "time": 0, "isRunning": 1}
    started = {"startTime": int((time.time() - 90) * 1e6)}
    nvml.gpus[gpu]["calls"] |= {
        "nvmlDeviceGetAccountingMode()": 1,
        f"nvmlDeviceGetAccountingStats({PID})": running | started | told,
    }


def account(nvml: FakeNvml) -> dict[str, Any]:
    """What the first GPU's collector says of the process."""
    collector = GpuCollector(NvmlDevice(nvml, 0))
    collector.collect(0.0)
    return collector.accounts.of(PID)


def test_a_running_process_has_its_account(nvml: FakeNvml) -> None:
    """Its time is counted from its start: the driver tells it only once the process ended."""
    told = account(nvml)

    assert told == {
        "gpu_util_lifetime_pct": 40,
        "gpu_mem_max_bytes": 2 << 30,
        "gpu_time_s": pytest.approx(90, abs=20),
        "gpu_is_running": 1,
    }


def test_a_process_that_ended_has_the_time_that_the_driver_counted(nvml: FakeNvml) -> None:
    """And says that it does not run, though it still holds the GPU."""
    keep(nvml, 0, time=61_500, isRunning=0)
    told = account(nvml)

    assert (told["gpu_time_s"], told["gpu_is_running"]) == (61.5, 0)


def test_what_the_driver_does_not_tell_is_absent(nvml: FakeNvml) -> None:
    """All ones are no number; a start counted from the machine's boot tells no time."""
    keep(nvml, 0, gpuUtilization=0xFFFFFFFF, maxMemoryUsage=None, startTime=4_000_000)
    told = account(nvml)

    assert told["gpu_util_lifetime_pct"] == "blank"
    assert told["gpu_mem_max_bytes"] == told["gpu_time_s"] == "unsupported"


def test_where_accounting_is_off_nothing_is_asked_and_the_reason_says_so(nvml: FakeNvml) -> None:
    """An administrator may switch it on; the agent never does."""
    nvml.gpus[0]["calls"]["nvmlDeviceGetAccountingMode()"] = 0
    told = account(nvml)

    assert told == dict.fromkeys(NAMES, "switched_off")
    assert nvml.asked["nvmlDeviceGetAccountingStats"] == 0
    assert not [name for name in nvml.asked if name.startswith("nvmlDeviceSet")]


def test_a_card_that_keeps_none_says_unsupported(nvml: FakeNvml) -> None:
    """As vGPUs and MIG instances."""
    del nvml.gpus[0]["calls"]["nvmlDeviceGetAccountingMode()"]

    assert account(nvml) == dict.fromkeys(NAMES, "unsupported")
    assert Accounts().of(PID) == dict.fromkeys(NAMES, "unsupported")


def test_it_is_asked_seldom_and_of_those_that_hold_the_gpu_alone(nvml: FakeNvml) -> None:
    """Every SLOW_S; the thousands of processes that ended are nobody's business."""
    collector = GpuCollector(NvmlDevice(nvml, 0))
    for second in range(int(SLOW_S)):
        collector.collect(float(second))
    nvml.gpus[0]["processes"].append({"pid": 12, "usedGpuMemory": 1})

    assert nvml.asked["nvmlDeviceGetAccountingStats"] == 1
    assert nvml.asked["nvmlDeviceGetAccountingPids"] == 0
    assert collector.accounts.of(12) == dict.fromkeys(NAMES, "no_previous")
    collector.collect(SLOW_S)
    assert collector.accounts.of(12) == dict.fromkeys(NAMES, "unsupported")  # the driver does not know it
    assert collector.accounts.of(PID)["gpu_is_running"] == 1


async def test_of_several_gpus_the_largest_counts_and_the_mode_is_a_fact(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of one GPU stands before a reason of another; a mode that changes makes another hello."""
    monkeypatch.setattr(kept_driver, "_EVENT_WAIT_MS", 20)
    one = Gpus(NvmlDriver(nvml), DEADLINE_S, slow_s=0.0)
    rows = await tick(one)

    assert [facts.accounting_mode for facts in one.stock.gpus] == [True, True]
    assert (rows.accounts[PID]["gpu_util_lifetime_pct"], rows.accounts[PID]["gpu_mem_max_bytes"]) == (60, 2 << 30)
    nvml.gpus[1]["calls"]["nvmlDeviceGetAccountingMode()"] = 0
    before = one.stock
    rows = await tick(one)
    assert rows.accounts[PID]["gpu_util_lifetime_pct"] == 40
    assert one.stock is not before
    assert [facts.accounting_mode for facts in one.stock.gpus] == [True, False]
    await one.close()


async def test_a_mig_instance_keeps_no_account(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """The card's is not its own."""
    monkeypatch.setattr(kept_driver, "_EVENT_WAIT_MS", 20)
    split(nvml, 0, "1g.18gb")
    nvml.gpus[0]["instances"] = [instance("MIG-a", "1g.18gb", 3)]
    one = Gpus(NvmlDriver(nvml), DEADLINE_S)
    rows = await tick(one)

    assert rows.accounts[103] == dict.fromkeys(NAMES, "unsupported")
    assert next(facts for facts in one.stock.gpus if facts.parent_uuid).accounting_mode is None
    await one.close()


def test_a_lost_gpu_is_no_trouble(nvml: FakeNvml) -> None:
    """What was kept before stays until the GPU is read again."""
    collector = GpuCollector(NvmlDevice(nvml, 0))
    collector.collect(0.0)
    nvml.fail(0, pynvml.NVML_ERROR_GPU_IS_LOST)
    collector.collect(SLOW_S)

    assert collector.is_lost
    assert collector.holds == []


def test_the_registry_names_what_nvml_keeps() -> None:
    """Members of its struct."""
    members = {name for name, *_ in pynvml.c_nvmlAccountingStats_t._fields_}

    assert {metric.source.member for metric in ACCOUNTED if isinstance(metric.source, Accounted)} <= members
    assert len(ACCOUNTED) == 4
