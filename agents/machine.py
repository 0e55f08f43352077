"""This machine as a source of ticks: its GPUs, its host, its processes.

What reports of its own accord joins the `EventSource`s below; host and process readings join the readers of their collectors.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import structs

from agents.capabilities import Capabilities
from agents.changing_facts import ChangingFacts
from agents.collectors.descendants import SCAN_S
from agents.collectors.host import HostCollector
from agents.collectors.host_facts import facts
from agents.collectors.pci_tree import ports
from agents.collectors.pods import PodCollector, joined
from agents.collectors.process_labels import ProcessLabels, with_described
from agents.collectors.processes import ProcessCollector, Reading
from agents.device import SLOW_S, DeviceEvent, Driver
from agents.engines import EngineCollector
from agents.gpus import Gpus
from agents.kernel_events import KernelEvents
from agents.kernel_log import KernelLog
from agents.merged_events import MergedEvents
from agents.reports import Reports
from agents.source import GPU, PROCESS, EventSource, Inventory, Tick, metric_major
from wire.messages import Hold, Labels, Processes
from wire.pci import address

HOLDER_S: Final = 60.0


class Machine:
    """The node that this process runs on. `driver` None: the host alone; `reports` None: programs tell nothing of themselves."""

    def __init__(
        self,
        driver: Driver | None,
        proc: Path = Path("/proc"),
        deadline_s: float = 0.7,
        slow_s: float = SLOW_S,
        reports: Reports | None = None,
        engines: EngineCollector | None = None,
        sys: Path = Path("/sys"),
        kernel_log: KernelLog | None = None,
        capabilities: Capabilities | None = None,
        pods: PodCollector | None = None,
    ) -> None:
        self._gpus = Gpus(driver, deadline_s, slow_s, capabilities)
        self._holders: dict[int, float] = {}
        self._ports: dict[str, tuple[str, ...]] = {}
        self._kernel = (
            None
            if kernel_log is None
            else KernelEvents(
                kernel_log, self._gpu_at, self._is_of_gpu_program, gpus_below=lambda port: self._ports.get(port, ())
            )
        )
        self._merged = MergedEvents(self._gpus, self._kernel, self._gpus.count_xid)
        self._engines = EngineCollector() if engines is None else engines
        self._event_sources: tuple[EventSource, ...] = (self._merged, self._engines)
        self._host = HostCollector(proc, sys, slow_s=slow_s)
        self._read_facts = partial(facts, proc, sys)
        self._read_ports = partial(ports, sys)
        self._reports = reports
        self._pods = pods
        self._processes = ProcessCollector(proc, reports, sys, min(SCAN_S, slow_s))
        self._labels = ProcessLabels(proc)
        self._stock = self._gpus.stock
        self._changing = ChangingFacts(self._read_facts)
        self.inventory = Inventory(self._read_facts(), ())

    @property
    def state(self) -> str:
        """The driver's state, a key of `agents.device.DRIVER_STATES`."""
        return self._gpus.state

    @property
    def state_detail(self) -> str:
        """What is wrong with the driver and what to do; empty where nothing is, or nothing more is known."""
        return self._gpus.state_detail

    @property
    def troubles(self) -> dict[str, str]:
        """Why the kernel log is not read, engines are not asked, the kubelet does not name pods, training scripts cannot report; empty words where
        they are, it does and they can."""
        told = {"engines": self._engines.trouble}
        if self._kernel is not None:
            told["kernel_log"] = self._kernel.trouble
        if self._pods is not None:
            told["pods"] = self._pods.trouble
        return told if self._reports is None else told | {"step_reports": self._reports.trouble}

    @property
    def hangs(self) -> bool:
        """True while a driver call does not come back: the interpreter's own exit might wait for it."""
        return self._gpus.hangs

    @property
    def is_asking(self) -> bool:
        """True while serving engines are being looked for or asked, or the kubelet is."""
        return self._engines.is_busy or (self._pods is not None and self._pods.is_busy)

    @property
    def per_core_pct(self) -> list[float] | None:
        """Busy percent of each core in the tick before; None without an interval."""
        return self._host.per_core_pct

    def notify(self, on_event: Callable[[], None]) -> None:
        """Call `on_event`, in any thread, as soon as something is reported."""
        for source in self._event_sources:
            source.notify(on_event)

    def events(self) -> list[DeviceEvent]:
        """What was reported since the call before."""
        return [event for source in self._event_sources for event in source.events()]

    def pause_profiling(self, until: float) -> None:
        """Leave the profiling counters of all GPUs to others until monotonic second `until`."""
        self._gpus.pause_profiling(until)

    async def release(self, until: float) -> bool:
        """Let the driver go until monotonic second `until`; True when it is let go."""
        return await self._gpus.release(until)

    async def collect(self) -> Tick:
        """One tick; ends by the deadline even when a driver call hangs."""
        if self._reports is not None:
            self._reports.attach()
        self._merged.gather()
        self._host.collect()  # not beside the GPUs' threads: each would wait for the other at every call
        reading = await self._gpus.begin()
        if reading is not None:
            await reading
        rows = self._gpus.rows()
        self._take_stock()
        now = time.monotonic()
        self._remember(rows.holds, now)
        readings = self._processes.collect((hold.pid for hold in rows.holds), now, rows.accounts, self._homes(rows.holds))
        unknown = next((reason for reason in rows.holds_reasons if reason is not None), None)
        self._host.tell_used(unknown or self._processes.cores_used)
        shown = {reading.pid for reading in readings}
        named = ((one.pid, one.start, one.user) for one in readings if one.start is not None)
        labels = self._labels.of(named, now, self._stock.gpus)
        if self._reports is not None:
            for one in readings:
                if described := self._reports.labels(one.pid, one.user):
                    labels[one.pid] = with_described(labels.get(one.pid, {}), described)
        engines = self._engines.collect(now)
        return Tick(
            gpu=metric_major(rows.values, len(GPU)),
            gpu_reasons=rows.reasons,
            host=list(self._host.values),
            host_reasons=list(self._host.reasons),
            holds_reasons=rows.holds_reasons,
            processes=_processes(readings, [hold for hold in rows.holds if hold.pid in shown], labels),
            process_reasons=[reading.reasons for reading in readings],
            engines=engines.engines,
            engine_reasons=engines.reasons,
            gpu_labels=self._gpu_labels(now, rows.holds, labels),
            pods_reason=None if self._pods is None else self._pods.reason,
            kernel_log_reason="not_found" if self._kernel is not None and self._kernel.trouble else None,
        )

    async def close(self) -> None:
        """Let the driver and the files go, within a second; a thread that hangs is left to the exit."""
        if self._kernel is not None:
            self._kernel.close()
        self._host.close()
        self._labels.close()
        self._processes.close()
        self._changing.close()
        self._engines.close()
        if self._pods is not None:
            self._pods.close()
        if self._reports is not None:
            self._reports.close()
        await self._gpus.close()

    def _gpu_labels(self, now: float, holds: list[Hold], labels: dict[int, dict[str, str]]) -> list[dict[str, str]]:
        """Who uses each GPU: the kubelet's word stands before that of dcgm-exporter."""
        told = self._gpus.labels
        if self._pods is None:
            return told
        holders: dict[int, list[dict[str, str]]] = {}
        for hold in holds:
            if words := labels.get(hold.pid):
                holders.setdefault(hold.gpu, []).append(words)
        pods = self._pods.collect(now, self._stock.gpus, holders)
        return [joined(of_exporter, of_kubelet) for of_exporter, of_kubelet in zip(told, pods, strict=True)]

    def _gpu_at(self, pci: str) -> str | None:
        return next((gpu.uuid for gpu in self._gpus.stock.gpus if address(gpu.pci_bus_id) == pci), None)

    def _is_of_gpu_program(self, pid: int) -> bool:
        return pid in self._holders or self._processes.started_by_holder(pid)

    def _remember(self, holds: list[Hold], now: float) -> None:
        """Who held a GPU of late: the log may tell of a process's end after the driver has forgotten it."""
        for hold in holds:
            self._holders[hold.pid] = now
        for pid in [pid for pid, seen in self._holders.items() if now - seen > HOLDER_S]:
            del self._holders[pid]

    def _homes(self, holds: list[Hold]) -> dict[int, set[int]]:
        """The NUMA nodes of the GPUs that each process holds, as far as they are known."""
        told = self.inventory.host.gpu_numa_nodes
        nodes = [told.get(gpu.uuid) for gpu in self.inventory.gpus] if told else []
        found: dict[int, set[int]] = {}
        for hold in holds:
            node = nodes[hold.gpu] if hold.gpu < len(nodes) else None
            if node is not None:
                found.setdefault(hold.pid, set()).add(node)
        return found

    def _take_stock(self) -> None:
        """Another inventory, and with it another hello, once the driver shows other GPUs or the host has changed."""
        stock = self._gpus.stock
        if stock is not self._stock:
            self._stock = stock
            host = structs.replace(
                self._read_facts(stock.gpus), driver_version=stock.versions.driver, cuda_driver_version=stock.versions.cuda
            )
            self.inventory = Inventory(host, stock.gpus)
            self._ports = self._read_ports(stock.gpus)
        elif (news := self._changing.news(self.inventory.host, stock.gpus)) is not None:
            self.inventory = Inventory(news, stock.gpus)


def _processes(readings: list[Reading], holds: list[Hold], labels: dict[int, dict[str, str]]) -> Processes:
    return Processes(
        pid=[reading.pid for reading in readings],
        name=[reading.name for reading in readings],
        user=[reading.user for reading in readings],
        values=metric_major([reading.values for reading in readings], len(PROCESS)),
        holds=holds,
        labels=[Labels(pid, words) for pid, words in labels.items()],
    )
