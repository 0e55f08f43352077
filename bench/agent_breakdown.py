"""Where one tick's CPU time of the agent goes, part by part, in the benchmark's own process. Needs a GPU."""

import asyncio
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from agents.collectors.nvml import GpuCollector
from agents.device import SLOW_S, DeviceError
from agents.machine import Machine
from agents.nvml_device import NvmlDriver


def breakdown(rounds: int = 20) -> None:
    """Print where one tick's CPU time goes, part by part, in this process."""
    driver = NvmlDriver()
    devices = driver.open()
    try:
        collectors = [GpuCollector(device) for device in devices]
        for collector in collectors:
            collector.collect(0.0)
        time.sleep(0.2)
        spent: defaultdict[str, float] = defaultdict(float)
        for number in range(rounds):
            for collector in collectors:
                began = time.thread_time()
                collector.collect(1.0 + number * 0.1)
                spent["one GPU, fast metrics"] += time.thread_time() - began
            time.sleep(0.1)
        for name, at in (
            ("one GPU, with the slow and rare metrics", 1000.0),
            ("one GPU, with the slow metrics", 1000.0 + SLOW_S),
        ):
            for collector in collectors:
                began = time.thread_time()
                collector.collect(at)
                spent[name] += (time.thread_time() - began) * rounds
        _breakdown_events(driver)
        why = Counter(reason for collector in collectors for reason in collector.reasons if reason)
        for name, seconds in spent.items():
            print(f"  {name}: {seconds / rounds / len(collectors) * 1e3:.3f} ms of CPU")
        print(f"  absent, by reason: {dict(why) or 'none'}")
    finally:
        driver.close()
    asyncio.run(_breakdown_machine(rounds))


def _breakdown_events(driver: NvmlDriver) -> None:
    """Print what a second of waiting for events costs; the agent does it in a thread of its own."""
    try:
        began = time.thread_time()
        for _ in range(4):
            driver.event(500)
        print(f"  waiting for events, a second: {(time.thread_time() - began) / 2 * 1e3:.3f} ms of CPU")
    except DeviceError as error:
        print(f"  no events here: {error}")


async def _breakdown_machine(rounds: int) -> None:
    machine = Machine(None)
    await machine.collect()
    began = time.thread_time()
    for _ in range(rounds):
        await machine.collect()
    print(f"  host: {(time.thread_time() - began) / rounds * 1e3:.3f} ms of CPU")
    await machine.close()
