"""Profiling counters and commands (D05, D10, D11): lost to another tool they cost themselves alone; on command all is let go."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agents import ask
from agents.config import AgentConfig
from tests.agents.driven import ROOT, Driver, absent, agent, latest, once, texts, ticks
from tests.agents.server import Server, running, until

IN_USE, INSUFFICIENT_RESOURCES, INVALID_STATE, NO_PERMISSION = 19, 23, 29, 4
H200 = "h200-driver-580.json"


async def command(server: Server, directory: Path, do: str, seconds: int) -> dict[str, Any]:
    """What the running agent answers to one asked on the node."""
    config = AgentConfig(server=server.url, node="n", run_dir=directory / "run")
    return await asyncio.to_thread(ask.ask, config, {"do": do, "seconds": seconds})


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (IN_USE, "profiler_busy"),
        (INSUFFICIENT_RESOURCES, "profiler_busy"),
        (INVALID_STATE, "profiler_busy"),
        (NO_PERMISSION, "not_permitted"),
    ],
)
async def test_a_profiler_that_holds_the_counters_costs_those_alone(error: int, reason: str, tmp_path: Path) -> None:
    """D10: Nsight, CUPTI or a second engine, by whichever error the driver says so: the basic set is read, the gap has its reason."""
    driver = Driver(tmp_path / "answers.json", H200)
    driver.gpus[0]["gpm_error"] = error
    driver.save()
    first, second = (await once(driver))["gpus"]

    assert first["absent"]["sm_active"] == first["absent"]["dram_active"] == reason
    assert first["power_w"] > 0
    assert first["gpu_util_pct"] is not None
    assert second["sm_active"] is not None


@pytest.mark.slow
async def test_counters_that_became_free_are_taken_up_without_a_restart(tmp_path: Path) -> None:
    """D10: told once as held and once as free."""
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server)
        driver.gpus[0]["gpm_error"] = IN_USE
        driver.save()
        await until(lambda: absent(server).get((0, "sm_active")) == "profiler_busy", 20)
        del driver.gpus[0]["gpm_error"]
        driver.save()
        await until(lambda: latest(server, "sm_active")[0] is not None, 40)
        await until(lambda: any("are free again" in text for text in texts(server)), 20)

        assert sum("held by another profiler" in text for text in texts(server)) == 1


async def test_one_unknown_field_does_not_cost_the_others(tmp_path: Path) -> None:
    """D11: a driver that refuses a whole request for one id: that one is unsupported, every other field is read."""
    driver = Driver(tmp_path / "answers.json", H200)
    whole = (await once(driver))["gpus"][0]
    driver.gpus[0]["poison"] = 82
    driver.save()
    card = (await once(driver))["gpus"][0]

    assert "memory_temperature_c" in whole
    assert {name for name in whole if name not in card} <= {"memory_temperature_c"}


async def test_profiling_is_let_go_for_another_tool_and_taken_up_again(tmp_path: Path) -> None:
    """D10: `fettle agent pause-profiling` reaches the driver of the running agent; meanwhile all else is read."""
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as server, agent(driver, server, tmp_path):
        await until(lambda: latest(server, "sm_active")[0] is not None, 20)
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "cli", "agent", "pause-profiling", "--for", "10m", "--server", server.url, "--node", "n",
            "--run-dir", str(tmp_path / "run"), cwd=ROOT, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, _ = await child.communicate()
        await until(lambda: absent(server).get((0, "sm_active")) == "paused", 20)
        assert child.returncode == 0
        assert b"600 s" in said
        assert latest(server, "power_w")[0] is not None

        await command(server, tmp_path, "pause_profiling", 0)
        await until(lambda: latest(server, "sm_active")[0] is not None, 20)


async def test_the_driver_can_be_unloaded_within_two_seconds_of_the_command(tmp_path: Path) -> None:
    """D05: every handle is closed though ticks go on, a drain may reset the GPU, and the driver is taken up again on command."""
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server)
        assert driver.is_held()
        began = time.monotonic()
        answer = await command(server, tmp_path, "release", 600)
        took = time.monotonic() - began
        assert answer["ok"]
        assert not driver.is_held()
        assert took < 2
        await until(lambda: absent(server).get((0, "power_w")) == "paused", 20)
        await ticks(server)
        assert not driver.is_held()
        assert latest(server, "power_w") == [None, None]

        await command(server, tmp_path, "release", 0)
        await until(lambda: None not in latest(server, "power_w"), 20)
        assert driver.is_held()


async def test_a_release_that_a_stuck_call_holds_up_is_not_called_done(tmp_path: Path) -> None:
    """D05, D06: the answer comes in time and says that it is not let go; it is as soon as the call comes back."""
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server)
        driver.gpus[0]["hangs"] = True
        driver.save()
        await until(lambda: absent(server).get((0, "power_w")) == "timeout", 20)
        began = time.monotonic()
        answer = await command(server, tmp_path, "release", 600)
        took = time.monotonic() - began
        assert not answer["ok"]
        assert took < 3
        assert driver.is_held()

        del driver.gpus[0]["hangs"]
        driver.save()
        await until(lambda: not driver.is_held(), 20)


async def test_the_doctor_names_every_absent_metric_under_its_reason_with_what_to_do(tmp_path: Path) -> None:
    """Of a T4: profiling, NVLink and row remapping are missing, each in plain words; a lack of the card is no wrong."""
    driver = Driver(tmp_path / "answers.json", "t4-driver-525.json")
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli", "agent", "doctor", "--json", "--node", "n", "--run-dir", str(tmp_path / "run"),
        cwd=ROOT, env=driver.environment, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await child.communicate()
    report = json.loads(said)
    (lacks,) = [check for check in report["checks"] if check["name"] == "GPU 0: absent, unsupported"]

    assert lacks["level"] == "note"
    assert "there is nothing to do" in lacks["remedy"]
    assert {"sm_active", "nvlink_links_active", "remap_banks_max"} <= set(lacks["text"].split(", "))
    assert set(report["absent"]["GPU 0"]["unsupported"]) == set(lacks["text"].split(", "))
