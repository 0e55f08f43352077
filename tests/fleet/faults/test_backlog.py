"""An hour that gathered in an agent's spool, delivered beside what is live."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.fleet.faults.counting import ENGINES, Count, engine
from tests.fleet.faults.nodes import Node, acked_more, delivered, delivering
from tests.serving import serve

HOUR = 3_600


@pytest.mark.parametrize("kind", ENGINES)
async def test_an_hour_of_backlog_beside_live_samples_is_counted_to_the_last(tmp_path: Path, kind: str) -> None:
    """Two nodes come back, one after an hour and as another boot: every second of it is there once, and live samples were acked meanwhile."""
    with engine(kind, tmp_path) as store, serve(store.data, store.env) as server:
        now = int(time.time())
        back = Node(server, "back", now - 610)
        back.happen(600, 50)
        earlier = Node(server, "restarted", now - HOUR - 10)
        earlier.happen(HOUR, 200)
        live = Node(server, "restarted", now - 8, boot="boot-2", token=earlier.token)
        other = Node(server, "other", now - 8)
        nodes = [back, earlier, live, other]
        async with delivering([live, other], samples_per_s=1, events_every=2) as stop:
            await acked_more([live, other], 2)  # an agent speaks of what is live first
            before = len(live.acked), len(other.acked)
            async with delivering([back, earlier], living=()):
                await delivered([back, earlier], 120)
            meanwhile = len(live.acked), len(other.acked)
            stop()
            await delivered([live, other])
        count = Count(server, nodes, store.reader())

        assert all(after > first for first, after in zip(before, meanwhile, strict=True))
        await asyncio.to_thread(count.is_exact)
        count.events_are_exact()
        assert server.node("restarted")["boot"] == "boot-2"
        assert server.refusals("restarted") == {}
