"""A real agent process over a fake driver library: every board that answers are kept of, and what faults do to it."""

import asyncio
import signal
import time
from pathlib import Path

import pytest

from tests.agents.driven import Driver, agent, latest, once, told
from tests.agents.server import running, until
from wire.messages import AbsentChange
from wire.metrics import sent

BOARDS = ("h200-driver-580.json", "h200-driver-580-captured.json", "a100-driver-525.json", "t4-driver-525.json")
LOST, XID = 15, 8


@pytest.mark.parametrize("board", BOARDS)
async def test_every_metric_of_a_board_is_a_value_or_has_a_reason(board: str, tmp_path: Path) -> None:
    """Through ctypes, as the driver fills it: nothing is lost and nothing is made up."""
    driver = Driver(tmp_path / "answers.json", board)
    found = await once(driver)
    names = {metric.name for metric in sent("gpu")}

    assert found["gpus_state"] == "ok"
    assert found["driver_version"] == driver.answers["driver_version"]
    assert [gpu["uuid"] for gpu in found["gpus"]] == [gpu["uuid"] for gpu in driver.answers["gpus"]]
    for gpu, answers in zip(found["gpus"], driver.answers["gpus"], strict=True):
        assert {name for name in gpu if name in names} | (set(gpu["absent"]) & names) == names
        assert gpu["power_w"] == pytest.approx(answers["calls"]["nvmlDeviceGetPowerUsage()"] / 1000)
        assert gpu["mem_total_bytes"] == answers["calls"]["nvmlDeviceGetMemoryInfo(33554472)"]["total"]
        assert ("sm_active" in gpu) == ("gpm" in answers)


async def test_what_a_turing_card_lacks_is_absent_not_zero(tmp_path: Path) -> None:
    """No memory sensor though it answers 0, no NVLink, no row remapping, no profiling, no MIG."""
    (card,) = (await once(Driver(tmp_path / "answers.json", "t4-driver-525.json")))["gpus"]

    assert card["absent"]["memory_temperature_c"] == "unsupported"
    for name in ("nvlink_links_active", "remap_failed", "remap_banks_max", "sm_active", "fabric_state", "temperature_margin_c"):
        assert card["absent"][name] == "unsupported"
    assert (card["temperature_slowdown_c"], card["power_limit_max_w"]) == (93, 70)


async def test_an_ampere_card_counts_its_links_and_their_errors_under_older_fields(tmp_path: Path) -> None:
    """It does not know Hopper's fields."""
    (card,) = (await once(Driver(tmp_path / "answers.json", "a100-driver-525.json")))["gpus"]

    assert card["nvlink_links_active"] == 12
    assert (card["nvlink_replay_errors_total"], card["nvlink_crc_errors_total"]) == (0, 0)
    assert card["remap_banks_max"] == 640
    assert card["absent"]["temperature_margin_c"] == card["absent"]["pcie_rx_bytes_per_s"] == "unsupported"


async def test_a_split_hopper_card_shows_its_slices(tmp_path: Path) -> None:
    """Two instances with a hole between their numbers."""
    card, large, small = (await once(Driver(tmp_path / "answers.json", "h100-mig-driver-550.json")))["gpus"]

    assert (card["index"], large["index"], small["index"]) == (0, 100, 101)
    assert small["name"].endswith("MIG 1g.10gb")
    assert (small["mem_total_bytes"], small["sm_active"]) == (9856 << 20, pytest.approx(0.385))
    assert card["absent"]["gpu_util_pct"] == small["absent"]["gpu_util_pct"] == "unsupported"
    assert "power_w" in card
    assert "power_w" in small["absent"]


async def test_a_driver_that_is_not_there_or_does_not_start_has_its_name(tmp_path: Path) -> None:
    """And host readings go on without it."""
    driver = Driver(tmp_path / "answers.json", BOARDS[0])
    driver.answers["init_error"] = 9
    driver.save()
    found = await once(driver)

    assert found["gpus_state"].startswith("no_driver: ")
    assert found["host"]["mem_used_bytes"] > 0


async def test_a_running_agent_meets_an_xid_a_busy_profiler_and_a_lost_gpu(tmp_path: Path) -> None:
    """Each is an event; the other GPU is read all the while."""
    driver = Driver(tmp_path / "answers.json", BOARDS[0])
    first, second = (gpu["uuid"] for gpu in driver.answers["gpus"])
    async with running() as server, agent(driver, server, tmp_path):
        driver.answers["events"] = [[1, XID, 63]]
        driver.answers["gpus"][0]["gpm_error"] = 19
        driver.save()
        await until(lambda: len(server.events) >= 2, 20)
        await until(lambda: any(change.reason == "profiler_busy" for change in told(server)), 20)
        assert {(event.kind, event.gpu_uuid, event.code) for event in server.events} == {
            ("xid", second, 63),
            ("driver", first, None),
        }

        driver.answers["gpus"][1]["fails"] = LOST
        driver.save()
        await until(lambda: "gpu_lost" in {event.kind for event in server.events}, 20)
        await until(lambda: latest(server, "power_w")[1] is None, 20)
        assert latest(server, "power_w")[0] == pytest.approx(142.7)


async def test_an_agent_whose_driver_hangs_goes_on_and_ends_in_time(tmp_path: Path) -> None:
    """The GPU is late, the other is read, and SIGTERM is obeyed within two seconds."""
    driver = Driver(tmp_path / "answers.json", BOARDS[0])
    async with running() as server, agent(driver, server, tmp_path) as child:
        driver.answers["gpus"][0]["hangs"] = True
        driver.save()
        await until(lambda: AbsentChange(0, "power_w", "timeout") in told(server), 20)
        await until(lambda: latest(server, "power_w")[1] is not None, 20)
        child.send_signal(signal.SIGTERM)
        began = time.monotonic()
        async with asyncio.timeout(10):
            code = await child.wait()

        assert (code, time.monotonic() - began < 4) == (0, True)


@pytest.mark.slow
async def test_a_card_that_is_split_anew_begins_a_new_inventory(tmp_path: Path) -> None:
    """Without a restart, within a slow tick."""
    driver = Driver(tmp_path / "answers.json", "h100-mig-driver-550.json")
    async with running() as server, agent(driver, server, tmp_path):
        before = [gpu.uuid for gpu in server.hellos[-1].gpus]
        card = driver.answers["gpus"][0]
        card["instances"] = [card["instances"][2] | {"uuid": "MIG-00000000-0000-4000-8000-0000000001ff"}]
        driver.save()
        await until(lambda: len(server.hellos) > 1, 40)
        after = server.hellos[-1].gpus

        assert [gpu.uuid for gpu in after] == [before[0], "MIG-00000000-0000-4000-8000-0000000001ff"]
        assert (after[1].parent_uuid, after[1].mig_profile) == (before[0], "1g.10gb")
        await until(lambda: sum("destroyed" in event.text for event in server.events) == 2, 20)


@pytest.mark.slow
async def test_an_upgraded_driver_is_loaded_anew_and_what_it_took_away_is_told(tmp_path: Path) -> None:
    """The library in memory is the old one; it is given up for the new, without a restart."""
    driver = Driver(tmp_path / "answers.json", BOARDS[0])
    async with running() as server, agent(driver, server, tmp_path):
        await until(lambda: len(server.batches) > 5, 20)
        driver.answers["driver_version"] = "590.48.01"
        for gpu in driver.answers["gpus"]:
            gpu["calls"]["nvmlDeviceGetMarginTemperature()"] = {"error": 3}
        driver.save()
        await until(lambda: server.hellos[-1].host.driver_version == "590.48.01", 60)
        await until(lambda: any("temperature_margin_c" in event.text for event in server.events), 30)

        assert any("different versions" in event.text for event in server.events)
        assert latest(server, "power_w")[0] == pytest.approx(142.7)
