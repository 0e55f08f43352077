"""The agent itself, as its own process, against the server: kills on both sides lose and double nothing."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import polars as pl

from tests.serving import ROOT, Server, eventually, serve

RECORDING = "loader_starved"
NODE = "replay-loader-starved"


@contextmanager
def agent(server: Server, directory: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """`fettle agent --replay` with a spool on disk; killed at the end."""
    tokens = directory / "tokens.json"
    if not tokens.exists():
        tokens.write_text(json.dumps({NODE: server.token(NODE)}))
        tokens.chmod(0o600)
    command = [
        sys.executable,
        "-m",
        "cli",
        "agent",
        "--replay",
        str(ROOT / "recordings" / f"{RECORDING}.jsonl.gz"),
        "--gpus",
        "2",
    ]
    command += ["--server", server.agents, "--tokens", str(tokens), "--spool", str(directory / "spool")]
    with (directory / "agent.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def rows(server: Server) -> pl.DataFrame:
    """Everything stored of the node's GPUs."""
    ids = [gpu["id"] for gpu in server.gpus(NODE)]
    now = time.time()
    return server.window("gpu", now - 600, now + 60, ids) if ids else pl.DataFrame({"entity": [], "ts": []})


def newest(server: Server) -> int:
    """The newest second stored; 0 when there is none."""
    return max(rows(server)["ts"].to_list(), default=0)


def seconds_without_gap(frame: pl.DataFrame) -> bool:
    """Every GPU has exactly one row for each second from the first to the last."""
    spans = frame.group_by("entity").agg(
        n=pl.len(), span=pl.col("ts").max() - pl.col("ts").min() + 1, distinct=pl.col("ts").n_unique()
    )
    return (
        spans.height == 2
        and spans.select((pl.col("n") == pl.col("span")).all() & (pl.col("n") == pl.col("distinct")).all()).item()
    )


def test_a_replaying_agent_streams_into_the_store(tmp_path: Path) -> None:
    """A recording arrives as a node with GPUs, host and processes, second by second, marked as a recording; nothing is refused."""
    with serve(tmp_path / "data") as server, agent(server, tmp_path):
        assert eventually(lambda: rows(server).height >= 12, 40), (tmp_path / "agent.log").read_text() + server.log.read_text()
        found = rows(server)
        node = server.node(NODE)
        now = time.time()
        host = server.window("host", now - 600, now + 60, [node["id"]])

        assert seconds_without_gap(found)
        assert node["recording"] == RECORDING
        assert found["power_w"].null_count() == 0
        assert host["cpu_busy_cores"].is_not_null().any()
        assert eventually(lambda: server.window("process", now - 600, time.time() + 60).height, 30)
        assert server.refusals(NODE) == {}


def test_nothing_is_lost_when_the_server_is_killed_in_mid_stream(tmp_path: Path) -> None:
    """SIGKILL, a pause, a new start: the agent's backlog fills the gap, one row a second, none twice."""
    with serve(tmp_path / "data") as server, agent(server, tmp_path):
        assert eventually(lambda: rows(server).height >= 8, 40)
        server.kill()
        killed = time.time()
        time.sleep(4)
        server.start()
        assert eventually(lambda: newest(server) > killed + 6, 60), (tmp_path / "agent.log").read_text()
        assert eventually(lambda: seconds_without_gap(rows(server)), 30), rows(server).select("entity", "ts").sort("ts").rows()


def test_nothing_is_lost_when_the_agent_is_killed_in_mid_stream(tmp_path: Path) -> None:
    """What the first run had not delivered goes out under its own hello beside the second run's; only the pause is a gap."""
    with serve(tmp_path / "data") as server:
        with agent(server, tmp_path):
            assert eventually(lambda: rows(server).height >= 8, 40)
            server.kill()
            time.sleep(3)
        stopped = int(time.time())
        server.start()
        with agent(server, tmp_path):
            assert eventually(lambda: newest(server) > stopped + 4, 60), (tmp_path / "agent.log").read_text()
            assert eventually(lambda: _gaps(rows(server)) == 1, 30), rows(server).select("entity", "ts").sort("ts").rows()
            found = rows(server)

        assert found.select(pl.struct("entity", "ts").is_unique().all()).item()
        assert "conflict" not in server.refusals(NODE)
        assert server.node(NODE)["boot"] != ""


def _gaps(frame: pl.DataFrame) -> int:
    """Holes in the first GPU's seconds."""
    seconds = sorted(frame.filter(pl.col("entity") == frame["entity"].min())["ts"].to_list())
    return sum(after - before > 1 for before, after in pairwise(seconds))
