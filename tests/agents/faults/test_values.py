"""Values that are none (V01, V02, V06, V07, V13, V16, V18): what the driver makes up or refuses costs that reading alone."""

import re
from pathlib import Path

import pytest

from tests.agents.driven import Driver, agent, latest, once, page, port_of, ticks
from tests.agents.server import running, until
from wire.metrics import sent

UNSUPPORTED, FUNCTION_NOT_FOUND, RESET_REQUIRED = 3, 13, 16
NAMES = {metric.name for metric in sent("gpu")}
REFUSED = {
    "nvmlDeviceGetPowerUsage": ("power_w",),
    "nvmlDeviceGetEnforcedPowerLimit": ("power_limit_w",),
    "nvmlDeviceGetTotalEnergyConsumption": ("energy_j_total",),
    "nvmlDeviceGetUtilizationRates": ("gpu_util_pct", "mem_copy_util_pct"),
    "nvmlDeviceGetMemoryInfo": ("mem_used_bytes", "mem_total_bytes", "mem_reserved_bytes"),
    "nvmlDeviceGetTemperature": ("temperature_c",),
}
H200 = "h200-driver-580.json"


def answer(gpu: dict[str, object], call: str, value: object) -> None:
    """Let a GPU answer a call with this, whatever its arguments."""
    calls = gpu["calls"]
    assert isinstance(calls, dict)
    for key in [key for key in calls if key.partition("(")[0] == call]:
        del calls[key]
    calls[f"{call}()"] = value


async def test_a_refused_reading_drops_neither_the_device_nor_another_reading(tmp_path: Path) -> None:
    """V02: what laptops, old cards, split cards and unified memory refuse is unsupported on that GPU and read on the other."""
    driver = Driver(tmp_path / "answers.json", H200)
    whole, _ = (await once(driver))["gpus"]
    for call in REFUSED:
        answer(driver.gpus[1], call, {"error": UNSUPPORTED})
    driver.gpus[1]["processes"] = {"error": UNSUPPORTED}
    driver.save()
    first, second = (await once(driver))["gpus"]
    refused = {name for names in REFUSED.values() for name in names}

    assert {name: second["absent"].get(name) for name in refused} == dict.fromkeys(refused, "unsupported")
    assert {name for name in NAMES if name in first} == {name for name in NAMES if name in whole} >= refused
    assert {name for name in NAMES if name in second} == {name for name in NAMES if name in whole} - refused


async def test_a_driver_from_before_the_second_memory_call_tells_used_and_total(tmp_path: Path) -> None:
    """V13: before driver 510 only the first call is there, whose "used" does not hold what is reserved; reserved is absent, not 0."""
    driver = Driver(tmp_path / "answers.json", "t4-driver-525.json")
    driver.answers["driver_version"] = "470.256.02"
    driver.answers["missing"] = ["nvmlDeviceGetMemoryInfo_v2"]
    (calls,) = (gpu["calls"] for gpu in driver.gpus)
    del calls["nvmlDeviceGetMemoryInfo(33554472)"]
    calls["nvmlDeviceGetMemoryInfo()"] = {"total": 15843721216, "used": 3_000_000_000, "free": 12843721216}
    driver.save()
    (card,) = (await once(driver))["gpus"]

    assert (card["mem_total_bytes"], card["mem_used_bytes"]) == (15843721216, 3_000_000_000)
    assert card["absent"]["mem_reserved_bytes"] == "unsupported"


async def test_used_memory_leaves_out_what_the_driver_keeps(tmp_path: Path) -> None:
    """V13: from driver 510 on, the first call counts the reserved part as used; the second one's parts are kept apart."""
    driver = Driver(tmp_path / "answers.json", H200)
    calls = driver.gpus[0]["calls"]
    parts = {"total": 150_754_820_096, "used": 1_858_076_672, "reserved": 600_000_000, "free": 148_296_743_424}
    calls["nvmlDeviceGetMemoryInfo(33554472)"] = parts
    calls["nvmlDeviceGetMemoryInfo()"] = parts | {"used": parts["used"] + parts["reserved"]}
    driver.save()
    card = (await once(driver))["gpus"][0]

    assert (card["mem_used_bytes"], card["mem_reserved_bytes"]) == (1_858_076_672, 600_000_000)
    assert card["mem_used_bytes"] + card["mem_reserved_bytes"] <= card["mem_total_bytes"]


async def test_a_spike_that_cannot_be_is_absent_for_its_tick_and_the_next_value_is_taken(tmp_path: Path) -> None:
    """V06: 644,245,923 degrees, 4,294,967,295 percent and 371 times full never reach the server, and are counted on the node's page."""
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as server, agent(driver, server, tmp_path, "--listen", "127.0.0.1:0"):
        await ticks(server)
        good = {name: latest(server, name)[0] for name in ("temperature_c", "gpu_util_pct", "sm_active")}
        calls, gpm = driver.gpus[0]["calls"], driver.gpus[0]["gpm"]
        before = (calls["nvmlDeviceGetTemperature(0)"], calls["nvmlDeviceGetUtilizationRates()"], gpm["2"])
        calls["nvmlDeviceGetTemperature(0)"] = 644_245_923
        calls["nvmlDeviceGetUtilizationRates()"] = {"gpu": 4_294_967_295, "memory": 1}
        gpm["2"] = 37_100.0
        driver.save()
        await until(lambda: latest(server, "temperature_c")[0] is None, 20)
        await ticks(server)
        spiked = {name: latest(server, name) for name in good}
        calls["nvmlDeviceGetTemperature(0)"], calls["nvmlDeviceGetUtilizationRates()"], gpm["2"] = before
        driver.save()
        await until(lambda: latest(server, "temperature_c")[0] is not None, 20)
        await ticks(server)

        assert all(first is None and second is not None for first, second in spiked.values())
        assert {name: latest(server, name)[0] for name in good} == good
        rejected = re.findall(
            r"^fettle_agent_rejected_readings_total{.*} (\d+)$",
            (await page(await port_of(tmp_path / "log"), "/metrics"))[0],
            re.M,
        )
        assert int(rejected[0]) >= 2  # the ones of all bits are a blank
        column = server.hellos[-1].gpu_metrics.index("temperature_c")
        assert {batch.gpu[column][0] for batch in server.batches} == {good["temperature_c"], None}


@pytest.mark.parametrize("made_up", [float("nan"), float("inf"), -1.0])
async def test_a_number_that_is_none_is_a_reason(made_up: float, tmp_path: Path) -> None:
    """V07: what is not a number, infinite or negative in a share of time never becomes one."""
    driver = Driver(tmp_path / "answers.json", H200)
    driver.gpus[0]["gpm"]["2"] = made_up
    driver.save()
    card = (await once(driver))["gpus"][0]

    assert card["absent"]["sm_active"] in ("not_a_number", "out_of_range")
    assert "sm_occupancy" in card


async def test_a_gpu_that_requires_a_reset_says_so_and_leaves_the_other_alone(tmp_path: Path) -> None:
    """V07: "GPU requires reset" in place of every answer is a state of the GPU's health: the recovery action is a reset."""
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server)
        driver.gpus[0]["fails"] = RESET_REQUIRED
        driver.save()
        await until(lambda: latest(server, "power_w")[0] is None, 20)
        await until(lambda: latest(server, "recovery_action")[0] == 1, 20)
        assert latest(server, "recovery_action")[1] == 0
        assert latest(server, "power_w")[1] is not None

        del driver.gpus[0]["fails"]
        driver.save()
        await until(lambda: latest(server, "power_w")[0] is not None, 20)
        await until(lambda: latest(server, "recovery_action")[0] == 0, 20)


async def test_an_idle_card_is_read_as_noughts(tmp_path: Path) -> None:
    """V16, V18: zero is data: an idle card's shares are 0, not absent, and its low clocks carry the reason "idle"."""
    driver = Driver(tmp_path / "answers.json", H200)
    idle = driver.gpus[1]
    answer(idle, "nvmlDeviceGetUtilizationRates", {"gpu": 0, "memory": 0})
    answer(idle, "nvmlDeviceGetCurrentClocksEventReasons", 1)
    idle["gpm"] = dict.fromkeys(idle["gpm"], 0.0)
    driver.save()
    card = (await once(driver))["gpus"][1]

    assert (card["gpu_util_pct"], card["sm_active"], card["nvlink_tx_bytes_per_s"]) == (0, 0, 0)
    assert card["clocks_event_reasons"] == 1


async def test_one_side_of_nvlink_does_not_stand_for_both(tmp_path: Path) -> None:
    """V09: where only what was received is told, what was sent is absent, and nothing is added up."""
    driver = Driver(tmp_path / "answers.json", H200)
    driver.gpus[0]["gpm"]["61"] = {"error": UNSUPPORTED}
    driver.save()
    card = (await once(driver))["gpus"][0]

    assert card["absent"]["nvlink_tx_bytes_per_s"] == "unsupported"
    assert card["nvlink_rx_bytes_per_s"] is not None
    assert not [
        name for name in card if name.startswith("nvlink_") and name.endswith("bytes_per_s") and name != "nvlink_rx_bytes_per_s"
    ]
