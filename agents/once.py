"""One tick of this machine for people and scripts."""

import asyncio
import json
import logging
import time
from typing import Any, Final

from agents import drivers, engines
from agents.collectors import pods
from agents.config import AgentConfig
from agents.device import DRIVER_STATES
from agents.machine import Machine
from agents.source import ENGINE, GPU, HOST, PROCESS, Tick
from wire.messages import PROCESSES, Cell
from wire.terminal import printable

INTERVAL_S: Final = 1.0
"""Means need two samples; the first one is thrown away."""
SETTLE_S: Final = 5.0
"""An engine that has not answered by then is shown without readings."""


def text(config: AgentConfig, as_json: bool) -> str:
    """The tick as JSON, or as lines for a person."""
    logging.getLogger("agents").addHandler(logging.NullHandler())  # what it would warn of is in the answer
    found = asyncio.run(_read(config))
    return json.dumps(found, allow_nan=False) if as_json else _lines(found)


async def _read(config: AgentConfig) -> dict[str, Any]:
    machine = Machine(drivers.chosen(config), config.proc, sys=config.sys, engines=engines.of(config), pods=pods.of(config))
    try:
        for _ in range(2):  # the second one asks the engines that the first one found
            await machine.collect()
            await _settle(machine)
        await asyncio.sleep(INTERVAL_S)
        tick = await machine.collect()
        return as_dict(config.node, time.time(), machine, tick)
    finally:
        await machine.close()


async def _settle(machine: Machine) -> None:
    """Wait for the serving engines' answers: somebody is looking on, and one tick is all there is."""
    ends = time.monotonic() + SETTLE_S
    while machine.is_asking and time.monotonic() < ends:
        await asyncio.sleep(0.02)


def as_dict(node: str, t: float, machine: Machine, tick: Tick) -> dict[str, Any]:
    """The tick with names: values where there are any, `absent` with the reasons for the rest."""
    processes = tick.processes
    return {
        "node": node,
        "t": t,
        "driver_version": machine.inventory.host.driver_version,
        "cuda_driver_version": machine.inventory.host.cuda_driver_version,
        "gpus_state": machine.state
        if machine.state == "ok"
        else f"{machine.state}: {machine.state_detail or DRIVER_STATES[machine.state]}",
        "host": {
            "cores": machine.inventory.host.cores,
            "mem_total_bytes": machine.inventory.host.mem_total_bytes,
            "cpu_pct_per_core": machine.per_core_pct,
            **_named(HOST, tick.host, tick.host_reasons),
        },
        "gpus": [
            {
                "index": facts.index,
                "uuid": facts.uuid,
                "name": facts.name,
                "memory_kind": facts.memory_kind,
                "accounting_mode": facts.accounting_mode,
                "power_scope": facts.power_scope,
                "power_average_s": facts.power_average_s,
                "labels": tick.gpu_labels[number] if number < len(tick.gpu_labels) else {},
                **_named((*GPU, PROCESSES), [*(column[number] for column in tick.gpu), None], [*reasons, holds]),
            }
            for number, (facts, reasons, holds) in enumerate(
                zip(machine.inventory.gpus, tick.gpu_reasons, tick.holds_reasons, strict=True)
            )
        ],
        "processes": [
            {
                "pid": pid,
                "name": name,
                "user": user,
                "labels": next((one.labels for one in processes.labels if one.pid == pid), {}),
                "gpus": {machine.inventory.gpus[hold.gpu].uuid: hold.mem_bytes for hold in processes.holds if hold.pid == pid},
                **_named(PROCESS, [column[row] for column in processes.values], tick.process_reasons[row]),
            }
            for row, (pid, name, user) in enumerate(zip(processes.pid, processes.name, processes.user, strict=True))
        ],
        "engines": [
            {
                "kind": kind,
                "name": name,
                "model": model,
                "pid": pid,
                **_named(ENGINE, [column[row] for column in tick.engines.values], tick.engine_reasons[row]),
            }
            for row, (kind, name, model, pid) in enumerate(
                zip(tick.engines.kind, tick.engines.name, tick.engines.model, tick.engines.pid, strict=True)
            )
        ],
    }


def _named(names: tuple[str, ...], values: list[Cell], reasons: list[str | None]) -> dict[str, Any]:
    found: dict[str, Any] = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    found["absent"] = {name: reason for name, reason in zip(names, reasons, strict=True) if reason is not None}
    return found


def _lines(found: dict[str, Any]) -> str:
    lines = [f"node {found['node']}", f"GPUs: {found['gpus_state']}"]
    for title, entries in (
        ("GPU", found["gpus"]),
        ("host", [found["host"]]),
        ("process", found["processes"]),
        ("engine", found["engines"]),
    ):
        for entry in entries:
            words = (title, entry.get("index", entry.get("pid")), entry.get("name"))
            lines.append(" ".join(str(word) for word in words if word not in (None, "")))
            for name, value in entry.items():
                if name not in ("index", "pid", "name", "absent", "cpu_pct_per_core"):
                    lines.append(f"  {name} {value}")
            lines += [f"  {name} absent: {reason}" for name, reason in entry["absent"].items()]
    return "\n".join(map(printable, lines))
