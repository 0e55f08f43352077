"""Ingest under load: simulated agents at 1 Hz through a real uvicorn into a real store.

    python bench/ingest.py --gpus 800 --seconds 60 [--store victoriametrics]

One sample is one tick of one GPU with all its metrics; each node has eight GPUs, host metrics and one process a GPU,
replaying the values of a recording. The server has a data directory of its own, which is removed at the end. The
load comes from this process, the server is another; its CPU time and memory are read from /proc. The last line is JSON.
"""

import argparse
import asyncio
import json
import math
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np
import psutil
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from config import web
from wire import codec, metrics, recording
from wire.messages import Ack, Batch, Cell, Error, GpuFacts, Hello, Hold, HostFacts, Processes, schema_id

GPUS_A_NODE: Final = 8
GPU = tuple(metric.name for metric in metrics.sent("gpu"))
HOST = tuple(metric.name for metric in metrics.sent("host"))
PROCESS = tuple(metric.name for metric in metrics.sent("process"))
GRACE_S: Final = 30
CONNECT_AT_ONCE: Final = 50


@dataclass
class Load:
    """What was sent and what came back."""

    sent: int = 0
    sent_bytes: int = 0
    acked: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)


@dataclass
class Tick:
    """One second of a recorded node."""

    gpu: list[list[Cell]]
    fast: list[list[Cell]]
    host: list[Cell]
    process: list[list[Cell]]


def ticks(count: int) -> list[Tick]:
    """Values as a training job really has them: a recording's GPU on each of the eight, a little apart in time."""
    samples = recording.read(ROOT / "recordings" / "bf16_train.jsonl.gz").samples
    samples = samples[len(samples) // 3 :]
    made = []
    for number in range(count):
        columns = [recording.readings("gpu", samples[(number * 4 + gpu) % len(samples)].gpus[0])[0] for gpu in range(GPUS_A_NODE)]
        sample = samples[number * 4 % len(samples)]
        host = recording.readings("host", sample.host)[0]
        process = recording.readings("process", sample.processes[0] if sample.processes else {})[0]
        gpu: list[list[Cell]] = [[values.get(name) for values in columns] for name in GPU]
        made.append(
            Tick(
                gpu,
                [[] if name in metrics.HELD else column for name, column in zip(GPU, gpu, strict=True)],
                [host.get(name) for name in HOST],
                [[process.get(name)] * GPUS_A_NODE for name in PROCESS],
            )
        )
    return made


def hello(name: str) -> Hello:
    """A node of eight H200."""
    gpus = tuple(
        GpuFacts(index=n, uuid=f"GPU-{name}-{n}", name="NVIDIA H200", mem_total_bytes=150_754_820_096) for n in range(GPUS_A_NODE)
    )
    return Hello(
        node=name,
        boot="bench",
        agent_version="bench",
        host=HostFacts(cores=32, mem_total_bytes=1 << 38),
        gpus=gpus,
        gpu_metrics=GPU,
        host_metrics=HOST,
        process_metrics=PROCESS,
        schema=schema_id(GPU, HOST, PROCESS),
    )


async def agent(
    url: str,
    name: str,
    token: str,
    phase: float,
    base: float,
    seconds: int,
    values: list[Tick],
    load: Load,
    gate: asyncio.Semaphore,
) -> None:
    """One node: a batch a second, then patience until all are acked."""
    said = hello(name)
    pending: dict[int, float] = {}
    async with gate:
        socket = await connect(
            url, additional_headers={"Authorization": f"Bearer {token}"}, compression=None, proxy=None, ping_interval=None
        )
        await socket.send(codec.encode_text(said))
        await socket.recv()
    listening = asyncio.create_task(_listen(socket, pending, load))
    try:
        for seq in range(seconds):
            at = base + phase + seq
            await asyncio.sleep(max(0.0, at - time.time()))
            tick = values[(seq + hash(name)) % len(values)]
            read = (seq + hash(name)) % int(metrics.SLOW_S) == 0  # as an agent does: slow metrics when they are read
            pids = list(range(1000, 1000 + GPUS_A_NODE))
            frame = codec.encode(
                Batch(
                    node=name,
                    boot="bench",
                    seq=seq,
                    schema=said.schema,
                    t=at,
                    gpu=tick.gpu if read else tick.fast,
                    host=tick.host,
                    processes=Processes(
                        pid=pids,
                        name=["train.py"] * GPUS_A_NODE,
                        user=["ann"] * GPUS_A_NODE,
                        values=tick.process,
                        holds=[Hold(n, pid, 80_000_000_000) for n, pid in enumerate(pids)],
                    ),
                )
            )
            pending[seq] = time.perf_counter()
            await socket.send(frame)
            load.sent += GPUS_A_NODE
            load.sent_bytes += len(frame)
        deadline = time.monotonic() + GRACE_S
        while pending and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
    finally:
        listening.cancel()
        await socket.close()


async def _listen(socket: ClientConnection, pending: dict[int, float], load: Load) -> None:
    try:
        async for frame in socket:
            message = codec.decode_from_server(frame)
            now = time.perf_counter()
            if isinstance(message, Ack):
                for low, high in message.stored:
                    for seq in range(low, high + 1):
                        sent = pending.pop(seq, None)
                        if sent is not None:
                            load.acked += GPUS_A_NODE
                            load.latencies.append(now - sent)
            elif isinstance(message, Error):
                load.errors[message.code] = load.errors.get(message.code, 0) + 1
    except ConnectionClosed:
        load.errors["closed"] = load.errors.get("closed", 0) + 1


def environment(data: Path) -> dict[str, str]:
    """The server's environment: its own data, nothing of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FETTLE_", "DATABASE_URL", "REDIS_URL"))}
    return kept | {
        "FETTLE_DATA": str(data),
        "FETTLE_SECRET_KEY": secrets.token_urlsafe(40),
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "FETTLE_LOG_LEVEL": "WARNING",
    }


def tokens(names: list[str]) -> dict[str, str]:
    """A token for each node, by the models themselves."""
    import django

    django.setup()
    from fleet.accounts.models import AgentToken

    return {name: AgentToken.issue(node_name=name)[1] for name in names}


def serve(env: dict[str, str], port: int) -> psutil.Popen:
    """uvicorn as production runs it; returns when it answers."""
    process = psutil.Popen(web.command("127.0.0.1", port, log_level="warning"), cwd=ROOT, env=env)
    for _ in range(600):
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit("bench/ingest.py: the server did not start; what it said stands above.")


def victoria(data: Path, port: int) -> psutil.Popen:
    """Debian's VictoriaMetrics on its defaults, in the data directory."""
    command = ["victoria-metrics", f"-storageDataPath={data / 'victoria'}", f"-httpListenAddr=127.0.0.1:{port}"]
    return psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def free_port() -> int:
    """A port that was free a moment ago."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stored(start: float, seconds: int) -> int:
    """GPU rows in the store, counted a minute at a time."""
    from fleet.store.series import store

    series = store()
    first, last = int(start) - 5, int(start) + seconds + 5
    return sum(series.window("gpu", at, min(at + 60, last), metrics=["power_w"]).height for at in range(first, last, 60))


def cpu_s(process: psutil.Popen) -> float:
    """User and system time so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


async def measure(url: str, issued: dict[str, str], seconds: int, process: psutil.Popen, load: Load) -> dict[str, float]:
    """Drive the load; CPU over the measured seconds and the flushes after them, the largest memory seen."""
    names = list(issued)
    values = ticks(30)
    gate = asyncio.Semaphore(CONNECT_AT_ONCE)
    base = math.floor(time.time()) + 3.0 + len(names) / 100
    tasks = [
        asyncio.create_task(agent(url, name, token, number / len(names) * 0.9, base, seconds, values, load, gate))
        for number, (name, token) in enumerate(issued.items())
    ]
    await asyncio.sleep(max(0.0, base - time.time()))
    began, rss = cpu_s(process), 0
    while not all(task.done() for task in tasks):
        rss = max(rss, process.memory_info().rss)
        await asyncio.sleep(0.5)
    await asyncio.gather(*tasks)
    return {"base": base, "server_cpu_s": cpu_s(process) - began, "rss_bytes": rss}


def read_bytes(port: int) -> float:
    """What came to VictoriaMetrics over its connections so far, in bytes; nearly all of it is what was written."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("vm_tcplistener_read_bytes_total"))


def main() -> None:
    """Run one load and print what it cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=800, help="simulated GPUs, eight a node")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--store", choices=("parquet", "victoriametrics"), default="parquet")
    options = parser.parse_args()
    nodes = max(1, options.gpus // GPUS_A_NODE)

    data = Path(tempfile.mkdtemp(prefix="fettle-bench-"))
    process: psutil.Popen | None = None
    engine: psutil.Popen | None = None
    try:
        env = environment(data)
        if options.store == "victoriametrics":
            at = free_port()
            engine = victoria(data, at)
            env |= {"FETTLE_STORE": "victoriametrics", "FETTLE_STORE_URL": f"http://127.0.0.1:{at}"}
            env["FETTLE_QUEUE_MB"] = str(max(256, nodes * 8 // 10))  # as docs/how-to/use-victoriametrics.md says
        os.environ.update(env)
        subprocess.run([sys.executable, "manage.py", "migrate", "--skip-checks", "-v", "0"], cwd=ROOT, env=env, check=True)
        issued = tokens([f"bench-{number:05d}" for number in range(nodes)])
        port = free_port()
        process = serve(env, port)
        load = Load()
        found = asyncio.run(measure(f"ws://127.0.0.1:{port}/ws/agent/", issued, options.seconds, process, load))
        if engine is not None:
            found["engine_cpu_s"] = cpu_s(engine)
            found["engine_rss_bytes"] = engine.memory_info().rss
            found["engine_bytes_a_sample"] = read_bytes(at) / max(1, load.sent)
        report(nodes, options.seconds, load, found, stored(found["base"], options.seconds))
    finally:
        for one in (process, engine):
            if one is not None and one.poll() is None:
                one.terminate()
                try:
                    one.wait(30)
                except psutil.TimeoutExpired:
                    one.kill()
        shutil.rmtree(data, ignore_errors=True)


def report(nodes: int, seconds: int, load: Load, found: dict[str, float], rows: int) -> None:
    """The human lines, then the JSON one."""
    cpu = found["server_cpu_s"]
    p50, p99 = np.percentile(load.latencies, [50, 99]).round(3).tolist() if load.latencies else (None, None)
    result: dict[str, Any] = {
        "gpus": nodes * GPUS_A_NODE,
        "seconds": seconds,
        "samples_sent": load.sent,
        "samples_acked": load.acked,
        "samples_stored": rows,
        "samples_lost": load.sent - rows,
        "server_cpu_s": round(cpu, 2),
        "cpu_s_per_million": round(cpu / load.sent * 1e6, 2) if load.sent else None,
        "ack_p50_s": p50,
        "ack_p99_s": p99,
        "rss_bytes": int(found["rss_bytes"]),
        "bytes_a_sample": round(load.sent_bytes / load.sent, 1) if load.sent else None,
    } | {name: round(value, 2) for name, value in found.items() if name.startswith("engine_")}
    print(f"{nodes} nodes x {GPUS_A_NODE} GPUs at 1 Hz for {seconds} s, {len(GPU)} GPU metrics a sample")
    print(f"sent {load.sent:,}, acked {load.acked:,}, in the store {rows:,}, errors {load.errors or 'none'}")
    print(f"{result['bytes_a_sample']} bytes a sample on the wire, without TLS and TCP")
    print(f"server: {cpu:.1f} CPU-seconds, {cpu / seconds * 100:.0f} % of a core, {found['rss_bytes'] / 1e6:.0f} MB")
    print(f"ack after {p50} s (median), {p99} s (99th percentile)" if load.latencies else "nothing was acked")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
