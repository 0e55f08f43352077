"""What waits on the node (spool): it survives a killed agent, a server that is gone and a full disk; loss is counted and shown."""

import copy
import re
import subprocess
from pathlib import Path

import pytest

from tests.agents.driven import Driver, agent, page, port_of, texts, ticks
from tests.agents.server import Server, running, until

XID = 8
H200 = "h200-driver-580.json"


def told(metrics: str, name: str) -> int:
    """One of the agent's own figures on its page."""
    return int(re.findall(rf"^fettle_agent_{name}{{.*}} (\d+)$", metrics, re.M)[0])


def is_whole(server: Server, boot: str) -> bool:
    """Every second of a boot arrived, at least once."""
    seqs = {batch.seq for batch in server.batches if batch.boot == boot}
    return bool(seqs) and seqs == set(range(max(seqs) + 1))


async def test_an_agent_that_is_killed_with_a_stuck_driver_keeps_every_second_and_event(tmp_path: Path) -> None:
    """kill -9 while nothing was acknowledged: the next run delivers all of it, the XID too, under the old boot."""
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as server:
        server.acks = False
        async with agent(driver, server, tmp_path) as child:
            driver.answers["events"] = [[0, XID, 63]]
            driver.gpus[1]["hangs"] = True
            driver.save()
            await until(lambda: any(event.kind == "xid" for event in server.events), 20)
            await ticks(server)
            child.kill()
            await child.wait()
        old, kept = server.batches[0].boot, {batch.seq for batch in server.batches}
        server.batches.clear()
        server.events.clear()
        server.acks = True
        del driver.gpus[1]["hangs"]
        driver.save()
        async with agent(driver, server, tmp_path):
            await until(lambda: {batch.seq for batch in server.batches if batch.boot == old} >= kept, 20)
            await until(lambda: any(event.kind == "xid" and event.boot == old for event in server.events), 20)


async def test_a_server_that_dies_and_comes_back_gets_every_second(tmp_path: Path) -> None:
    """Its port closes without a word; what was measured meanwhile follows, and nothing was dropped."""
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as first:
        port = int(first.url.split(":")[2].split("/")[0])
        running_agent = agent(driver, first, tmp_path, "--listen", "127.0.0.1:0")
        child = await running_agent.__aenter__()
        await ticks(first, 2)
        await first.drop()
    try:
        pages = await port_of(tmp_path / "log")
        waiting = 0
        while waiting < 3:
            waiting = told((await page(pages, "/metrics"))[0], "spool_records")
        async with running(port) as second:
            await until(lambda: second.batches, 30)
            boot = second.batches[-1].boot
            both = Server()
            await ticks(second, 3)

            def whole() -> bool:
                both.batches = first.batches + second.batches
                return is_whole(both, boot)

            await until(whole, 30)  # the live seconds go before the backlog
            metrics, _ = await page(pages, "/metrics")
        assert (told(metrics, "spool_dropped_total"), told(metrics, "connected")) == (0, 1)
    finally:
        child.kill()
        await running_agent.__aexit__(None, None, None)


async def test_a_full_disk_is_survived_counted_and_shown(tmp_path: Path) -> None:
    """A real file system of 64 kB, in a mount namespace of its own; skipped where none may be made. Ticks go on, nothing is lost."""
    (tmp_path / "spool").mkdir()
    mount = (
        "unshare", "--mount", "--map-root-user", "sh", "-c",
        'mount -t tmpfs -o size=64k none "$0" && head -c 36000 /dev/zero >"$0"/others && exec "$@"', str(tmp_path / "spool"),
    )  # fmt: skip
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace may be made here")
    driver = Driver(tmp_path / "answers.json", H200)
    async with running() as server, agent(driver, server, tmp_path, "--listen", "127.0.0.1:0", through=mount):
        server.acks = False
        await until(lambda: "refuses records" in (tmp_path / "log").read_text(), 60)
        await ticks(server)
        metrics, _ = await page(await port_of(tmp_path / "log"), "/metrics")
        seen, boot = {batch.seq for batch in server.batches}, server.batches[-1].boot
        server.batches.clear()
        server.acks = True
        await server.drop()
        await until(lambda: seen - {0, 1, 2} <= {batch.seq for batch in server.batches if batch.boot == boot}, 30)

    assert "no space left" in (tmp_path / "log").read_text()
    assert told(metrics, "spool_write_errors_total") > 0
    assert (told(metrics, "spool_dropped_total"), told(metrics, "failed_ticks_total")) == (0, 0)


@pytest.mark.slow
async def test_a_full_spool_gives_up_its_oldest_seconds_before_any_event(tmp_path: Path) -> None:
    """A bound of 1 MB on a node of 48 GPUs: the XID of the first seconds outlives them, the loss is an event and on the page."""
    driver = Driver(tmp_path / "answers.json", H200)
    driver.answers["gpus"] = [
        copy.deepcopy(driver.gpus[number % 2]) | {"uuid": f"GPU-00000000-0000-4000-8000-{number:012d}"} for number in range(48)
    ]
    driver.save()
    async with running() as server, agent(driver, server, tmp_path, "--listen", "127.0.0.1:0", "--spool-max-mb", "1"):
        server.acks = False
        driver.answers["events"] = [[7, XID, 63]]
        driver.save()
        await until(lambda: any(event.kind == "xid" for event in server.events), 20)
        early = {batch.seq for batch in server.batches}
        await until(lambda: any("The spool was full" in text for text in texts(server)), 240)
        metrics, _ = await page(await port_of(tmp_path / "log"), "/metrics")
        server.batches.clear()
        server.events.clear()
        server.acks = True
        await server.drop()
        await until(lambda: any(event.kind == "xid" for event in server.events), 60)
        await ticks(server, 30)

    assert not early & {batch.seq for batch in server.batches}
    assert told(metrics, "spool_dropped_total") > 0
    assert told(metrics, "spool_dropped_events_total") == 0
    assert told(metrics, "spool_bytes") <= 1_000_000 + 150_000
