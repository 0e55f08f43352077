"""What the agent costs on a GPU machine, beside the least that reading NVML and GPM can cost.

Each monitor runs alone for the same time, after a warm-up: a bare loop over NVML and GPM (the floor), the real agent process sending to
a server on loopback, the same with /metrics scraped every 15 s and OTLP every 10 s, `nvidia-smi dmon` and nvitop-exporter where they are
installed. Prints human lines with each one's ratio to the floor, then one JSON line. Exit code 2 where there is no GPU.
"""

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from agents.collectors.nvml_plan import GPU_METRICS
from agents.device import DriverError
from agents.nvml_device import NvmlDriver
from bench.agent_breakdown import breakdown
from bench.agent_surroundings import settings, surroundings
from wire.messages import Batch, Hello
from wire.metrics import Gpm

WARM_UP_S: Final = 6.0
GPM_IDS: Final = tuple(metric.source.metric_id for metric in GPU_METRICS if isinstance(metric.source, Gpm))

FLOOR: Final = """
import sys, time
import pynvml as n
ids = [int(word) for word in sys.argv[1].split(",")]
n.nvmlInit()
handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
fields = [82, 142, 143, 144, 145, 74, 269, 230]
pairs = []
for h in handles:
    try:
        if not n.nvmlGpmQueryDeviceSupport(h).isSupportedDevice:
            raise n.NVMLError(n.NVML_ERROR_NOT_SUPPORTED)
        a, b = n.nvmlGpmSampleAlloc(), n.nvmlGpmSampleAlloc()
        n.nvmlGpmSampleGet(h, a)
        pairs.append([a, b])
    except n.NVMLError as error:
        print("no GPM:", error, file=sys.stderr, flush=True)
        pairs.append(None)
def quiet(call, *args):
    try:
        return call(*args)
    except n.NVMLError:
        return None
due = time.monotonic()
while True:
    due += 1
    time.sleep(max(0, due - time.monotonic()))
    for h, pair in zip(handles, pairs):
        u, m = quiet(n.nvmlDeviceGetUtilizationRates, h), quiet(n.nvmlDeviceGetMemoryInfo, h)
        values = [
            quiet(n.nvmlDeviceGetTemperature, h, 0), quiet(n.nvmlDeviceGetPowerUsage, h), quiet(n.nvmlDeviceGetClockInfo, h, 1),
            quiet(n.nvmlDeviceGetClockInfo, h, 2), quiet(n.nvmlDeviceGetCurrentClocksEventReasons, h),
            quiet(n.nvmlDeviceGetPerformanceState, h), quiet(n.nvmlDeviceGetComputeRunningProcesses, h),
            quiet(n.nvmlDeviceGetFieldValues, h, fields),
        ]
        if pair is not None and ids:
            try:
                n.nvmlGpmSampleGet(h, pair[1])
                request = n.c_nvmlGpmMetricsGet_t()
                request.version, request.numMetrics = n.NVML_GPM_METRICS_GET_VERSION, len(ids)
                request.sample1, request.sample2 = pair
                for i, one in enumerate(ids):
                    request.metrics[i].metricId = one
                n.nvmlGpmMetricsGet(request)
                values += [request.metrics[i].value for i in range(len(ids))]
            except n.NVMLError:
                pass
            pair.reverse()
"""


class NotMeasured(Exception):  # noqa: N818 - it is data, not a failure
    """A monitor could not be measured; the message says why."""


def cpu_seconds(pid: int) -> float:
    """CPU time that the process has used, all its threads; NotMeasured where this system does not tell."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # Linux: the CPU clock of a process, to the nanosecond
    except OSError:
        pass
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError) as error:
        raise NotMeasured(f"the CPU time of process {pid} cannot be read: {error}") from error


def thread_seconds(pid: int) -> dict[str, float]:
    """CPU time of each of its threads; none where this system does not tell."""
    found = {}
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            found[thread.parent.name] = int(thread.read_text().split()[0]) / 1e9
    return found


def rss_mib(pid: int) -> float | None:
    """Resident memory; None where this system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    except (OSError, ValueError, IndexError):
        return None


async def measure(name: str, words: list[str], seconds: float) -> dict[str, Any]:
    """Start one monitor, let it warm up, and measure it; `error` in the result when that failed."""
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": paths}
    with tempfile.TemporaryFile() as said:
        try:
            child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=said, env=environment, cwd=ROOT)
        except OSError as error:
            return {"name": name, "cpu_pct_of_core": None, "rss_mib": None, "error": str(error)}
        try:
            await asyncio.sleep(WARM_UP_S)
            before, by_thread, began = cpu_seconds(child.pid), thread_seconds(child.pid), time.monotonic()
            await asyncio.sleep(seconds)
            after, ended, threads = cpu_seconds(child.pid), time.monotonic(), thread_seconds(child.pid)
            rss = rss_mib(child.pid)
            if child.poll() is not None:
                raise NotMeasured(f"it ended with code {child.returncode}")
            pct = (after - before) / (ended - began) * 100
            result = {"name": name, "cpu_pct_of_core": round(pct, 3), "rss_mib": rss and round(rss, 1)}
            spent = sorted(((cpu - by_thread.get(one, 0)) / (ended - began) * 1e3 for one, cpu in threads.items()), reverse=True)
            result["threads_ms_per_s"] = [round(one, 2) for one in spent if one >= 0.01]
            print(f"  {name}: {pct:.2f} % of a core; its threads, ms of CPU a second: {result['threads_ms_per_s']}", flush=True)
        except NotMeasured as error:
            said.seek(0)
            tail = said.read().decode(errors="replace").strip()[-300:]
            result = {"name": name, "cpu_pct_of_core": None, "rss_mib": None, "error": f"{error}; {tail}"}
        finally:
            await asyncio.to_thread(_end, child)
    return result


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


async def measure_agent(seconds: float, with_outputs: bool) -> dict[str, Any]:
    """The agent with GPUs, host, processes, events, engines, a spool on disk, a server; `with_outputs`: /metrics scraped and OTLP too."""
    with tempfile.TemporaryDirectory() as directory:
        async with surroundings() as around:
            port, scraping = _free_port(), None
            more = {"listen": f'"127.0.0.1:{port}"', "otlp": f'"{around.web}"'} if with_outputs else {}
            if with_outputs:
                scraping = asyncio.create_task(around.scrape(port))
            words = [sys.executable, "-m", "agents", str(settings(around, Path(directory), **more))]
            name = "fettle agent, all outputs" if with_outputs else "fettle agent"
            try:
                result = await measure(name, words, seconds)
            finally:
                if scraping is not None:
                    scraping.cancel()
            taken = around.taken
            print(f"{name}: {taken.batches} batches and {len(taken.events)} events came", end="")
            print(
                f", {len(around.scrapes)} scrapes and {around.asked.get('/v1/metrics', 0)} OTLP requests."
                if with_outputs
                else "."
            )
            for event in taken.events[:5]:
                print(f"    {event}")
            if taken.hello is not None and taken.last is not None and not with_outputs:
                _print_batch(taken.hello, taken.last)
    return result


def _print_batch(hello: Hello, batch: Batch) -> None:
    for number, facts in enumerate(hello.gpus):
        known = {name: column[number] for name, column in zip(hello.gpu_metrics, batch.gpu, strict=True) if column}
        absent = sorted(name for name, value in known.items() if value is None)
        print(f"  {facts.name}: {len(known) - len(absent)} readings, absent: {', '.join(absent) or 'none'}")


async def run(seconds: float) -> list[dict[str, Any]]:
    """Measure every monitor, one after the other."""
    ids = ",".join(map(str, GPM_IDS))
    monitors = [await measure("bare NVML+GPM loop", [sys.executable, "-c", FLOOR, ids], seconds)]
    monitors.append(await measure_agent(seconds, with_outputs=False))
    monitors.append(await measure_agent(seconds, with_outputs=True))
    smi = shutil.which("nvidia-smi")
    if smi is not None:
        monitors.append(await measure("nvidia-smi dmon", [smi, "dmon", "-s", "pucvmet", "-d", "1"], seconds))
        gpm = ",".join(map(str, GPM_IDS[:9]))
        monitors.append(await measure("nvidia-smi dmon, 9 GPM", [smi, "dmon", "--gpm-metrics", gpm, "-d", "1"], seconds))
    if importlib.util.find_spec("nvitop_exporter") is not None:
        monitors.append(
            await measure("nvitop-exporter", [sys.executable, "-m", "nvitop_exporter", "--port", str(_free_port())], seconds)
        )
    else:
        print("  nvitop-exporter is not installed here: pip install nvitop-exporter, and run it again to compare")
    return monitors


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    """Print the costs; 2 where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds",
        type=float,
        default=30.0,
        help="how long each monitor is measured; 30 s have two scrapes and three OTLP requests",
    )
    options = parser.parse_args()
    driver = NvmlDriver()
    try:
        names = [device.facts.name for device in driver.open()]
    except DriverError as error:
        print(f"agent_cost needs a GPU: {error}", file=sys.stderr)
        return 2
    driver.close()
    print(f"{len(names)} x {names[0]}, Python {sys.version.split()[0]}, {options.seconds:.0f} s for each monitor")
    try:
        breakdown()
    except Exception as error:  # the costs below are what counts
        print(f"  no breakdown: {type(error).__name__}: {error}")
    monitors = asyncio.run(run(options.seconds))
    floor = monitors[0]["cpu_pct_of_core"]
    for one in monitors:
        cpu, rss = one["cpu_pct_of_core"], one["rss_mib"]
        one["ratio_to_floor"] = round(cpu / floor, 2) if floor and cpu is not None else None
        said = f"{cpu:6.2f} % of a core, {rss or float('nan'):6.1f} MiB" if cpu is not None else f"not measured: {one['error']}"
        ratio = "" if one["ratio_to_floor"] is None else f", {one['ratio_to_floor']:.2f} times the floor"
        print(f"{one['name']:26} {said}{ratio}")
    print(json.dumps({"monitors": monitors}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
