"""A real agent process over the fake driver library, for tests that change what the driver answers while it runs.

The library stands in place of libnvidia-ml.so.1 (tests/agents/fake_driver); nvidia-ml-py and everything above it is real.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from tests.agents.server import TOKEN, Server, until
from wire.messages import AbsentChange, Cell

ROOT = Path(__file__).parent.parent.parent
ANSWERS = ROOT / "tests" / "device_answers"


class Driver:
    """The fake driver's answers, which a test may change while an agent reads them."""

    def __init__(self, file: Path, board: str) -> None:
        self.file = file
        self.answers: dict[str, Any] = json.loads((ANSWERS / board).read_text())
        self.save()

    def save(self) -> None:
        """Let the library see the answers as they are now, in one step."""
        part = self.file.with_name("part.json")
        part.write_text(json.dumps(self.answers))
        part.replace(self.file)

    @property
    def gpus(self) -> list[dict[str, Any]]:
        """Answers by GPU, to be changed before `save`."""
        found: list[dict[str, Any]] = self.answers["gpus"]
        return found

    def is_held(self) -> bool:
        """Whether a process has the library open: it then cannot be unloaded."""
        return self.file.with_suffix(".open").read_text() != "0"

    @property
    def environment(self) -> dict[str, str]:
        """Of a process that should meet this driver."""
        paths = os.pathsep.join((str(ROOT / "tests" / "agents" / "fake_driver"), str(ROOT)))
        return os.environ | {"PYTHONPATH": paths, "FETTLE_FAKE_NVML": str(self.file)}


async def once(driver: Driver) -> dict[str, Any]:
    """What `fettle agent --once --json` says over it."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli", "agent", "--once", "--json", "--node", "n",
        cwd=ROOT, env=driver.environment, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await child.communicate()
    assert child.returncode == 0
    found: dict[str, Any] = json.loads(said)
    return found


@contextlib.asynccontextmanager
async def agent(
    driver: Driver, server: Server, directory: Path, *more: str, through: Sequence[str] = ()
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A running agent over the driver, told `more` flags; all its files are in `directory`: spool, run, kmsg, and its log.

    `through`: a command that becomes it, as `unshare --mount`.
    """
    token, kmsg = directory / "token", directory / "kmsg"
    token.write_text(TOKEN)
    kmsg.touch()
    words = (
        "agent", "--server", server.url, "--token-file", str(token), "--node", "n", "--spool", str(directory / "spool"),
        "--run-dir", str(directory / "run"), "--report-socket", str(directory / "report.sock"), "--kernel-log", str(kmsg),
    )  # fmt: skip
    with (directory / "log").open("ab") as said:
        child = await asyncio.create_subprocess_exec(
            *through, sys.executable, "-m", "cli", *words, *more, cwd=ROOT, env=driver.environment, stderr=said, stdout=said
        )
    try:
        await until(lambda: server.batches, 60)
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


def latest(server: Server, name: str) -> list[Cell]:
    """The newest reading of every GPU."""
    return server.batches[-1].gpu[server.hellos[-1].gpu_metrics.index(name)]


def told(server: Server) -> list[AbsentChange]:
    """Every absence so far."""
    return [change for batch in server.batches for change in batch.absent]


def absent(server: Server) -> dict[tuple[int, str], str]:
    """Why readings are absent now, by GPU and metric, as the newest hello's batches told it."""
    now: dict[tuple[int, str], str] = {}
    for batch in server.batches:
        if batch.boot != server.hellos[-1].boot:
            continue
        for change in batch.absent:
            now.pop((change.gpu, change.metric), None)
            if change.reason is not None:
                now[change.gpu, change.metric] = change.reason
    return now


def texts(server: Server) -> list[str]:
    """What events said so far."""
    return [event.text for event in server.events]


async def ticks(server: Server, more: int = 3) -> None:
    """Wait for so many more batches: what was changed before is in the last of them."""
    enough = len(server.batches) + more
    await until(lambda: len(server.batches) >= enough, 30)


async def ended(child: asyncio.subprocess.Process) -> tuple[int, float]:
    """Exit code, and seconds from SIGTERM to the end."""
    began = time.monotonic()
    child.send_signal(signal.SIGTERM)
    async with asyncio.timeout(10):
        code = await child.wait()
    return code, time.monotonic() - began


async def page(port: int, path: str) -> tuple[str, float]:
    """A page of the agent, and the seconds that it took."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    return text, time.monotonic() - began


async def port_of(log: Path) -> int:
    """Where an agent that was told `--listen 127.0.0.1:0` serves its pages, as its log tells."""

    def found() -> list[str]:
        return [line for line in log.read_text().splitlines() if "Metrics are at" in line]

    await until(found, 20)
    return int(found()[0].rsplit(":", 1)[1].split("/")[0])
