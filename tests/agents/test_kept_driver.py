"""The driver of all GPUs: opened anew, let go on command, closed; nothing gathers."""

import asyncio
import threading
import time

import pynvml  # noqa: TID251 - constants of the real module
import pytest

from agents import kept_driver
from agents.device import DeviceEvent
from agents.gpus import Gpus
from agents.nvml_device import NvmlDriver
from tests.agents.fake_nvml import FakeNvml
from tests.agents.nvml_gpus import DEADLINE_S, cell, split, texts, tick


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait for real back-offs."""
    monkeypatch.setattr(kept_driver, "RETRY_FIRST_S", 0.0)
    monkeypatch.setattr(kept_driver, "RETRY_LAST_S", 0.0)
    monkeypatch.setattr(kept_driver, "_EVENT_WAIT_MS", 20)


async def test_closing_and_opening_the_driver_frees_what_profiling_held() -> None:
    """A GPU that stays lost is looked for for ever: nothing may gather."""
    nvml = FakeNvml()
    one = Gpus(NvmlDriver(nvml), DEADLINE_S)
    await tick(one)
    await one.close()

    assert nvml.asked["nvmlGpmSampleFree"] == 4


async def test_opening_the_driver_again_and_again_gathers_no_threads() -> None:
    """A GPU that stays lost is looked for with every back-off."""
    nvml = FakeNvml()
    one = Gpus(NvmlDriver(nvml), DEADLINE_S)
    await tick(one)
    nvml.fail(1, pynvml.NVML_ERROR_GPU_IS_LOST)
    for _ in range(3):
        await tick(one)
    before = threading.active_count()
    for _ in range(10):
        await tick(one)
    async with asyncio.timeout(20):
        while threading.active_count() > before:  # the last ones are still ending
            await asyncio.sleep(0.01)
    await one.close()


async def test_an_event_that_cannot_be_read_does_not_end_those_after_it(caplog: pytest.LogCaptureFixture) -> None:
    """The thread that waits for XIDs goes on; what it stumbled over is logged once."""
    driver = NvmlDriver(FakeNvml())
    answers: list[DeviceEvent | None] = []
    defects = iter(range(3))
    found = DeviceEvent("xid", None, 79, "XID 79")

    def event(timeout_ms: int) -> DeviceEvent | None:
        if next(defects, None) is not None:
            raise KeyError("a defect")
        time.sleep(timeout_ms / 1000)
        return answers.pop() if answers else None

    driver.event = event  # type: ignore[method-assign] # this one driver is to fail
    one = Gpus(driver, DEADLINE_S)
    await tick(one)
    answers.append(found)
    told: list[DeviceEvent] = []
    async with asyncio.timeout(20):
        while found not in told:
            told += one.events()
            await asyncio.sleep(0.01)
    await one.close()

    assert len([record for record in caplog.records if "could not be read" in record.message]) == 1


async def test_attaching_a_gpu_asks_the_driver_nothing() -> None:
    """That happens in the loop's own thread, where a call that hangs would hold up everything."""
    nvml = FakeNvml()
    split(nvml, 0, "1g.18gb")
    driver = NvmlDriver(nvml)
    devices = driver.open()
    nvml.asked.clear()
    for device in devices:
        device.reader(15.0)

    assert nvml.asked.total() == 0
    driver.close()


async def test_the_driver_is_let_go_on_command_and_taken_up_again() -> None:
    """Within two seconds nothing of ours holds it; meanwhile every reading is absent as `paused`."""
    nvml = FakeNvml()
    one = Gpus(NvmlDriver(nvml), DEADLINE_S)
    await tick(one)
    texts(one)
    began = time.monotonic()

    assert await one.release(began + 60)
    assert time.monotonic() - began < 2
    assert nvml.asked["nvmlShutdown"] == 1
    nvml.asked.clear()
    rows = await tick(one)
    assert nvml.asked.total() == 0
    assert set(rows.reasons[0]) == {"paused"}
    assert rows.holds_reasons == ["paused", "paused"]
    assert one.state == "released"
    assert await one.release(float("-inf"))
    rows = await tick(one)
    assert cell(rows, 0, "power_w")[1] is None
    assert texts(one)[-1] == "The driver answers again."
    await one.close()


async def test_a_call_that_hangs_is_waited_for_before_the_driver_is_let_go() -> None:
    """To shut a driver down under a call might crash; the release follows as soon as it can."""
    nvml = FakeNvml()
    one = Gpus(NvmlDriver(nvml), 0.1)
    await tick(one)
    release = nvml.hang(1)
    await tick(one)

    assert not await one.release(time.monotonic() + 60)
    assert nvml.asked["nvmlShutdown"] == 0
    release.set()
    while one.hangs:
        await asyncio.sleep(0.01)
    await tick(one)
    assert nvml.asked["nvmlShutdown"] == 1
    assert one.state == "released"
    await one.close()
