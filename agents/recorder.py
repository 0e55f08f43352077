"""Live samples in the recordings' format."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from agents.machine import Machine
from agents.source import GPU, HOST, PROCESS, Tick
from wire.messages import Cell, GpuFacts
from wire.metrics import BY_KEY
from wire.recording import FORMAT_VERSION, Header, RecordedGpu, RecordedHost, Sample

HZ: Final = 4.0
SLOW_S: Final = 1.0
"""A recording is short and somebody waits for it: slow metrics are read every second."""
_DIGITS: Final = {"ratio": 4, "percent": 1, "watts": 1, "joules": 1, "bytes_per_second": 0, "cores": 3}


def header(machine: Machine, hz: float) -> Header:
    """The first line of a recording of `machine`, after its first tick."""
    host = machine.inventory.host
    return Header(
        recording=FORMAT_VERSION,
        sampling_hz=hz,
        driver_version=host.driver_version,
        cuda_driver_version=host.cuda_driver_version,
        gpus=tuple(_card(facts) for facts in machine.inventory.gpus),
        host=RecordedHost(cores=host.cores, mem_total_bytes=host.mem_total_bytes),
    )


async def samples(machine: Machine, hz: float) -> AsyncIterator[Sample]:
    """A sample every 1/hz seconds, for ever; times count from the first one. Late ones are left out, not made up."""
    await machine.collect()  # means need a sample before
    began = time.monotonic()
    number = 1
    told: dict[int, dict[str, str]] = {}
    while True:
        await asyncio.sleep(max(0.0, began + number / hz - time.monotonic()))
        tick = await machine.collect()
        t = time.monotonic() - began
        yield sample(machine, tick, t - 1 / hz, told)
        number = max(number + 1, int(t * hz) + 1)


def sample(machine: Machine, tick: Tick, t: float, told: dict[int, dict[str, str]] | None = None) -> Sample:
    """One tick as a recording's line; what is absent is left out. A process's labels stand where they are not those in `told`,
    which is brought up to date."""
    told = {} if told is None else told
    news = {one.pid: one.labels for one in tick.processes.labels if told.get(one.pid) != one.labels}
    told |= news
    holds = tick.processes.holds
    gpus: list[dict[str, Any]] = []
    for number, facts in enumerate(machine.inventory.gpus):
        readings = named("gpu", GPU, [column[number] for column in tick.gpu])
        gpu = {"index": facts.index, **readings}
        if tick.holds_reasons[number] is None:
            gpu["pids"] = {str(hold.pid): hold.mem_bytes for hold in holds if hold.gpu == number}
        gpus.append(gpu)
    processes = tick.processes
    host = named("host", HOST, tick.host)
    if machine.per_core_pct is not None:
        host["cpu_pct_per_core"] = [round(core, 1) for core in machine.per_core_pct]
    return Sample(
        t=round(max(0.0, t), 3),
        gpus=tuple(gpus),
        processes=tuple(
            {"pid": pid, "name": name, **named("process", PROCESS, [column[row] for column in processes.values])}
            | ({"labels": news[pid]} if pid in news else {})
            for row, (pid, name) in enumerate(zip(processes.pid, processes.name, strict=True))
        ),
        host=host,
    )


def named(scope: str, names: tuple[str, ...], values: list[Cell]) -> dict[str, Any]:
    """Readings by name, rounded as recordings have them; what is absent is left out."""
    return {name: _rounded(scope, name, value) for name, value in zip(names, values, strict=True) if value is not None}


def _rounded(scope: str, name: str, value: Cell) -> Cell:
    digits = _DIGITS.get(BY_KEY[f"{scope}.{name}"].unit)
    return value if digits is None or not isinstance(value, float) else round(value, digits)


def _card(facts: GpuFacts) -> RecordedGpu:
    return RecordedGpu(
        index=facts.index,
        name=facts.name,
        uuid=facts.uuid,
        compute_capability=facts.compute_capability,
        mem_total_bytes=facts.mem_total_bytes,
        power_limit_w=facts.power_limit_w,
        power_limit_default_w=facts.power_limit_default_w,
        sm_clock_max_mhz=facts.sm_clock_max_mhz,
        mem_clock_max_mhz=facts.mem_clock_max_mhz,
        pcie_link_gen_max=facts.pcie_link_gen_max,
        pcie_link_width_max=facts.pcie_link_width_max,
        nvlink_links=facts.nvlink_links,
        nvlink_bytes_per_s_per_link=facts.nvlink_bytes_per_s_per_link,
        memory_kind=facts.memory_kind,
        power_scope=facts.power_scope,
        power_average_s=facts.power_average_s,
    )
