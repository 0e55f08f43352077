"""Kill -9 of the ingest process, again and again, under load."""

import asyncio
import random
import time
from pathlib import Path

import pytest

from tests.fleet.faults.counting import ENGINES, Count, engine
from tests.fleet.faults.nodes import Node, a_while, acked_more, delivered, delivering
from tests.serving import serve

KILLS = {"parquet": 2, "victoriametrics": 4}


@pytest.mark.parametrize("kind", ENGINES)
async def test_no_kill_loses_or_doubles_a_sample_or_an_event(tmp_path: Path, kind: str) -> None:
    """Five nodes: at the instant of every death what was acked is readable; at the end what was said is, each once."""
    pick = random.Random(4)
    with engine(kind, tmp_path) as store, serve(store.data, store.env) as server:
        nodes = [Node(server, f"n{one}", int(time.time()) - 4000) for one in range(5)]
        async with delivering(nodes) as stop:
            for _ in range(KILLS[kind]):
                await acked_more(nodes, 50)
                await a_while(pick, 0, 1.5)
                server.kill()
                await asyncio.sleep(0.3)  # acks that were on their way are heard
                await asyncio.to_thread(Count(server, nodes, store.reader()).holds_what_was_acked)
                await asyncio.to_thread(server.start)
            stop()
            await delivered(nodes)
        count = Count(server, nodes, store.reader())

        assert min(node.connections for node in nodes) > KILLS[kind]
        count.is_exact()
        count.events_are_exact()
