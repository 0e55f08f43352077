"""Kill -9 of VictoriaMetrics, again and again, under ingest: it loses what it had not written, which nobody was told of as stored."""

import asyncio
import random
import time
from pathlib import Path

import pytest

from tests.fleet.faults.counting import Count, engine
from tests.fleet.faults.nodes import Node, a_while, acked_more, delivered, delivering
from tests.serving import serve


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
async def test_what_it_loses_was_never_acked(tmp_path: Path, seed: int) -> None:
    """Three deaths at any instant, one of them with the ingest process's: what was acked is there, and in the end all of it once."""
    pick = random.Random(seed)
    with engine("victoriametrics", tmp_path) as store, serve(store.data, store.env) as server:
        program = store.program
        assert program is not None
        nodes = [Node(server, f"n{one}", int(time.time()) - 4000) for one in range(3)]
        async with delivering(nodes, samples_per_s=4) as stop:
            for death in range(3):
                await acked_more(nodes, 30)
                await a_while(pick, 0, 8)
                if death == 1:
                    server.kill()
                program.kill()
                await a_while(pick, 0.5, 4)
                await asyncio.to_thread(program.start)
                await asyncio.to_thread(Count(server, nodes, store.reader()).holds_what_was_acked, 30)
                if death == 1:
                    await asyncio.to_thread(server.start)
            stop()
            await delivered(nodes, 120)
        count = Count(server, nodes, store.reader())

        await asyncio.to_thread(count.is_exact)
        count.events_are_exact()
