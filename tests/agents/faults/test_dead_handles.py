"""Handles that died under the agent (D05): a reset or a reload makes them refuse everything, which is no lack of the GPU."""

from pathlib import Path

import pytest

from tests.agents.driven import Driver, absent, agent, latest, texts, ticks
from tests.agents.server import running, until

INVALID_ARGUMENT, UNKNOWN = 2, 999
H200 = "h200-driver-580.json"


@pytest.mark.slow
async def test_a_handle_that_refuses_everything_as_invalid_is_not_remembered_as_a_lack(tmp_path: Path) -> None:
    """D05, D13: the same answer to one question alone means that the card has no such thing, and is never asked again."""
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server)
        before = absent(server)
        driver.gpus[0]["fails"] = INVALID_ARGUMENT
        driver.save()
        await until(lambda: latest(server, "power_w")[0] is None, 20)
        await ticks(server)
        assert absent(server)[0, "power_w"] == "driver_error"
        assert latest(server, "power_w")[1] is not None

        del driver.gpus[0]["fails"]
        driver.save()
        await until(lambda: latest(server, "power_w")[0] is not None, 20)
        await until(lambda: latest(server, "energy_j_total")[0] is not None, 20)
        await until(lambda: absent(server) == before, 30)


@pytest.mark.slow
async def test_a_driver_that_answers_nothing_any_more_is_opened_anew_by_itself(tmp_path: Path) -> None:
    """D05: after a reload every old handle fails; the readings come back under a new boot, since counters may have begun anew."""
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server)
        first = server.hellos[-1].boot
        for gpu in driver.gpus:
            gpu["fails"] = UNKNOWN
        driver.save()
        await until(lambda: any("may have been reloaded" in text for text in texts(server)), 30)
        for gpu in driver.gpus:
            del gpu["fails"]
        driver.save()
        await until(lambda: server.hellos[-1].boot != first, 40)
        await until(lambda: server.batches[-1].boot == server.hellos[-1].boot and None not in latest(server, "power_w"), 20)

        assert "The driver answers again." in texts(server)


@pytest.mark.slow
async def test_what_failed_for_a_moment_at_the_start_is_asked_again(tmp_path: Path) -> None:
    """V02: a constant of the card that could not be read in the first tick is not absent for ever."""
    driver = Driver(tmp_path / "answers.json", H200)
    calls = driver.gpus[0]["calls"]
    key = "nvmlDeviceGetTemperatureThreshold(0)"
    shutdown_at = calls[key]
    calls[key] = {"error": UNKNOWN}
    driver.save()
    async with running() as server, agent(driver, server, tmp_path):
        await until(lambda: absent(server).get((0, "temperature_shutdown_c")) == "driver_error", 20)
        calls[key] = shutdown_at
        driver.save()
        await until(lambda: latest(server, "temperature_shutdown_c")[0] == shutdown_at, 40)
