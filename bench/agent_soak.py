"""Whether a real agent process stays as small as it began: memory, threads and open files over time, on the fake driver.

Everything is on: GPUs with profiling and XIDs, host, processes that come and go and report their steps, a serving engine, a spool, a
server, /metrics scraped every 15 s, OTLP. After a warm-up a line is fitted through the RSS; exit code 1 where it grows by more than
`--bound-mib` over the time measured, where RSS was ever over `--most-mb`, or where threads or open files grow. The last line is JSON.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.agent_surroundings import Surroundings, settings, surroundings

ANSWERS: Final = ROOT / "tests" / "device_answers" / "h200-driver-580-captured.json"
FAKE_DRIVER: Final = ROOT / "tests" / "agents" / "fake_driver"
CHURN_S: Final = 60.0
"""A training process is followed by the next, and a GPU has an XID, as often."""
GROWN: Final = 3
"""More threads or files than this beside the median at the beginning are a leak."""
_TRAINING: Final = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
import fettle_report
for _ in range(2):  # data loader workers
    if not os.fork():
        time.sleep(600)
        os._exit(0)
for step in range(1000):
    fettle_report.step(samples=256, loss=1 / (1 + step), data_wait_s=0.01)
    time.sleep(0.5)
"""


class Sight(NamedTuple):
    """The process at one moment: seconds since its start, CPU seconds, RSS in bytes, threads, open files."""

    at: float
    cpu: float
    rss: int
    threads: int
    files: int


class Fit(NamedTuple):
    """What the sights after the warm-up say; growths are of the whole time measured."""

    seconds: float
    cpu_pct: float
    rss_mb: float
    most_rss_mb: float
    growth_mib: float
    more_threads: float
    more_files: float


def sight(pid: int, began: float) -> Sight:
    """The process now; OSError where it has ended."""
    folder = f"/proc/{pid}"
    words = Path(folder, "stat").read_text().rsplit(")", 1)[1].split()
    cpu = time.clock_gettime((~pid << 3) | 2)
    rss = int(Path(folder, "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return Sight(time.monotonic() - began, cpu, rss, int(words[17]), len(os.listdir(f"{folder}/fd")))


def fit(sights: Sequence[Sight]) -> Fit:
    """A line through the RSS; of threads and files the last quarter's median less the first one's."""
    first, last = sights[0], sights[-1]
    seconds = last.at - first.at
    slope, _ = statistics.linear_regression([one.at for one in sights], [one.rss for one in sights])
    quarter = max(1, len(sights) // 4)
    more = [statistics.median(column[-quarter:]) - statistics.median(column[:quarter]) for column in zip(*sights, strict=True)]
    return Fit(
        seconds,
        (last.cpu - first.cpu) / seconds * 100,
        statistics.median(one.rss for one in sights) / 1e6,
        max(one.rss for one in sights) / 1e6,
        slope * seconds / (1 << 20),
        more[3],
        more[4],
    )


def faults(found: Fit, bound_mib: float, most_mb: float) -> list[str]:
    """A sentence for each bound that does not hold."""
    said = []
    if found.growth_mib > bound_mib:
        said.append(f"RSS grows: {found.growth_mib:.2f} MiB in {found.seconds:.0f} s, more than {bound_mib:g} MiB.")
    if found.most_rss_mb > most_mb:
        said.append(f"RSS was {found.most_rss_mb:.1f} MB, more than {most_mb:g} MB.")
    for what, more in (("threads", found.more_threads), ("open files", found.more_files)):
        if more > GROWN:
            said.append(f"There are {more:g} more {what} at the end than at the beginning.")
    return said


def steps(around: Surroundings) -> int:
    """Steps that the training process of the last batch reported, as the agent told them."""
    hello, last = around.taken.hello, around.taken.last
    if hello is None or last is None or last.processes is None or not last.processes.values:
        return 0
    return sum(int(cell or 0) for cell in last.processes.values[hello.process_metrics.index("steps_total")])


class Node:
    """What changes around the agent: the process that trains, and the driver's answers."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "answers.json"
        self._report = folder / "run" / "report.sock"
        self._answers: dict[str, Any] = json.loads(ANSWERS.read_text())
        self._answers["events"] = []
        self._save()

    def _save(self) -> None:
        part = self.file.with_name("part.json")
        part.write_text(json.dumps(self._answers))
        part.replace(self.file)

    async def live(self) -> None:
        """Go on until it is cancelled, and end what was started."""
        while True:
            environment = os.environ | {"FETTLE_REPORT_SOCKET": str(self._report)}
            words = (sys.executable, "-c", _TRAINING, str(ROOT / "clients"))
            training = await asyncio.create_subprocess_exec(*words, env=environment, start_new_session=True)
            try:
                for number, gpu in enumerate(self._answers["gpus"]):
                    gpu["processes"] = [{"pid": training.pid, "usedGpuMemory": (number + 1) << 30}]
                self._answers["events"].append([len(self._answers["events"]) % 2, 8, 31])
                self._save()
                await asyncio.sleep(CHURN_S)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(training.pid, signal.SIGKILL)  # it and its workers: the group is its own
                await training.wait()


@contextlib.asynccontextmanager
async def agent(around: Surroundings, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A running agent and the node around it, scraped."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    node = Node(folder)
    file = settings(
        around, folder, listen=f'"127.0.0.1:{port}"', otlp=f'"{around.web}"', engines=f'["vllm={around.web}/metrics"]'
    )
    paths = os.pathsep.join((str(FAKE_DRIVER), str(ROOT)))
    environment = os.environ | {"PYTHONPATH": paths, "FETTLE_FAKE_NVML": str(node.file)}
    child = await asyncio.create_subprocess_exec(sys.executable, "-m", "agents", str(file), cwd=ROOT, env=environment)
    tasks = [asyncio.create_task(node.live()), asyncio.create_task(around.scrape(port))]
    try:
        yield child
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        await child.wait()


async def soak(seconds: float, warm_up_s: float, every_s: float) -> tuple[list[Sight], Surroundings]:
    """What was seen after the warm-up, and what the agent sent; OSError where it ended early."""
    sights: list[Sight] = []
    print("seconds   CPU s   RSS MB  threads  files", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        async with surroundings() as around, agent(around, Path(folder)) as child:
            began = time.monotonic()
            while (elapsed := time.monotonic() - began) < warm_up_s + seconds:
                await asyncio.sleep(min(every_s, warm_up_s + seconds - elapsed))
                one = sight(child.pid, began)
                said = "" if one.at >= warm_up_s else "  warming up"
                print(f"{one.at:7.0f} {one.cpu:7.2f} {one.rss / 1e6:8.2f} {one.threads:8} {one.files:6}{said}", flush=True)
                if one.at >= warm_up_s:
                    sights.append(one)
    return sights, around


def main() -> int:
    """Print the sights and what they say; 1 where a bound does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0, help="how long is measured, after the warm-up")
    parser.add_argument("--warm-up", type=float, default=300.0, help="seconds that do not count")
    parser.add_argument("--every", type=float, default=30.0, help="seconds between two sights")
    parser.add_argument("--bound-mib", type=float, default=1.0, help="RSS may grow by as much over the time measured")
    parser.add_argument("--most-mb", type=float, default=80.0, help="RSS may be as much")
    options = parser.parse_args()
    try:
        sights, around = asyncio.run(soak(options.seconds, options.warm_up, options.every))
    except OSError as error:
        print(f"The agent ended early, what it said stands above: {error}", file=sys.stderr)
        return 1
    if len(sights) < 4:
        print("Too few sights to judge by: give more --seconds, or a smaller --every.", file=sys.stderr)
        return 2
    found = fit(sights)
    said = faults(found, options.bound_mib, options.most_mb)
    came = {
        "batches": around.taken.batches,
        "events": len(around.taken.events),
        "otlp": around.asked.get("/v1/metrics", 0),
        "engine": around.asked.get("/metrics", 0),
        "scrapes": len(around.scrapes),
        "reported steps": steps(around),
    }
    print(
        f"{found.cpu_pct:.2f} % of a core (the fake driver's own work is in it), {found.rss_mb:.1f} MB, at most {found.most_rss_mb:.1f}"
    )
    print(f"RSS {found.growth_mib:+.2f} MiB in {found.seconds:.0f} s by the fitted line; what came: {came}")
    for sentence in said:
        print(sentence)
    print(json.dumps({**found._asdict(), "came": came, "faults": said}))
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
