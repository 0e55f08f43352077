"""The node's own `/metrics`: dcgm-exporter's families, names, labels and units for GPUs, and `fettle_*` for all else.

Written by hand: DCGM's counters do not end in `_total`, which prometheus-client's writer insists on.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from agents.source import ENGINE, GPU, HOST, PROCESS
from agents.vitals import STALE_S, LastTick, NodeView, cpu_s, rss_bytes
from wire import dcgm_fields
from wire.messages import Cell, GpuFacts
from wire.metrics import BY_KEY, Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MIB: Final = 1 << 20
_SUMMED: Final = ("cpu_pct", "children_cpu_pct", "rss_bytes", "threads", "dataloader_workers")
"""Told as sums over the processes of a GPU: a series for each pid would never stop to grow."""


class Page:
    """Families in the order of their first sample; each is written once, whatever nodes it has."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[str, str, list[str]]] = {}

    def add(self, name: str, kind: str, about: str, labels: str, value: Cell) -> None:
        """One sample; nothing where the value is None."""
        if value is None:
            return
        lines = self._families.setdefault(name, (kind, about, []))[2]
        lines.append(f"{name}{{{labels}}} {_number(value)}\n" if labels else f"{name} {_number(value)}\n")

    def text(self) -> str:
        """All of it, in Prometheus' text format 0.0.4."""
        parts = []
        for name, (kind, about, lines) in self._families.items():
            about = about.replace("\\", r"\\").replace("\n", r"\n")
            parts += [f"# HELP {name} {about}\n# TYPE {name} {kind}\n", *lines]
        return "".join(parts)


def metrics(nodes: Iterable[NodeView], now: float, version: str) -> str:
    """The page at monotonic second `now`. What was read more than STALE_S ago is left out, its age is told."""
    page = Page()
    for view in nodes:
        last = view.vitals.last
        _ages(page, view, now)
        if last is not None and now - last.at <= STALE_S:
            _gpus(page, view, last)
            _host(page, view.node, last)
            _engines(page, view.node, last)
        _agent(page, view)
    page.add("fettle_agent_info", "gauge", "The agent's version.", labels(version=version), 1)
    page.add("process_cpu_seconds_total", "counter", "CPU time of the agent.", "", cpu_s())
    page.add("process_resident_memory_bytes", "gauge", "Resident memory of the agent.", "", rss_bytes())
    return page.text()


def labels(**words: str) -> str:
    """The inside of a sample's braces."""
    return ",".join(f'{name}="{_escaped(word)}"' for name, word in words.items())


def _ages(page: Page, view: NodeView, now: float) -> None:
    last = view.vitals.last
    if last is None:
        return
    about = "Seconds since the node was last read; what is older than 10 s is left out."
    page.add("fettle_tick_age_seconds", "gauge", about, labels(Hostname=view.node), max(0.0, now - last.at))
    for facts in last.inventory.gpus:
        at = view.vitals.answered_at.get(facts.uuid)
        age = None if at is None else max(0.0, now - at)
        about = "Seconds since the GPU last answered anything; there even while its values are not."
        page.add("fettle_gpu_age_seconds", "gauge", about, gpu_labels(facts, view.node, last.inventory.gpus), age)


def gpu_labels(facts: GpuFacts, node: str, gpus: Sequence[GpuFacts] = ()) -> str:
    """The labels that dcgm-exporter gives a GPU; a MIG instance bears those of its GPU among `gpus`, and its own two."""
    whole = next((gpu for gpu in gpus if gpu.uuid == facts.parent_uuid), facts)
    words = labels(
        gpu=str(whole.index),
        UUID=whole.uuid,
        pci_bus_id=whole.pci_bus_id or "",
        device=f"nvidia{whole.index}",
        modelName=whole.name,
        Hostname=node,
    )
    if facts.parent_uuid is None:
        return words
    return f"{words},{labels(GPU_I_PROFILE=facts.mig_profile or '', GPU_I_ID=str(facts.mig_gpu_instance))}"


def _gpus(page: Page, view: NodeView, last: LastTick) -> None:
    for number, facts in enumerate(last.inventory.gpus):
        words = gpu_labels(facts, view.node, last.inventory.gpus)
        cells = {name: column[number] for name, column in zip(GPU, last.tick.gpu, strict=True)}
        for name, cell in cells.items():
            metric = BY_KEY[f"gpu.{name}"]
            dcgm = None if cell is None else _as_dcgm(metric, cell)
            if dcgm is not None:
                page.add(dcgm[0], _kind(metric), metric.help, words, dcgm[1])
            else:
                page.add(f"fettle_gpu_{name}", _kind(metric), metric.help, words, cell)
        page.add("DCGM_FI_DEV_FB_FREE", "gauge", "Device memory that is free, in MiB.", words, _free_mib(cells))
        if any(cell is not None for cell in cells.values()):
            code = view.vitals.xids.get(facts.uuid, 0)
            page.add("DCGM_FI_DEV_XID_ERRORS", "gauge", "The last XID since the agent began; 0: none.", words, code)
        _absent(page, words, last.tick.gpu_reasons[number])
        _processes(page, words, last, number)


def _as_dcgm(metric: Metric, cell: int | float) -> tuple[str, Cell] | None:
    """The family that dcgm-exporter has for it, and the value in DCGM's unit; None where there is none."""
    if metric.dcgm is None or metric.dcgm not in _NAMES:
        return None
    name, unit = _NAMES[metric.dcgm]
    scale = dcgm_fields.scale(unit, metric)
    if scale is None:
        return None
    if unit == "mib":
        return name, int(cell // scale)  # whole numbers in these, as DCGM writes them
    return name, round(cell / scale) if unit in ("mj", "ns") else (cell if scale == 1 else cell / scale)


def _free_mib(cells: dict[str, Cell]) -> int | None:
    total, used, kept = (cells.get(name) for name in ("mem_total_bytes", "mem_used_bytes", "mem_reserved_bytes"))
    return None if total is None or used is None else max(0, int(total - used - (kept or 0))) // MIB


def _absent(page: Page, words: str, reasons: Sequence[str | None]) -> None:
    for reason in sorted({reason for reason in reasons if reason is not None}):
        about = "Readings of a GPU that are absent, by reason."
        page.add("fettle_gpu_absent_readings", "gauge", about, f"{words},{labels(reason=reason)}", reasons.count(reason))


def _processes(page: Page, words: str, last: LastTick, number: int) -> None:
    """How many processes hold the GPU and what they cost together; nothing while nobody knows who holds it."""
    told = last.tick.holds_reasons
    if number < len(told) and told[number] is not None:
        return
    held = {hold.pid for hold in last.tick.processes.holds if hold.gpu == number}
    page.add("fettle_gpu_processes", "gauge", "Processes that hold the GPU.", words, len(held))
    rows = [row for row, pid in enumerate(last.tick.processes.pid) if pid in held]
    for name in _SUMMED:
        column = last.tick.processes.values[PROCESS.index(name)] if last.tick.processes.values else []
        read = [cell for cell in (column[row] for row in rows) if cell is not None]
        about = f"Over the processes that hold the GPU: {BY_KEY[f'process.{name}'].help}"
        page.add(f"fettle_gpu_processes_{name}", "gauge", about, words, sum(read) if read else None)


def _host(page: Page, node: str, last: LastTick) -> None:
    for name, cell in zip(HOST, last.tick.host, strict=True):
        metric = BY_KEY[f"host.{name}"]
        page.add(f"fettle_host_{name}", _kind(metric), metric.help, labels(Hostname=node), cell)


def _engines(page: Page, node: str, last: LastTick) -> None:
    engines = last.tick.engines
    for row, (engine, kind, model) in enumerate(zip(engines.name, engines.kind, engines.model, strict=True)):
        words = labels(engine=engine, kind=kind, model=model, Hostname=node)
        for name, column in zip(ENGINE, engines.values, strict=True):
            metric = BY_KEY[f"engine.{name}"]
            page.add(f"fettle_engine_{name}", _kind(metric), metric.help, words, column[row])


def _agent(page: Page, view: NodeView) -> None:
    words = labels(Hostname=view.node)
    vitals, delivery = view.vitals, view.delivery()
    for name, kind, about, value in (
        ("ticks_total", "counter", "Ticks since the agent began.", vitals.ticks),
        ("late_ticks_total", "counter", "Seconds without a tick, because the one before took too long.", vitals.late_ticks),
        ("failed_ticks_total", "counter", "Ticks that ended in a defect of the agent.", vitals.failed_ticks),
        ("failed_events_total", "counter", "Events that could not be told: no frame can hold them.", vitals.failed_events),
        ("rejected_readings_total", "counter", "Readings of GPUs and host that could not be true.", vitals.rejected),
        ("connected", "gauge", "1 while the server takes what is sent.", int(delivery.connected)),
        ("records_stored_total", "counter", "Batches and events that the server has stored.", delivery.stored),
        ("spool_records", "gauge", "Batches and events that wait to be stored.", delivery.waiting),
        ("spool_bytes", "gauge", "Bytes of the spool, on disk and in memory.", delivery.waiting_bytes),
        (
            "spool_dropped_total",
            "counter",
            "Batches and events lost: the spool was full, or its disk did not give them back.",
            delivery.dropped,
        ),
        ("spool_dropped_events_total", "counter", "The events among them.", delivery.dropped_events),
        ("spool_unreadable_total", "counter", "Those lost that the disk did not give back.", delivery.unreadable),
        ("spool_write_errors_total", "counter", "Records that the disk refused.", delivery.write_errors),
    ):
        page.add(f"fettle_agent_{name}", kind, about, words, value)
    for code, count in sorted(delivery.refused.items()):
        about = "Records that the server refused for good, by its code."
        page.add("fettle_agent_records_refused_total", "counter", about, f"{words},{labels(code=code)}", count)
    about = "1 for the driver's state."
    page.add("fettle_agent_driver_state", "gauge", about, f"{words},{labels(state=view.driver_state())}", 1)


def _kind(metric: Metric) -> str:
    return "counter" if metric.kind == "counter" else "gauge"


def _number(value: int | float) -> str:
    if isinstance(value, int):
        return str(value)
    return repr(value) if math.isfinite(value) else "NaN"


def _escaped(word: str) -> str:
    return word.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _names() -> dict[int, tuple[str, str]]:
    """Each field's name before DCGM 4.6 renamed it, which is what dashboards and alerts ask for, and its unit under that name."""
    found: dict[int, tuple[str, str]] = {}
    for name, described in dcgm_fields.BY_NAME.items():
        if described.id not in found or found[described.id][1] == described.unit:
            found[described.id] = (name, described.unit)
    return found


_NAMES: Final = _names()
