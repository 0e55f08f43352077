"""Two agents with one identity: both are stored, a second that both told of is one whole row of one of them, and it is counted."""

import time
from pathlib import Path

import pytest

from tests.fleet.faults.counting import ENGINES, Count, engine
from tests.fleet.faults.nodes import Node, acked_more, delivered, delivering
from tests.serving import Server, eventually, serve


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
async def test_two_agents_with_one_identity_mix_no_row(tmp_path: Path, kind: str, processes: int) -> None:
    """A cloned machine: two boots tell of the same seconds of the same GPUs, through one process or two; each second is one of theirs."""
    with engine(kind, tmp_path) as store, serve(store.data, store.env) as server:
        second = Server(store.data, store.env) if processes == 2 else server
        if second is not server:
            second.start()
        try:
            start = int(time.time())
            one = Node(server, "twin", start)
            two = Node(second, "twin", start, boot="boot-2", token=one.token)
            async with delivering([one, two], samples_per_s=1, events_every=2) as stop:
                await acked_more([one, two], 12)
                stop()
                await delivered([one, two])
        finally:
            if second is not server:
                second.stop()
        count = Count(server, [one, two], store.reader())
        told = [count.expected({node: set(node.times)}) for node in (one, two)]
        found = count.found()

        assert found.keys() == told[0].keys() | told[1].keys()
        assert all(value in [of.get(key) for of in told] for key, value in found.items())
        count.events_are_exact()
        assert eventually(lambda: server.refusals("twin") == {"conflict": 1}), server.refusals("twin")
