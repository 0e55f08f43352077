"""Who is who (I03, I04): GPUs without a name of their own, two with one name, and holders that nobody can see."""

import asyncio
from pathlib import Path

import pytest

from tests.agents.driven import Driver, absent, agent, once, ticks
from tests.agents.server import running, until
from wire.messages import PROCESSES, Hold

NOT_FOUND, NO_PERMISSION, UNKNOWN = 6, 4, 999
H200 = "h200-driver-580.json"


async def test_a_nil_uuid_is_no_gpu_and_a_double_one_is_one(tmp_path: Path) -> None:
    """I03, V07: neither makes another GPU's readings its own; the good one is read."""
    driver = Driver(tmp_path / "answers.json", H200)
    good = driver.gpus[0]["uuid"]
    driver.gpus[1]["uuid"] = "GPU-00000000-0000-0000-0000-000000000000"
    driver.save()
    nil = await once(driver)
    driver.gpus[1]["uuid"] = good
    driver.save()
    double = await once(driver)

    assert [gpu["uuid"] for gpu in nil["gpus"]] == [gpu["uuid"] for gpu in double["gpus"]] == [good]
    assert nil["gpus"][0]["power_w"] > 0


@pytest.mark.parametrize(
    ("error", "reason"), [(NOT_FOUND, "not_found"), (NO_PERMISSION, "not_permitted"), (UNKNOWN, "driver_error")]
)
async def test_holders_that_cannot_be_listed_are_unknown_and_not_nobody(error: int, reason: str, tmp_path: Path) -> None:
    """I04: the list is absent with its reason, which is told once and not with every tick, and nothing is logged each second."""
    driver = Driver(tmp_path / "answers.json", H200)
    driver.gpus[0]["processes"] = {"error": error}
    driver.save()
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server, 4)

        assert absent(server)[0, PROCESSES] == reason
        assert (1, PROCESSES) not in absent(server)
        assert sum(change.metric == PROCESSES for batch in server.batches for change in batch.absent if change.gpu == 0) == 1
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) < 12


async def test_a_holder_of_another_namespace_is_no_process_of_this_one(tmp_path: Path) -> None:
    """I04: the pid that the driver names is not to be seen here: somebody holds the GPU, without a name, a user and any reading."""
    driver = Driver(tmp_path / "answers.json", H200)
    driver.gpus[0]["processes"] = [{"pid": 4_194_303, "usedGpuMemory": 1 << 30}]
    driver.save()
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server, 4)
        batch = server.batches[-1]

        assert (0, PROCESSES) not in absent(server)
        assert batch.processes.holds == [Hold(0, 4_194_303, 1 << 30)]
        assert (batch.processes.pid, batch.processes.name, batch.processes.user) == ([4_194_303], [""], [""])
        assert all(column == [None] for column in batch.processes.values)
    assert "4194303" not in (tmp_path / "log").read_text()


async def test_a_process_that_ends_between_two_readings_costs_itself_alone(tmp_path: Path) -> None:
    """I04: a race with /proc costs that process alone; the agent logs no error for it."""
    driver = Driver(tmp_path / "answers.json", H200)
    child = await asyncio.create_subprocess_exec("sleep", "60")
    driver.gpus[0]["processes"] = [{"pid": child.pid, "usedGpuMemory": 1 << 30}]
    driver.save()
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server, 2)
        seen = any(child.pid in batch.processes.pid for batch in server.batches)
        child.kill()
        await child.wait()  # the driver still names it
        await until(lambda: server.batches[-1].processes.name == [""], 20)
        ended = server.batches[-1].processes
        driver.gpus[0]["processes"] = []
        driver.save()
        await until(lambda: server.batches[-1].processes.pid == [], 20)

        assert seen
        assert all(column == [None] for column in ended.values)
    assert "ERROR" not in (tmp_path / "log").read_text()
