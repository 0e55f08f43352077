"""A real agent process with an hour in its spool, of an earlier run, delivered beside what it plays now."""

import asyncio
import math
import time
from pathlib import Path

import pytest

from agents.segment import BATCH, EVENT
from agents.spool import Spool
from tests.fleet.faults.counting import ENGINES, Count, engine
from tests.fleet.faults.nodes import Node
from tests.fleet.ingest.test_real_agent import NODE, agent
from tests.serving import eventually, serve
from wire.codec import encode

HOUR = 3_600


def spooled(directory: Path, node: Node) -> None:
    """An hour of the node as a run of its agent left it behind that was cut off from the server."""
    spool = Spool(directory)
    said = node.hello()
    spool.begin(said)
    for seq in node.times:
        spool.append(BATCH, seq, encode(node.batch(said, seq)))
    for seq in node.events:
        spool.append(EVENT, seq, encode(node.event(seq)))
    spool.close()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("kind", ENGINES)
async def test_an_hour_in_the_spool_of_a_real_agent_arrives_to_the_last_sample(tmp_path: Path, kind: str) -> None:
    """While the new run's samples come each second, and over a kill of the server and one of the agent."""
    with engine(kind, tmp_path) as store, serve(store.data, store.env) as server:
        earlier = Node(server, NODE, int(time.time()) - HOUR - 60)
        earlier.happen(HOUR, 300)
        spooled(tmp_path / "spool" / NODE, earlier)

        def backlog() -> int:
            ids = earlier.ids(server)
            return len(store.reader().window("gpu", earlier.start, earlier.start + HOUR, ids, ["power_w"])) // 2 if ids else 0

        with agent(server, tmp_path):
            assert await asyncio.to_thread(eventually, lambda: backlog() > 500, 120)
            server.kill()
            await asyncio.to_thread(server.start)
            assert await asyncio.to_thread(eventually, lambda: backlog() > 1200, 150)
        with agent(server, tmp_path):
            assert await asyncio.to_thread(eventually, lambda: backlog() == HOUR, 400), (tmp_path / "agent.log").read_text()
            await asyncio.sleep(20)  # VictoriaMetrics may show what is not durable yet
            live = [gpu["id"] for gpu in server.gpus(NODE) if gpu["id"] not in earlier.ids(server)]
            played = store.reader().window("gpu", earlier.start + HOUR, math.ceil(time.time()) + 60, live, ["power_w"])
        count = Count(server, [earlier], store.reader())

        assert count.found(earlier.start + HOUR) == count.expected({earlier: set(earlier.times)})
        rows = server.rows("SELECT seq FROM inventory_event WHERE boot = ? AND kind = 'xid' AND code = 31", earlier.boot)
        assert sorted(row["seq"] for row in rows) == sorted(earlier.events)
        assert len(played) > 100
        assert played["ts"].n_unique() * 2 == len(played)
        assert "conflict" not in server.refusals(NODE)
        assert "clock_set_back" not in server.refusals(NODE)
