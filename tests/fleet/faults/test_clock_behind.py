"""A node whose clock is days behind: its samples are refused with the clock named, and no other node's ack waits for that; a backlog of days is kept."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fleet.faults.counting import ENGINES, engine
from tests.serving import ROOT, Server, eventually, serve
from tests.speaking import batch, hello, speak

DAY = 86_400
PRUNE = "import django; django.setup(); from fleet.store.tasks import prune; prune()"
SAMPLES = 20


def prune(server: Server) -> None:
    """What a worker does every ten minutes."""
    subprocess.run([sys.executable, "-c", PRUNE], cwd=ROOT, env=server.env, check=True)


def is_right(skew_s: float | None) -> bool:
    """True of a clock that is known to go as the server's."""
    return skew_s is not None and abs(skew_s) < 5


@pytest.mark.parametrize("told", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ENGINES)
async def test_a_clock_that_is_days_behind_costs_no_other_node_an_ack(tmp_path: Path, kind: str, told: bool) -> None:
    """From the first second after the start. Its samples are refused at once and counted, its skew is shown; set right, it is back with the next one.

    Of an agent that tells no time nobody knows a clock that is behind from a backlog: it is taken where anything is kept of those days.
    """
    with engine(kind, tmp_path, "-retentionPeriod=4d") as store, serve(store.data, store.env) as server:
        tokens = [server.token(name) for name in ("wrong", "right", "away")]
        began = time.time()
        async with (
            speak(server.agents, tokens[0]) as wrong,
            speak(server.agents, tokens[1]) as right,
            speak(server.agents, tokens[2]) as away,
        ):
            behind = await wrong.greet(hello("wrong", gpus=1, t=began - 5 * DAY if told else None))
            live = await right.greet(hello("right", gpus=1, t=time.time()))
            late = await away.greet(hello("away", gpus=1, t=time.time()))
            for seq in range(SAMPLES):
                await wrong.say(batch(behind, seq, time.time() - 5 * DAY, {"power_w": 100.0}))
                await right.say(batch(live, seq, time.time(), {"power_w": 200.0}))
                await away.say(batch(late, seq, int(began) - 60 * 3600 + seq, {"power_w": 300.0}))
                await asyncio.sleep(1)
            all_ = set(range(SAMPLES))
            assert await right.until(lambda: all_ <= right.stored(), 40), right.stored()
            assert await away.until(lambda: all_ <= away.stored(), 40), away.stored()
            refuses = told or kind == "victoriametrics"
            answers = wrong.refused if refuses else wrong.stored
            assert await wrong.until(lambda: set(answers()) == all_, 40), answers()
            if told:
                skew = await asyncio.to_thread(eventually, lambda: server.node("wrong")["clock_skew_s"])
                assert skew == pytest.approx(-5 * DAY, abs=5)
            await wrong.say(batch(behind, SAMPLES, time.time(), {"power_w": 100.0}))
            assert await wrong.until(lambda: SAMPLES in wrong.stored(), 40)

        assert right.refused() == away.refused() == {}
        if refuses:
            assert set(wrong.refused().values()) == {"bad_time"}
            assert await asyncio.to_thread(eventually, lambda: server.refusals("wrong") == {"bad_time": SAMPLES})
        assert await asyncio.to_thread(eventually, lambda: is_right(server.node("wrong")["clock_skew_s"]))
        await asyncio.to_thread(prune, server)
        for name, value, since in (("away", 300.0, int(began) - 60 * 3600), ("right", 200.0, int(began))):
            (gpu,) = server.gpus(name)
            found = store.reader().series("gpu", gpu["id"], ["power_w"], since, since + 100, 10, full=True)
            assert found["power_w_n"].sum() == SAMPLES
            assert found["power_w"].drop_nulls().unique().to_list() == [value]
        if kind == "parquet":  # whole days that are over go, once there are roll-ups
            assert store.reader().window("gpu", int(began) - 61 * 3600, int(began) - 59 * 3600).is_empty()
