"""A store that cannot be reached for minutes: nothing is acked, nothing is lost, and it is found again by itself."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.fleet.faults.counting import Count, Engine, engine
from tests.fleet.faults.nodes import Node, acked_more, delivered, delivering
from tests.serving import Server, serve

FIVE_MINUTES = 300.0


class Away:
    """The store of a server, taken from it and given back: VictoriaMetrics hangs or is dead, a directory is not mounted."""

    def __init__(self, store: Engine, how: str) -> None:
        self._store, self._how = store, how
        self._aside = store.folder / "aside"

    def go(self) -> None:
        """From now on nothing can be written."""
        if self._store.program is None:
            (self._store.data / "series").rename(self._aside)
            (self._store.data / "series").write_text("where the mount point was")
        elif self._how == "hangs":
            self._store.program.pause()
        else:
            self._store.program.kill()

    def come_back(self) -> None:
        """It is there again, as it was."""
        if self._store.program is None:
            (self._store.data / "series").unlink()
            self._aside.rename(self._store.data / "series")
        elif self._how == "hangs":
            self._store.program.go_on()
        else:
            self._store.program.start()


async def away_for(seconds: float, store: Engine, how: str, env: dict[str, str]) -> Server:
    """Three nodes at a server whose store goes for so long; counted at the end."""
    with serve(store.data, store.env | env) as server:
        nodes = [Node(server, f"n{one}", int(time.time()) - 4000) for one in range(3)]
        away = Away(store, how)
        async with delivering(nodes, samples_per_s=4) as stop:
            await acked_more(nodes, 20)
            await asyncio.to_thread(away.go)
            try:
                await asyncio.sleep(2)  # what was under way has ended
                acked = [set(node.acked) for node in nodes]
                await asyncio.sleep(seconds)
                assert [set(node.acked) for node in nodes] == acked
                assert all(node.events_acked >= {seq for seq in node.events if seq < len(node.times) // 10 - 1} for node in nodes)
                assert server.get("/healthz")
            finally:
                await asyncio.to_thread(away.come_back)
            await asyncio.to_thread(Count(server, nodes, store.reader()).holds_what_was_acked)
            stop()
            await delivered(nodes, 150)
        count = Count(server, nodes, store.reader())

        await asyncio.to_thread(count.is_exact)
        count.events_are_exact()
        assert server.log.read_text().count("Telemetry is stored again") == 1
        return server


CASES = [("parquet", ""), pytest.param("victoriametrics", "dead", marks=(pytest.mark.slow, pytest.mark.long))]
ALL = [("parquet", ""), ("victoriametrics", "dead"), ("victoriametrics", "hangs")]


@pytest.mark.parametrize(("kind", "how"), CASES)
async def test_a_store_that_is_away_costs_no_sample_and_no_ack_is_given_meanwhile(tmp_path: Path, kind: str, how: str) -> None:
    """For some seconds; events, which go to the database, are acked all the time, and the queue is small enough to fill."""
    with engine(kind, tmp_path) as store:
        await away_for(3, store, how, {"FETTLE_QUEUE_BATCHES": "40"})


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("kind", "how"), ALL)
async def test_a_store_that_is_away_for_five_minutes_costs_no_sample(tmp_path: Path, kind: str, how: str) -> None:
    """True time, the settings' queue."""
    with engine(kind, tmp_path) as store:
        await away_for(FIVE_MINUTES, store, how, {"FETTLE_STORE_TIMEOUT_S": "10"})
