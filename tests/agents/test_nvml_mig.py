"""MIG instances as GPUs of their own, which come and go."""

import time

import pynvml  # noqa: TID251 - constants of the real module
import pytest

from agents import kept_driver
from agents.gpus import Gpus
from agents.nvml_device import NvmlDriver
from tests.agents.fake_nvml import FakeNvml
from tests.agents.nvml_gpus import DEADLINE_S, cell, instance, split, texts, tick


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait for real back-offs."""
    monkeypatch.setattr(kept_driver, "RETRY_FIRST_S", 0.0)
    monkeypatch.setattr(kept_driver, "RETRY_LAST_S", 0.0)
    monkeypatch.setattr(kept_driver, "_EVENT_WAIT_MS", 20)


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
