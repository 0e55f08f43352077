"""The agent as a real process: it connects, replays, survives kill -9, and ends on SIGTERM in time."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agents.app import build
from agents.clock import RealClock
from agents.config import load
from agents.segment import BATCH
from tests.agents.server import TOKEN, running, until
from wire.messages import Hello

ROOT = Path(__file__).parent.parent.parent


@contextlib.asynccontextmanager
async def process(*words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A running `fettle` process."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli", *words, cwd=ROOT, stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        await started.communicate()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """A file with the server's token."""
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    return file


async def ended(started: asyncio.subprocess.Process) -> tuple[int, float]:
    """Exit code and seconds that the end took after SIGTERM."""
    began = time.monotonic()
    started.send_signal(signal.SIGTERM)
    async with asyncio.timeout(10):
        code = await started.wait()
    return code, time.monotonic() - began


def test_the_spools_bound_is_in_megabytes_of_a_million_bytes(token: Path, tmp_path: Path) -> None:
    """What the flag says is what the disk holds at most."""
    config = load(None, {"node": "n", "token_file": token, "spool": tmp_path / "spool", "spool_max_mb": 1})
    (node,) = build(config, "ws://127.0.0.1:9/", RealClock())
    node.spool.begin(Hello(node="n", boot="b", agent_version="1"))
    largest = 0
    for seq in range(300):
        node.spool.append(BATCH, seq, b"x" * 10_000)
        largest = max(largest, sum(file.stat().st_size for file in (tmp_path / "spool").rglob("*.spool")))
    node.spool.close()

    assert 950_000 < largest <= 1_000_000


async def test_sigterm_ends_it_in_under_two_seconds_connected_or_not(token: Path) -> None:
    """It says so where it is heard; exit code 0 both while the server takes everything and while there is none."""
    async with running() as server, process("agent", "--server", server.url, "--token-file", str(token), "--node", "n") as agent:
        await until(lambda: server.batches, 20)
        code, seconds = await ended(agent)
        assert code == 0
        assert seconds < 2
        assert [event.kind for event in server.events][-1:] == ["bye"]
    async with process("agent", "--server", "ws://127.0.0.1:9/ws/agent/", "--token-file", str(token)) as agent:
        assert agent.stderr is not None
        async with asyncio.timeout(20):
            while b"No connection" not in await agent.stderr.readline():
                pass
        code, seconds = await ended(agent)
        assert code == 0
        assert seconds < 2


_HANGING_RESOLVER = """
import socket, sys, time
def hang(*words, **options):
    print("asked for a name", file=sys.stderr, flush=True)
    time.sleep(60)
socket.getaddrinfo = hang
from cli.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


async def test_sigterm_ends_it_in_time_while_the_resolver_hangs(token: Path) -> None:
    """A look-up has a thread of its own, which neither the loop's end nor the interpreter's waits for."""
    words = ("agent", "--server", "wss://fettle.example/ws/agent/", "--token-file", str(token), "--node", "n")
    agent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _HANGING_RESOLVER, *words, cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert agent.stderr is not None
        async with asyncio.timeout(20):
            while b"asked for a name" not in await agent.stderr.readline():
                pass
        code, seconds = await ended(agent)
    finally:
        with contextlib.suppress(ProcessLookupError):
            agent.kill()
        await agent.communicate()

    assert code == 0
    assert seconds < 2


async def test_kill_9_loses_nothing_that_was_spooled_and_doubles_nothing_acked(token: Path, tmp_path: Path) -> None:
    """The next run delivers the rest under the old boot, after its own first batches."""
    words = ("agent", "--token-file", str(token), "--node", "n", "--spool", str(tmp_path / "spool"))
    async with running() as server:
        async with process(*words, "--server", server.url) as agent:
            await until(lambda: len(server.batches) >= 2, 20)
            server.acks = False
            await until(lambda: len(server.batches) >= 4, 20)
            agent.kill()
            await agent.wait()
        first = {batch.seq for batch in server.batches}
        acked = {0, 1} & first
        old = server.batches[0].boot
        server.batches.clear()
        server.acks = True
        async with process(*words, "--server", server.url) as agent:
            await until(lambda: {b.seq for b in server.batches if b.boot == old} >= first - acked, 20)
            code, _ = await ended(agent)
            assert code == 0
    resent = [batch.seq for batch in server.batches if batch.boot == old]
    assert len(resent) == len(set(resent))
    assert not set(resent) & acked
    assert server.batches[0].boot != old


async def test_recordings_play_as_nodes_from_one_process(tmp_path: Path) -> None:
    """One connection a node, marked as a recording, with its own token."""
    recordings = sorted((ROOT / "recordings").glob("*.jsonl.gz"))[:3]
    names = [f"replay-{path.name.split('.')[0].replace('_', '-')}" for path in recordings]
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps(dict.fromkeys(names, TOKEN)))
    words = ("agent", "--replay", *map(str, recordings), "--gpus", "8", "--tokens", str(tokens))
    async with running() as server, process(*words, "--server", server.url) as agent:
        await until(lambda: len({batch.node for batch in server.batches if batch.seq >= 1}) == 3, 20)
        code, seconds = await ended(agent)

        assert code == 0
        assert seconds < 2
    assert sorted(hello.node for hello in server.hellos) == names
    assert all(hello.recording and len(hello.gpus) == 8 for hello in server.hellos)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("agent",), "--server"),
        (("agent", "--server", "http://x/"), "ws://"),
        (("agent", "--server", "ws://127.0.0.1:9/"), "--token-file"),
        (("agent", "--server", "ws://127.0.0.1:9/", "--replay", "/nowhere"), "/nowhere"),
        (("agent", "--config", "/nowhere.toml"), "/nowhere.toml"),
    ],
)
async def test_settings_that_make_no_agent_are_said_in_one_line(words: tuple[str, ...], said: str) -> None:
    """Exit code 2, no traceback."""
    async with process(*words) as agent:
        _, stderr = await agent.communicate()

    assert agent.returncode == 2
    assert said in stderr.decode()
    assert "Traceback" not in stderr.decode()
    assert len(stderr.decode().strip().splitlines()) == 1


async def test_the_agent_pays_for_nothing_that_it_does_not_use() -> None:
    """No data frames, no Django, no arrays: start-up and memory stay small."""
    code = "import sys, cli.agent, agents.app, agents.replay, agents.machine, agents.nvml_device\nprint(' '.join(sys.modules))"
    started = await asyncio.create_subprocess_exec(sys.executable, "-c", code, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    stdout, _ = await started.communicate()

    assert started.returncode == 0
    assert not {"polars", "numpy", "django", "pandas", "psutil", "advisor"} & set(stdout.decode().split())
    assert os.path.exists("/proc")
