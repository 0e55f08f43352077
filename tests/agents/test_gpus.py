"""All GPUs of a driver: two of one UUID, one that is missed, one whose counters another profiler takes."""

import asyncio
import threading

import pynvml  # noqa: TID251 - constants of the real module
import pytest

from agents import kept_driver
from agents.collectors.nvml import GpuCollector
from agents.gpus import Gpus
from agents.nvml_device import NvmlDriver
from tests.agents.fake_nvml import FakeNvml
from tests.agents.nvml_gpus import DEADLINE_S, cell, texts, tick


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait for real back-offs."""
    monkeypatch.setattr(kept_driver, "RETRY_FIRST_S", 0.0)
    monkeypatch.setattr(kept_driver, "RETRY_LAST_S", 0.0)
    monkeypatch.setattr(kept_driver, "_EVENT_WAIT_MS", 20)


async def test_of_two_gpus_with_one_uuid_the_second_is_left_out() -> None:
    """As clones of a virtual machine may show; the hello must not contradict itself."""
    nvml = FakeNvml()
    nvml.gpus[1]["uuid"] = nvml.gpus[0]["uuid"]
    one = Gpus(NvmlDriver(nvml), DEADLINE_S)
    rows = await tick(one)

    assert [facts.uuid for facts in one.stock.gpus] == [nvml.gpus[0]["uuid"]]
    assert len(rows.values) == 1
    await one.close()


async def test_a_gpu_that_only_the_count_misses_is_lost() -> None:
    """No XID, no error of its own: the driver was opened anew and lists one GPU less."""
    nvml = FakeNvml()
    one = Gpus(NvmlDriver(nvml), DEADLINE_S)
    await tick(one)
    gone = nvml.gpus.pop(1)
    nvml.gpus[0]["calls"] |= {"nvmlDeviceGetMigMode()": [0, 0]}
    nvml.gpus.append(gone | {"fails": pynvml.NVML_ERROR_GPU_IS_LOST})
    await tick(one)
    nvml.gpus.pop()
    for _ in range(3):
        rows = await tick(one)

    assert set(rows.reasons[1]) == {"gpu_lost"}
    assert [event.gpu_uuid for event in one.events() if event.kind == "gpu_lost"] == [gone["uuid"]]
    assert cell(rows, 0, "power_w")[1] is None
    await one.close()


async def test_a_defect_in_reading_a_gpu_is_logged_once_until_it_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A tick a second is a line a second else; its readings are absent meanwhile, the other GPU's are not."""
    collect = GpuCollector.collect

    def break_down(reader: GpuCollector, now: float) -> None:
        if reader is broken:
            raise ArithmeticError("of a defect")
        collect(reader, now)

    one = Gpus(NvmlDriver(FakeNvml()), DEADLINE_S)
    await tick(one)
    broken = one._slots[0].reader
    monkeypatch.setattr(GpuCollector, "collect", break_down)
    for _ in range(3):
        rows = await tick(one)
        assert set(rows.reasons[0]) == {"driver_error"}
        assert cell(rows, 1, "power_w")[1] is None
    monkeypatch.setattr(GpuCollector, "collect", collect)
    rows = await tick(one)
    await one.close()

    assert cell(rows, 0, "power_w")[1] is None
    assert sum(record.exc_info is not None for record in caplog.records) == 1


async def test_a_profiler_that_takes_the_counters_is_told_of_once_and_again_when_it_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else is read meanwhile."""
    monkeypatch.setattr("agents.collectors.nvml.PROFILER_FIRST_S", 0.0)
    nvml = FakeNvml()
    one = Gpus(NvmlDriver(nvml), DEADLINE_S)
    await tick(one)
    texts(one)
    nvml.gpus[0]["gpm_error"] = pynvml.NVML_ERROR_IN_USE
    for _ in range(3):
        rows = await tick(one)

    assert cell(rows, 0, "sm_active") == (None, "profiler_busy")
    assert cell(rows, 0, "power_w")[1] is None
    assert texts(one) == ["The profiling counters of GPU 0 are held by another profiler; they are asked for again now and then."]
    del nvml.gpus[0]["gpm_error"]
    for _ in range(3):
        rows = await tick(one)
    assert cell(rows, 0, "sm_active")[1] is None
    assert texts(one) == ["The profiling counters of GPU 0 are free again."]
    await one.close()


async def test_one_thread_reads_all_gpus_until_one_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two in the driver at once cost more than they save; one that hangs keeps its thread, and the other GPU is read in the same tick."""
    threads: dict[str, set[str]] = {}
    read = GpuCollector.collect

    def collect(self: GpuCollector, now: float) -> None:
        threads.setdefault(self.device.facts.uuid, set()).add(threading.current_thread().name)
        read(self, now)

    monkeypatch.setattr(GpuCollector, "collect", collect)
    nvml = FakeNvml()
    one = Gpus(NvmlDriver(nvml), deadline_s=2.0)
    for _ in range(3):
        rows = await tick(one)
        assert [cell(rows, gpu, "power_w")[1] for gpu in (0, 1)] == [None, None]
    assert len(set.union(*threads.values())) == 1

    nvml.gpus[1]["calls"]["nvmlDeviceGetPowerUsage()"] += 1000
    hangs = nvml.hang(0)
    rows = await tick(one)
    assert cell(rows, 0, "power_w") == (None, "timeout")
    power_w, reason = cell(rows, 1, "power_w")
    assert reason is None
    assert power_w == pytest.approx(nvml.gpus[1]["calls"]["nvmlDeviceGetPowerUsage()"] / 1000)
    still = one.is_reading
    assert still

    hangs.set()
    while one.is_reading:
        await asyncio.sleep(0.01)
    rows = await tick(one)
    assert [cell(rows, gpu, "power_w")[1] for gpu in (0, 1)] == [None, None]
    await one.close()
