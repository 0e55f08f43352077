"""All GPUs of a driver: MIG instances that come and go, what another driver no longer answers, and letting go on command."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pynvml  # noqa: TID251 - constants of the real module
import pytest

from agents import gpus, kept_driver
from agents.capabilities import Capabilities
from agents.collectors.nvml_plan import GPU_METRICS
from agents.gpu_slot import Rows
from agents.gpus import Gpus
from agents.nvml_device import NvmlDriver
from tests.agents.fake_nvml import FakeNvml
from wire.messages import Cell

DEADLINE_S = 10.0
"""Where nothing hangs a busy machine must not look like a hanging driver."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait for real back-offs."""
    monkeypatch.setattr(kept_driver, "RETRY_FIRST_S", 0.0)
    monkeypatch.setattr(kept_driver, "RETRY_LAST_S", 0.0)
    monkeypatch.setattr(kept_driver, "_EVENT_WAIT_MS", 20)


def split(nvml: FakeNvml, index: int, *profiles: str | None) -> None:
    """Switch MIG on and split a GPU; None leaves a hole in the numbers."""
    nvml.gpus[index]["calls"]["nvmlDeviceGetMigMode()"] = [1, 1]
    for name in ("nvmlDeviceGetUtilizationRates()", "nvmlDeviceGetDecoderUtilization()", "nvmlDeviceGetEncoderUtilization()"):
        nvml.gpus[index]["calls"][name] = {"error": pynvml.NVML_ERROR_NOT_SUPPORTED}
    nvml.gpus[index]["instances"] = [
        None if profile is None else instance(f"MIG-{index}-{number}-{profile}", profile, number + 3)
        for number, profile in enumerate(profiles)
    ]


def instance(uuid: str, profile: str, gpu_instance: int) -> dict[str, Any]:
    """What NVML answers for one instance."""
    slices, size = int(profile[0]), int(profile.split(".")[1][:-2])
    return {
        "uuid": uuid,
        "name": f"NVIDIA H200 MIG {profile}",
        "calls": {
            "nvmlDeviceGetName()": f"NVIDIA H200 MIG {profile}",
            "nvmlDeviceGetGpuInstanceId()": gpu_instance,
            "nvmlDeviceGetComputeInstanceId()": 0,
            "nvmlDeviceGetAttributes_v2()": {
                "gpuInstanceSliceCount": slices,
                "computeInstanceSliceCount": slices,
                "memorySizeMB": size * 1024,
            },
            f"nvmlDeviceGetMemoryInfo({pynvml.nvmlMemory_v2})": {"total": size << 30, "used": 1 << 30, "reserved": 1 << 20},
        },
        "gpm": {"2": 50.0 * slices / 7, "10": 20.0},
        "processes": [{"pid": 100 + gpu_instance, "usedGpuMemory": 1 << 29}],
    }


async def tick(one: Gpus) -> Rows:
    """One tick's readings."""
    reading = await one.begin()
    if reading is not None:
        await reading
    return one.rows()


def cell(rows: Rows, gpu: int, name: str) -> tuple[Cell, str | None]:
    """Value and reason of one metric of one GPU."""
    position = next(number for number, metric in enumerate(GPU_METRICS) if metric.name == name)
    return rows.values[gpu][position], rows.reasons[gpu][position]


def texts(one: Gpus) -> list[str]:
    """What was told since the call before."""
    return [event.text for event in one.events()]


async def test_each_mig_instance_is_a_gpu_of_its_own() -> None:
    """With its own memory, processes and profiling; what is the card's stands at the card; no utilisation is made up."""
    nvml = FakeNvml()
    split(nvml, 0, "1g.18gb", None, "3g.71gb")
    one = Gpus(NvmlDriver(nvml), DEADLINE_S)
    await tick(one)
    rows = await tick(one)
    card, second, small, large = (facts for facts in sorted(one.stock.gpus, key=lambda facts: facts.index))

    assert (card.mig_mode, second.mig_mode) == (True, False)
    assert [(facts.mig_profile, facts.parent_uuid) for facts in (small, large)] == [
        ("1g.18gb", card.uuid),
        ("3g.71gb", card.uuid),
    ]
    assert [(facts.mig_gpu_instance, facts.mem_total_bytes) for facts in (small, large)] == [(3, 18 << 30), (5, 71 << 30)]
    place = {facts.uuid: number for number, facts in enumerate(one.stock.gpus)}
    assert cell(rows, place[large.uuid], "sm_active")[0] == pytest.approx(1.5 / 7)
    assert cell(rows, place[large.uuid], "mem_used_bytes") == (1 << 30, None)
    for name in ("gpu_util_pct", "power_w", "temperature_c", "energy_j_total", "nvlink_links_active", "pcie_replays_total"):
        assert cell(rows, place[large.uuid], name) == (None, "unsupported")
    assert cell(rows, place[card.uuid], "gpu_util_pct") == (None, "unsupported")
    assert cell(rows, place[card.uuid], "power_w")[1] is None
    assert {(hold.gpu, hold.pid) for hold in rows.holds} >= {(place[small.uuid], 103), (place[large.uuid], 105)}
    await one.close()


async def test_slices_that_share_a_gpu_instance_claim_none_of_its_profiling() -> None:
    """GPM tells of the GPU instance; two compute instances in it would each be credited with the other's work."""
    nvml = FakeNvml()
    split(nvml, 0, "3g.71gb")
    nvml.gpus[0]["instances"][0]["calls"]["nvmlDeviceGetAttributes_v2()"]["computeInstanceSliceCount"] = 1
    one = Gpus(NvmlDriver(nvml), DEADLINE_S)
    await tick(one)
    rows = await tick(one)

    assert cell(rows, 1, "sm_active") == (None, "unsupported")
    assert cell(rows, 1, "mem_used_bytes")[1] is None
    await one.close()


async def test_a_card_that_is_split_anew_ends_the_old_slices_and_begins_the_new() -> None:
    """Within a slow tick; the slice that stays keeps its number, a new one never takes the UUID of an old one."""
    nvml = FakeNvml()
    split(nvml, 1, "1g.18gb", "3g.71gb")
    one = Gpus(NvmlDriver(nvml), DEADLINE_S, slow_s=0.0)
    await tick(one)
    before = {facts.uuid: facts.index for facts in one.stock.gpus}
    texts(one)
    kept = nvml.gpus[1]["instances"][0]
    nvml.gpus[1]["instances"] = [kept, instance("MIG-new", "2g.35gb", 9)]
    for _ in range(3):
        rows = await tick(one)
    after = {facts.uuid: facts.index for facts in one.stock.gpus}

    assert set(before) - set(after) == {"MIG-1-1-3g.71gb"}
    assert set(after) - set(before) == {"MIG-new"}
    assert after[kept["uuid"]] == before[kept["uuid"]] == 200
    assert len(rows.values) == len(after) == 4
    assert sorted(texts(one)) == ["MIG instance 201 (3g.71gb) was destroyed.", "MIG instance 202 (2g.35gb) was created."]
    await one.close()


async def test_switching_mig_on_brings_its_instances() -> None:
    """No restart is needed; the card itself stays in its place."""
    nvml = FakeNvml()
    one = Gpus(NvmlDriver(nvml), DEADLINE_S, slow_s=0.0)
    await tick(one)
    split(nvml, 0, "7g.141gb")
    for _ in range(3):
        await tick(one)

    assert [(facts.index, facts.mig_mode, facts.mig_profile) for facts in one.stock.gpus] == [
        (0, True, None),
        (1, False, None),
        (100, None, "7g.141gb"),
    ]
    await one.close()


async def test_a_card_that_is_lost_takes_its_slices_with_it() -> None:
    """They are lost, not destroyed: when the card is back, so are they."""
    nvml = FakeNvml()
    split(nvml, 0, "1g.18gb")
    one = Gpus(NvmlDriver(nvml), DEADLINE_S)
    await tick(one)
    whole = dict(nvml.gpus[0])
    nvml.fail(0, pynvml.NVML_ERROR_GPU_IS_LOST)
    for _ in range(3):
        rows = await tick(one)

    assert set(rows.reasons[0]) == set(rows.reasons[1]) == {"gpu_lost"}
    nvml.gpus[0] = whole
    for _ in range(3):
        rows = await tick(one)
    assert cell(rows, 1, "mem_used_bytes")[1] is None
    assert len(one.stock.gpus) == 3
    await one.close()


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


async def test_metrics_that_another_driver_takes_away_are_told_of(tmp_path: Path) -> None:
    """Once for a model, across restarts of the agent; the same driver again is no news."""
    file = tmp_path / "capabilities.json"
    for version, said in (("580.159.04", []), ("590.10", ["power_w"]), ("590.10", [])):
        nvml = FakeNvml()
        nvml.recorded["driver_version"] = version
        if version == "590.10":
            for gpu in nvml.gpus:
                gpu["calls"]["nvmlDeviceGetPowerUsage()"] = {"error": pynvml.NVML_ERROR_NOT_SUPPORTED}
        one = Gpus(NvmlDriver(nvml), DEADLINE_S, capabilities=Capabilities(file))
        for _ in range(gpus.KNOWN_AFTER + 1):
            await tick(one)
        told = [text for text in texts(one) if "does not answer" in text]
        await one.close()
        while not file.exists() or version not in file.read_text():
            await asyncio.sleep(0.01)

        assert [text.split(": ")[1] for text in told] == [f"{', '.join(said)}."] * bool(said)


async def test_metrics_that_another_agent_no_longer_reads_are_told_of(tmp_path: Path) -> None:
    """An upgrade of the agent may lose them as silently as one of the driver; metrics that were given up are no loss."""
    file = tmp_path / "capabilities.json"
    file.write_text(
        '{"NVIDIA H200, whole":{"driver":"580.159.04","answers":["gone_by_intent","power_w","sm_active"],"agent":"0.1"}}'
    )
    nvml = FakeNvml()
    for gpu in nvml.gpus:
        gpu["calls"]["nvmlDeviceGetPowerUsage()"] = {"error": pynvml.NVML_ERROR_NOT_SUPPORTED}
    one = Gpus(NvmlDriver(nvml), DEADLINE_S, capabilities=Capabilities(file, "0.2"))
    for _ in range(gpus.KNOWN_AFTER + 1):
        await tick(one)
    told = [text for text in texts(one) if "does not" in text]
    await one.close()

    assert told == ["This version of the agent does not read what 0.1 did for NVIDIA H200: power_w."]


async def test_a_damaged_memory_is_begun_anew(tmp_path: Path) -> None:
    """It is no reason not to start."""
    file = tmp_path / "capabilities.json"
    file.write_text('{"NVIDIA H200, whole": 7')
    one = Gpus(NvmlDriver(FakeNvml()), DEADLINE_S, capabilities=Capabilities(file))
    await tick(one)

    assert one.state == "ok"
    await one.close()


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


async def test_paused_profiling_stays_paused_when_a_gpu_comes_back() -> None:
    """A new reader knows of the pause too."""
    nvml = FakeNvml()
    one = Gpus(NvmlDriver(nvml), DEADLINE_S, slow_s=0.0)
    await tick(one)
    one.pause_profiling(time.monotonic() + 60)
    split(nvml, 0, "1g.18gb")
    for _ in range(3):
        rows = await tick(one)

    assert len(rows.values) == 3
    assert [cell(rows, gpu, "sm_active") for gpu in range(3)] == [(None, "paused")] * 3
    one.pause_profiling(float("-inf"))
    for _ in range(2):
        rows = await tick(one)
    assert cell(rows, 2, "sm_active")[1] is None
    await one.close()
