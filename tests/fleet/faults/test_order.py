"""Batches that come twice, late and in any order, over several connections of one node at once."""

import asyncio
import random
import time
from pathlib import Path

import pytest

from tests.fleet.faults.counting import ENGINES, Count, engine
from tests.fleet.faults.nodes import Node
from tests.serving import Server, serve
from tests.speaking import speak

SAMPLES = 60
TIMES = 3


async def shuffled(server: Server, node: Node, pick: random.Random) -> None:
    """Every sample and event TIMES times, in any order, over TIMES connections that take turns."""
    for _ in range(2):
        async with speak(server.agents, node.token) as one, speak(server.agents, node.token) as two:
            said = node.hello()
            for agent in (one, two):
                await agent.greet(said)
            turns = [(seq, kind) for seq in range(SAMPLES) for kind in ("batch", "event") for _ in range(TIMES)]
            pick.shuffle(turns)
            for place, (seq, kind) in enumerate(turns):
                agent = one if place % 2 else two
                await agent.say(node.batch(said, seq) if kind == "batch" else node.event(seq))
                if place % 100 == 0:
                    await asyncio.sleep(0.3)  # so that some of it is stored before it comes again
            for agent in (one, two):
                mine = {seq for place, (seq, kind) in enumerate(turns) if kind == "batch" and (place % 2 == 1) == (agent is one)}
                assert await agent.until(lambda agent=agent, mine=mine: mine <= agent.stored(), 60)  # type: ignore[misc]
                assert agent.refused() == {}
                node.acked |= agent.stored()
                node.events_acked |= agent.events()


@pytest.mark.parametrize("kind", ENGINES)
async def test_what_comes_in_any_order_and_again_and_again_is_there_once(tmp_path: Path, kind: str) -> None:
    """Each sample and each event once, whichever connection brought it first."""
    with engine(kind, tmp_path) as store, serve(store.data, store.env) as server:
        nodes = [Node(server, f"n{one}", int(time.time()) - 4000) for one in range(2)]
        for node in nodes:
            node.happen(SAMPLES, SAMPLES)
        await asyncio.gather(*(shuffled(server, node, random.Random(node.name)) for node in nodes))
        count = Count(server, nodes, store.reader())

        await asyncio.to_thread(count.is_exact)
        count.events_are_exact()
