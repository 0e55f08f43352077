"""Driver calls that hang or drag on (D03, D06): the GPU is late, the rest goes on, pages answer, and the end comes in time."""

import os
from pathlib import Path

from tests.agents.driven import Driver, absent, agent, ended, latest, page, port_of, texts, ticks
from tests.agents.server import running, until

H200 = "h200-driver-580.json"


async def test_a_gpu_that_hangs_costs_itself_alone_and_comes_back(tmp_path: Path) -> None:
    """D03: told once as late and once as back; seconds go on being sent, and health and metrics answer at once meanwhile."""
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as server, agent(driver, server, tmp_path, "--listen", "127.0.0.1:0"):
        port = await port_of(tmp_path / "log")
        await ticks(server)
        driver.gpus[0]["hangs"] = True
        driver.save()
        await until(lambda: absent(server).get((0, "power_w")) == "timeout", 20)
        await ticks(server, 4)
        seconds = [batch.t for batch in server.batches[-4:]]
        health, metrics = await page(port, "/healthz"), await page(port, "/metrics")
        assert latest(server, "power_w")[1] is not None
        assert seconds[-1] - seconds[0] <= 4
        assert health[0].startswith("HTTP/1.1 200")
        assert 'DCGM_FI_DEV_POWER_USAGE{gpu="1"' in metrics[0]
        assert 'DCGM_FI_DEV_POWER_USAGE{gpu="0"' not in metrics[0]
        assert max(health[1], metrics[1]) < 1

        del driver.gpus[0]["hangs"]
        driver.save()
        await until(lambda: latest(server, "power_w")[0] is not None, 20)
        await until(lambda: "The driver answers again for GPU 0." in texts(server), 20)
        assert texts(server).count("The driver does not answer in time for GPU 0.") == 1


async def test_a_driver_that_becomes_slow_is_told_of_before_it_hangs(tmp_path: Path) -> None:
    """D03: calls of 100 ms each are minutes at a bad GPU: that it is slow is a signal of its own."""
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server)
        driver.gpus[1]["takes_s"] = 0.1
        driver.save()
        await until(lambda: "The driver does not answer in time for GPU 1." in texts(server), 20)
        await ticks(server)

        assert latest(server, "power_w")[0] is not None


async def test_a_stuck_call_holds_up_neither_the_end_nor_the_threads(tmp_path: Path) -> None:
    """D06: every GPU hangs: SIGTERM is obeyed within two seconds, without a kill, and none has more than one thread."""
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as server, agent(driver, server, tmp_path) as child:
        await ticks(server)
        before = len(os.listdir(f"/proc/{child.pid}/task"))
        for gpu in driver.gpus:
            gpu["hangs"] = True
        driver.save()
        await until(lambda: {absent(server).get((gpu, "power_w")) for gpu in (0, 1)} == {"timeout"}, 20)
        await ticks(server, 5)
        assert (
            len(os.listdir(f"/proc/{child.pid}/task")) <= before + len(driver.gpus) - 1
        )  # each keeps one, who shared one before
        code, seconds = await ended(child)

    assert code == 0
    assert seconds < 2


async def test_a_call_that_sticks_in_c_does_not_keep_the_process(tmp_path: Path) -> None:
    """D06: a call that never comes back holds locks that the library's exit handlers wait for: the agent ends without these."""
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as server, agent(driver, server, tmp_path) as child:
        await ticks(server)
        driver.gpus[0]["sticks"] = True
        driver.save()
        await until(lambda: absent(server).get((0, "power_w")) == "timeout", 20)
        assert latest(server, "power_w")[1] is not None
        code, seconds = await ended(child)

    assert code == 0
    assert seconds < 2


async def test_an_end_without_anything_stuck_lets_the_driver_go(tmp_path: Path) -> None:
    """D06: the library is shut down in order, so that no GPU is left to a killed monitor."""
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as server, agent(driver, server, tmp_path) as child:
        await ticks(server)
        assert driver.is_held()
        code, seconds = await ended(child)

    assert (code, driver.is_held()) == (0, False)
    assert seconds < 2
