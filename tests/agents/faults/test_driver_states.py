"""A driver that cannot be used (D04): its state has a name and a remedy, the host is read all the same, and it is tried for ever."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from agents.device import DRIVER_STATES
from tests.agents.driven import ROOT, Driver, agent, latest, once, texts, ticks
from tests.agents.server import running, until

H200 = "h200-driver-580.json"


@pytest.mark.parametrize(
    ("init_error", "state"),
    [
        (4, "not_permitted"),  # the container has no /dev/nvidia*, or this user may not open them
        (9, "no_driver"),
        (12, "no_library"),
        (18, "version_mismatch"),
        (999, "driver_error"),  # "Failed to initialize NVML: Unknown Error"
    ],
)
async def test_a_driver_that_does_not_start_is_a_named_state_with_a_remedy(init_error: int, state: str, tmp_path: Path) -> None:
    """D04: no traceback, no empty page; the host's readings are there."""
    driver = Driver(tmp_path / "answers.json", H200)
    driver.answers["init_error"] = init_error
    driver.save()
    found = await once(driver)

    assert found["gpus_state"].startswith(f"{state}: ")
    assert DRIVER_STATES[state] in found["gpus_state"]
    assert found["host"]["mem_used_bytes"] > 0


async def test_a_library_of_another_version_lacks_functions_and_the_rest_is_read(tmp_path: Path) -> None:
    """D04: a binding that knows more than the library (an ABI break) costs those readings, not the agent."""
    driver = Driver(tmp_path / "answers.json", H200)
    driver.answers["missing"] = [
        "nvmlDeviceGetFieldValues",
        "nvmlGpmSampleAlloc",
        "nvmlDeviceGetMarginTemperature",
        "nvmlEventSetCreate",
    ]
    driver.save()
    for card in (await once(driver))["gpus"]:
        assert card["power_w"] > 0
        assert {card["absent"][name] for name in ("memory_temperature_c", "sm_active", "temperature_margin_c")} == {"unsupported"}


async def test_a_library_too_old_for_the_start_itself_is_a_named_state(tmp_path: Path) -> None:
    """D04: one without nvmlInit_v2 is no NVML that can be used."""
    driver = Driver(tmp_path / "answers.json", H200)
    driver.answers["missing"] = ["nvmlInit_v2", "nvmlInitWithFlags"]
    driver.save()

    assert (await once(driver))["gpus_state"].startswith("no_library: ")


async def test_the_doctor_says_in_plain_words_what_to_do(tmp_path: Path) -> None:
    """D04, I04: the state, its remedy, and exit code 1; nothing is taken for an absent GPU."""
    driver = Driver(tmp_path / "answers.json", H200)
    driver.answers["init_error"] = 18
    driver.save()
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli", "agent", "doctor", "--json", "--node", "n", "--run-dir", str(tmp_path / "run"),
        cwd=ROOT, env=driver.environment, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await child.communicate()
    report = json.loads(said)
    (check,) = [check for check in report["checks"] if check["name"] == "driver"]

    assert (child.returncode, report["ok"]) == (1, False)
    assert check["level"] == "wrong"
    assert check["text"].startswith("version_mismatch")
    assert "reboot" in check["remedy"]


async def test_the_driver_is_tried_until_it_comes_without_a_restart_and_without_a_storm_of_lines(tmp_path: Path) -> None:
    """D04: the library is installed while the agent runs: found within its back-off, told once, logged once."""
    driver = Driver(tmp_path / "answers.json", H200)
    content = driver.file.read_text()
    driver.file.unlink()  # the library then does not load at all
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server)
        assert not server.hellos[-1].gpus
        driver.file.write_text(content)
        await until(lambda: len(server.hellos[-1].gpus) == 2, 40)
        await until(lambda: server.batches[-1].boot == server.hellos[-1].boot, 20)

        assert None not in latest(server, "power_w")
        assert sum(text.startswith("No GPU is read: ") for text in texts(server)) == 1
        assert "The driver answers again." in texts(server)
    assert (tmp_path / "log").read_text().count("No GPU is read") == 1
