"""A node's clock that jumps both ways under its agent: every acked sample is told of, live rows stay live, seconds lived twice are counted."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.faults.counting import ENGINES, Engine, engine
from tests.serving import ROOT, Server, eventually, serve
from tests.speaking import Agent, batch, hello, speak
from wire.messages import Error, Hello

READ = """
import json, sys, time
import django
django.setup()
from fleet.store import clock
rows = clock.latest("gpu", int(time.time()) - 7200, [int(sys.argv[1])])
print(json.dumps({"age": time.time() - rows["ts"].max(), "power": rows["power_w"].to_list()}))
"""


class Clocked:
    """An agent whose clock is `ahead` of ours: a sample a second, numbered on, whose power is its number; it answers what it is asked."""

    def __init__(self, agent: Agent, ahead: float) -> None:
        self.agent, self.ahead, self.seq = agent, ahead, 0
        self.said: Hello | None = None
        self.told: dict[int, float] = {}
        self._answered = 0

    async def greet(self) -> None:
        """The hello, with the node's time."""
        self.said = hello("n", gpus=1, t=time.time() + self.ahead)
        await self.agent.greet(self.said)

    async def live(self, seconds: int) -> None:
        """So many samples, a second apart."""
        assert self.said is not None
        for _ in range(seconds):
            t = float(int(time.time() + self.ahead))
            await self.agent.say(batch(self.said, self.seq, t, {"power_w": float(self.seq)}))
            self.told[int(t)] = float(self.seq)
            self.seq += 1
            await asyncio.sleep(0.5)
            asked = [error for error in self.agent.of(Error) if error.code == "need_hello"]
            if len(asked) > self._answered:
                self._answered = len(asked)
                await self.greet()
            await asyncio.sleep(0.5)

    async def acked(self) -> None:
        """Until all that was said so far is acked; its clock ticks on."""
        said = set(range(self.seq))
        for _ in range(40):
            if said <= self.agent.stored():
                return
            await self.live(1)
        raise AssertionError(f"without an ack: {said - self.agent.stored()}")


def stored(store: Engine, gpu: int) -> dict[int, float]:
    """All rows of the GPU, by the node's second."""
    rows = store.reader().window("gpu", int(time.time()) - 9000, int(time.time()) + 9000, [gpu], ["power_w"])
    assert rows["ts"].is_unique().all()
    return dict(rows.select("ts", "power_w").iter_rows())


def latest(server: Server, gpu: int) -> dict[str, Any]:
    """The age in seconds and the power of the newest row, as pages and the API read it."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(gpu)], cwd=ROOT, env=server.env, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.slow
@pytest.mark.parametrize("jumps", [(8.0, 0.0, -3600.0, 0.0), (50.0, 0.0)])
async def test_a_clock_that_jumps_and_is_set_right_loses_no_acked_second(
    tmp_path: Path, kind: str, jumps: tuple[float, ...]
) -> None:
    """Right, off, right again: the store has of every second what was told of it last; the newest row is the newest sample throughout."""
    with engine(kind, tmp_path) as store, serve(store.data, store.env) as server:
        async with speak(server.agents, server.token("n")) as agent:
            one = Clocked(agent, 0)
            await one.greet()
            await one.live(4)
            (gpu,) = [row["id"] for row in server.gpus("n")]
            for now_ahead in jumps:
                one.ahead, before = now_ahead, one.seq
                await one.live(4)
                await one.acked()
                skew = eventually(lambda want=now_ahead: abs((server.node("n")["clock_skew_s"] or 0) - want) < 2, 10)
                assert skew, (now_ahead, server.node("n")["clock_skew_s"])
                found = await asyncio.to_thread(latest, server, gpu)
                for _ in range(
                    12
                ):  # what the clock left in the future passes as the newest for the seconds in which it comes true
                    if found["power"][0] >= before:
                        break
                    await one.live(2)
                    found = await asyncio.to_thread(latest, server, gpu)
                assert found["power"][0] >= before, (before, found)
                assert -3 < found["age"] < 60, found

            assert await agent.until(lambda: set(range(one.seq)) <= agent.stored(), 60)

        assert agent.refused() == {}
        assert await asyncio.to_thread(eventually, lambda: stored(store, gpu) == one.told, 20), (stored(store, gpu), one.told)
        again = one.seq - len(one.told)
        assert again > 0 or jumps[0] != 8.0  # the others come back to seconds that nobody told of
        counted = eventually(lambda: server.refusals("n").get("clock_set_back", 0) >= again, 10)
        assert counted, server.refusals("n")
