"""Several ingest processes behind one port, one of which is killed again and again: nodes move, and nothing is lost or doubled."""

import asyncio
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from config import web
from tests.fleet.faults.counting import ENGINES, Count, Engine, engine
from tests.fleet.faults.nodes import Node, a_while, acked_more, delivered, delivering
from tests.serving import Server, serve

KILLS = {"parquet": 3, "victoriametrics": 5}
PROCESSES = 2


class Several(Server):
    """uvicorn with several processes of the application behind one port; what dies is started anew."""

    def command(self) -> list[str]:
        """Its command line."""
        return [sys.executable, "-m", "uvicorn", *web.arguments("127.0.0.1", self.port), "--workers", str(PROCESSES)]

    def children(self) -> list[psutil.Process]:
        """The processes that take agents in, oldest first."""
        assert self.process is not None
        found = [one for one in psutil.Process(self.process.pid).children() if _takes_agents(one)]
        return sorted(found, key=lambda one: one.pid)


def _takes_agents(one: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return one.status() != psutil.STATUS_ZOMBIE and "resource_tracker" not in " ".join(one.cmdline())
    return False


@contextmanager
def several(store: Engine) -> Iterator[Several]:
    """The processes, on a new data directory; gone at the end."""
    with serve(store.data, store.env) as first:
        first.stop()
        server = Several(store.data, store.env)
        server.start()
        try:
            yield server
        finally:
            left = server.children()
            server.stop()
            for one in left:
                with suppress(psutil.NoSuchProcess):
                    one.kill()


@pytest.mark.parametrize("kind", ENGINES)
async def test_a_node_that_moves_between_processes_that_die_loses_and_doubles_nothing(tmp_path: Path, kind: str) -> None:
    """Six nodes, a process that dies again and again: each sample once, each event once, no node taken for two."""
    pick = random.Random(8)
    with engine(kind, tmp_path) as store, several(store) as server:
        nodes = [Node(server, f"n{one}", int(time.time()) - 4000) for one in range(6)]
        served: set[str] = set()
        async with delivering(nodes) as stop:
            kills = 0
            while kills < KILLS[kind] or (len(served) <= PROCESSES and kills < 12):  # by chance no node chooses a new one
                kills += 1
                await acked_more(nodes, 40)
                await a_while(pick, 0, 1.5)
                served |= {server.node(node.name)["served_by"] for node in nodes}
                server.children()[0].kill()  # the oldest: those that it leaves behind come to the one that is next
                await asyncio.sleep(0.3)
                await asyncio.to_thread(Count(server, nodes, store.reader()).holds_what_was_acked)
            stop()
            await delivered(nodes)
            served |= {server.node(node.name)["served_by"] for node in nodes}
        count = Count(server, nodes, store.reader())

        assert len(served) > PROCESSES
        count.is_exact()
        count.events_are_exact()
        assert {node.name: server.refusals(node.name) for node in nodes} == {node.name: {} for node in nodes}
