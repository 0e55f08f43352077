"""`fettle agent doctor`: what works on this node, what does not, why, and what to do. Takes no lock and sends no data."""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct, to_builtins

from agents import doctor_server, doctor_system, drivers, engines
from agents.collectors import pods
from agents.config import AgentConfig
from agents.device import DRIVER_STATES
from agents.machine import Machine
from agents.source import ENGINE, GPU, HOST, Tick
from wire.metrics import BY_KEY, Gpm
from wire.sentence import Sentence, _
from wire.terminal import printable

Level = Literal["ok", "note", "wrong"]

INTERVAL_S: Final = 1.0
"""Means need two samples."""
ENGINES_S: Final = 5.0
REMEDIES: Final[dict[str, tuple[Level, str]]] = {
    "unsupported": ("note", _("This device, driver or mode cannot answer; there is nothing to do.")),
    "not_permitted": ("wrong", _("Run the agent as root, or give its user the rights that the permissions below lack.")),
    "not_found": ("note", _("What it would be read from is not there (no such device, process or file).")),
    "not_a_number": ("note", _("The source answered with no number; other readings are not touched.")),
    "blank": ("note", _("The source says that it has no value now.")),
    "out_of_range": (
        "wrong",
        _("The source answered with what cannot be true: update the driver, and report it if that does not help."),
    ),
    "no_previous": ("note", _("A mean needs a second sample; the agent has one a second later.")),
    "timeout": (
        "wrong",
        _("The driver did not answer in time: look for XID errors in the kernel log; a stuck GPU needs a reset."),
    ),
    "gpu_lost": (
        "wrong",
        _("The GPU fell off the bus: drain the node and reboot it; reseat or replace the card if it comes again."),
    ),
    "profiler_busy": (
        "wrong",
        _(
            "Another profiler (Nsight, ncu, DCGM's profiling) holds the counters: end it; the agent takes them up again by itself."
        ),
    ),
    "frozen": (
        "wrong",
        _(
            "The driver answers with readings that no longer move: look for XID errors in the kernel log, then reload the driver or reset the GPU; the agent takes them up again by itself."
        ),
    ),
    "driver_error": ("wrong", _("The driver refused: see the kernel log (dmesg), then reload the driver or reset the GPU.")),
    "not_recorded": ("note", _("The recording lacks it.")),
    "switched_off": (
        "note",
        _("The driver would tell, were it told to: an administrator switches accounting on with `nvidia-smi -am 1`."),
    ),
    "paused": ("note", _("The agent was asked to leave it to others for a while; `fettle agent status` says for how long.")),
}
"""How bad a reason is, and what to do about it."""
EXPORTER_REMEDIES: Final[dict[str, tuple[Level, str]]] = {
    "timeout": (
        "wrong",
        _(
            "dcgm-exporter did not answer in time, or has told the same for long: ask its endpoint with curl, see its log and that of its DCGM."
        ),
    ),
    "unsupported": ("note", _("The exporter does not tell it: its counters file leaves it out, or the device cannot answer.")),
    "not_permitted": ("wrong", _("Let DCGM read it: run the exporter with the rights that its log asks for.")),
}
"""The same where dcgm-exporter speaks for the GPUs."""
_TROUBLES: Final = ("gpu_lost", "ecc", "xid")
_PROFILING: Final = _(
    "Profiling counters are kept to administrators: run the agent as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0."
)


class Check(Struct, frozen=True):
    """One thing that was looked at; `remedy` says what to do, empty where nothing is to be done."""

    name: str
    level: Level
    text: str
    remedy: str = ""


class Report(Struct, frozen=True):
    """All of them; `seconds` tells what each collector took."""

    node: str
    ok: bool
    checks: list[Check]
    absent: dict[str, dict[str, list[str]]]  # of whom, by reason: names
    seconds: dict[str, float]


def main(config: AgentConfig, as_json: bool, said: Callable[[object], str] = str) -> int:
    """0 when nothing is wrong, 1 when something is; prints the report."""
    logging.getLogger("agents").addHandler(logging.NullHandler())  # what it would warn of is in the report
    report = asyncio.run(examine(config))
    sys.stdout.write(json.dumps(to_builtins(report, enc_hook=str)) + "\n" if as_json else text(report, said))
    return 0 if report.ok else 1


async def examine(config: AgentConfig) -> Report:
    """Look at everything once; takes a few seconds."""
    checks: list[Check] = []
    machine = Machine(drivers.chosen(config), config.proc, sys=config.sys, engines=engines.of(config), pods=pods.of(config))
    seconds: dict[str, float] = {}
    try:
        _first, seconds["first tick"] = await _timed(machine)
        await _hear_engines(machine)
        await machine.collect()  # asks the engines that the first one found
        await _hear_engines(machine)
        await asyncio.sleep(INTERVAL_S)
        tick, seconds["a tick"] = await _timed(machine)
        seconds.update(doctor_system.collector_seconds(config))
        checks += _driver(machine)
        events = machine.events()
        checks += [Check("event", "wrong", event.text) for event in events if event.kind in _TROUBLES]
        if config.source == "dcgm" and machine.state == "ok":  # else the driver's line has said it
            checks += [Check("exporter", "wrong", event.text) for event in events if event.kind == "driver"]
        absent = _absent(machine, tick)
        checks += _readings(machine, absent, EXPORTER_REMEDIES if config.source == "dcgm" else {})
        if trouble := machine.troubles["engines"]:
            checks.append(Check("engines", "note", trouble, doctor_system.TROUBLES["engines"][1]))
        if trouble := machine.troubles["pods"]:
            checks.append(Check("pods", "note", trouble, doctor_system.TROUBLES["pods"][1]))
        checks += _engines(tick)
        pids = tick.processes.pid
    finally:
        await machine.close()
    checks += [Check(*found) for found in doctor_system.permissions(config, pids)]
    checks += [Check(*found) for found in doctor_system.spool(config)]
    checks += [Check(*found) for found in doctor_system.agent(config)]
    checks += [Check(*found) for found in doctor_system.step_reports(config)]
    checks += [Check(*found) for found in await doctor_server.server(config)]
    checks += [Check(*found) for found in await asyncio.to_thread(doctor_server.otlp, config)]
    rounded = {name: round(value, 6) for name, value in seconds.items()}
    return Report(config.node, all(check.level != "wrong" for check in checks), checks, absent, rounded)


async def _timed(machine: Machine) -> tuple[Tick, float]:
    """One tick, and the seconds that it took."""
    began = time.perf_counter()
    return await machine.collect(), time.perf_counter() - began


async def _hear_engines(machine: Machine) -> None:
    """Wait for the answers of those that were found."""
    ends = time.monotonic() + ENGINES_S
    while machine.is_asking and time.monotonic() < ends:
        await asyncio.sleep(0.02)


def text(report: Report, said: Callable[[object], str] = str) -> str:
    """The report for people; `said` tells a sentence in their language."""
    marks = {"ok": _("ok   "), "note": _("note "), "wrong": _("WRONG")}
    lines = [said(Sentence(_("Fettle agent on {node}"), node=report.node))]
    for check in report.checks:
        lines.append(f"{said(marks[check.level])}  {said(check.name)}: {said(check.text)}")
        if check.remedy:
            lines.append(f"       -> {said(check.remedy)}")
    lines.append(said(_("time of each collector:")))
    lines += [f"       {name:<14} {value * 1000:9.2f} ms" for name, value in report.seconds.items()]
    lines.append(said(_("Nothing is wrong.") if report.ok else _("Something is wrong: see the lines that begin with WRONG.")))
    return "\n".join(map(printable, lines)) + "\n"


def _driver(machine: Machine) -> list[Check]:
    facts = machine.inventory.host
    if machine.state == "ok":
        gpus = machine.inventory.gpus
        about = Sentence(
            _("version {driver}, CUDA {cuda}, {total} GPU")
            if len(gpus) == 1
            else _("version {driver}, CUDA {cuda}, {total} GPUs"),
            driver=facts.driver_version or Sentence(_("unknown")),
            cuda=facts.cuda_driver_version or Sentence(_("unknown")),
            total=len(gpus),
        )
        return [Check("driver", "ok", about)]
    detail = machine.state_detail or machine.state
    remedy = DRIVER_STATES.get(machine.state, "")
    return [
        Check(
            "driver",
            "wrong",
            Sentence(
                "{state}: {why}",
                state=machine.state,
                why=detail.removesuffix(remedy).strip(": ") or Sentence(_("no GPU is read")),
            ),
            remedy,
        )
    ]


def _absent(machine: Machine, tick: Tick) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    rows = [(f"GPU {facts.index}", GPU, reasons) for facts, reasons in zip(machine.inventory.gpus, tick.gpu_reasons, strict=True)]
    rows.append(("host", HOST, tick.host_reasons))
    for number, facts in enumerate(machine.inventory.gpus):
        if number < len(tick.holds_reasons) and (reason := tick.holds_reasons[number]) is not None:
            found.setdefault(f"GPU {facts.index}", {}).setdefault(reason, []).append("processes")
    for who, names, reasons in rows:
        for name, reason in zip(names, reasons, strict=True):
            if reason is not None:
                found.setdefault(who, {}).setdefault(reason, []).append(name)
    return found


def _readings(machine: Machine, absent: dict[str, dict[str, list[str]]], of_gpus: dict[str, tuple[Level, str]]) -> list[Check]:
    checks = []
    for who, names in (*((f"GPU {facts.index}", GPU) for facts in machine.inventory.gpus), ("host", HOST)):
        missing = absent.get(who, {})
        left = len(names) - sum(len([name for name in some if name in names]) for some in missing.values())
        checks.append(
            Check(Sentence(_("{who}: readings"), who=who), "ok", Sentence(_("{left} of {of} are read"), left=left, of=len(names)))
        )
        for reason, some in sorted(missing.items()):
            level, remedy = (REMEDIES if who == "host" else REMEDIES | of_gpus)[reason]
            if reason == "not_permitted" and not of_gpus and all(isinstance(_source(name), Gpm) for name in some):
                remedy = _PROFILING
            checks.append(Check(Sentence(_("{who}: absent, {why}"), who=who, why=reason), level, ", ".join(some), remedy))
    return checks


def _source(name: str) -> object:
    metric = BY_KEY.get(f"gpu.{name}")
    return None if metric is None else metric.source


def _engines(tick: Tick) -> list[Check]:
    checks = []
    for row, (name, kind) in enumerate(zip(tick.engines.name, tick.engines.kind, strict=True)):
        read = sum(column[row] is not None for column in tick.engines.values)
        if read:
            checks.append(
                Check(
                    Sentence(_("engine {name}"), name=name),
                    "ok",
                    Sentence(_("{kind}, {read} of {of} readings"), kind=kind, read=read, of=len(ENGINE)),
                )
            )
            continue
        reasons = sorted({reason for reason in tick.engine_reasons[row] if reason is not None})
        remedy = _("Check that it serves /metrics there and that the agent may reach it; it is asked again with the next round.")
        checks.append(
            Check(
                Sentence(_("engine {name}"), name=name),
                "note",
                Sentence(_("{kind}, no readings: {why}"), kind=kind, why=", ".join(reasons) or Sentence(_("not asked yet"))),
                remedy,
            )
        )
    return checks
