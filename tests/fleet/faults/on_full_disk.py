"""Run by test_disk_full.py, in a mount namespace where FETTLE_TEST_DISK is a small file system: a real server with all its data on it."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from tests.fleet.faults.counting import Count, engine
from tests.fleet.faults.nodes import Node, acked_more, delivered, delivering
from tests.serving import serve

DISK = Path(os.environ.get("FETTLE_TEST_DISK", "/nowhere"))


def fill(ballast: Path) -> None:
    """Leave no byte."""
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 9, 1):
            try:
                while file.write(b"\0" * size):
                    pass
            except OSError:
                continue


@pytest.mark.parametrize("kind", ["parquet", "victoriametrics"])
async def test_a_full_disk_costs_neither_samples_nor_events(kind: str) -> None:
    """Database and store on one full disk: nothing is acked, it is said, and all is stored once there is room; each sample and event once."""
    with engine(kind, DISK) as store, serve(store.data, store.env) as server:
        nodes = [Node(server, f"n{one}", int(time.time()) - 4000) for one in range(3)]
        ballast = DISK / "ballast"
        async with delivering(nodes, samples_per_s=5, events_every=5) as stop:
            await acked_more(nodes, 30)
            count = Count(server, nodes, store.reader())  # nobody can open SQLite's file while the disk is full
            for _ in range(2):
                fill(ballast)
                await asyncio.sleep(4)
                fill(ballast)  # what was let go of meanwhile
                said = sum(len(node.times) for node in nodes)
                await asyncio.sleep(6)
                assert sum(len(node.acked) for node in nodes) < said
                if store.program is None:
                    await asyncio.to_thread(count.holds_what_was_acked)
                ballast.unlink()
                if store.program is not None:  # it may have ended itself: its supervisor starts it again
                    await asyncio.to_thread(store.program.kill)
                    await asyncio.to_thread(store.program.start)
                    await asyncio.to_thread(count.holds_what_was_acked)
                await acked_more(nodes, 30)
            stop()
            await delivered(nodes, 120)

        await asyncio.to_thread(count.is_exact)
        count.events_are_exact()
        log = server.log.read_text()
        assert "Telemetry is not stored, agents keep it" in log
        assert "Telemetry is stored again" in log
        assert not list((store.data / "series").rglob("*.tmp"))
