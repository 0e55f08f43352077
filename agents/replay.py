"""Recordings played as whole nodes: start-up once, then the steady part again and again.

A recording's four samples a second become one tick: means are averaged, everything else is the last value of the second.
Counters go on growing across the repeats. A recording of n GPUs fills a node of more by copies, and the host and its
counters grow with them, so that every ratio stays the recording's.
"""

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from agents.config import ConfigError
from agents.device import DeviceEvent
from agents.recorded_seconds import COUNTERS, Second, seconds
from agents.source import GPU, HOST, PROCESS, Inventory, Tick, metric_major
from wire import recording
from wire.messages import Cell, GpuFacts, Hold, HostFacts, Processes
from wire.metrics import Number
from wire.recording import Recording, RecordingError

PID_STEP: Final = 1_000_000
RUN_PIDS: Final = 10_000
RUNS: Final = 90
"""Pids of a copy and of a run; a recording's own are below 10,000, so none meets another."""
USER: Final = "demo"

_SCALED: Final = frozenset(
    HOST.index(name)
    for name in (
        "cpu_busy_cores",
        "mem_used_bytes",
        "disk_read_bytes_total",
        "disk_write_bytes_total",
        "net_rx_bytes_total",
        "net_tx_bytes_total",
    )
)


def nodes(paths: Sequence[Path], gpus: int | None = None, speed: float = 1.0, run: int = 0) -> list[tuple[str, "ReplayNode"]]:
    """(node name, source) of every recording in `paths` (files, or directories of them); ConfigError when one is none.

    `run` tells one playing from the next: the program starts again, so its processes have other pids.
    """
    files: list[Path] = []
    for path in paths:
        files += sorted(path.glob("*.jsonl*")) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"no recording in {', '.join(map(str, paths))}.")
    try:
        played = [recording.read(file) for file in files]
    except RecordingError as error:
        raise ConfigError(str(error)) from None
    return [(f"replay-{one.name.replace('_', '-')}", ReplayNode(one, gpus, speed, run=run)) for one in played]


class ReplayNode:
    """One recording as a source of ticks."""

    def __init__(
        self,
        played: Recording,
        gpus: int | None = None,
        speed: float = 1.0,
        monotonic: Callable[[], float] = time.monotonic,
        run: int = 0,
    ) -> None:
        recorded = max(1, max((len(sample.gpus) for sample in played.samples), default=1))
        self._recorded = recorded
        self._count = gpus or recorded
        self._scale = self._count / recorded
        self._name = played.name
        self._speed = speed
        self._first_pid = run % RUNS * RUN_PIDS
        self._monotonic = monotonic
        self._began: float | None = None
        self._first, self._steady = seconds(played, recorded)
        self._growth = _Growth(self._steady)
        self._facts = [self._gpu_facts(played, number) for number in range(self._count)]
        host = played.header.host
        self.inventory = Inventory(
            HostFacts(
                cores=None if host.cores is None else round(host.cores * self._scale),
                mem_total_bytes=None if host.mem_total_bytes is None else round(host.mem_total_bytes * self._scale),
                driver_version=played.header.driver_version,
                cuda_driver_version=played.header.cuda_driver_version,
            ),
            tuple(self._facts),
            recording=played.name,
        )

    def events(self) -> list[DeviceEvent]:
        """Nothing ever happens in a recording."""
        return []

    async def close(self) -> None:
        """Nothing to let go."""

    async def collect(self) -> Tick:
        """The second that is due now."""
        now = self._monotonic()
        if self._began is None:
            self._began = now
        return self.second(round((now - self._began) * self._speed))

    def second(self, position: int) -> Tick:
        """Second number `position` since the start."""
        if position < len(self._first):
            return self._tick(self._first[position], 0)
        loops, at = divmod(position - len(self._first), len(self._steady))
        return self._tick(self._steady[at], loops)

    def _tick(self, second: Second, loops: int) -> Tick:
        growth = self._growth
        rows = [
            [_grown(value, growth.gpus[g], i, loops) for i, value in enumerate(row)] if loops else row
            for g, row in enumerate(second.gpus)
        ]
        copies = [(number // self._recorded, number % self._recorded) for number in range(self._count)]
        host = [_scaled(_grown(value, growth.host, i, loops), i, self._scale) for i, value in enumerate(second.host)]
        return Tick(
            gpu=metric_major([rows[g] for _, g in copies], len(GPU)),
            gpu_reasons=[second.gpu_reasons[g] for _, g in copies],
            host=host,
            host_reasons=second.host_reasons,
            holds_reasons=[second.holds_reasons[g] for _, g in copies],
            processes=self._processes(second, loops),
        )

    def _processes(self, second: Second, loops: int) -> Processes:
        pids: list[int] = []
        rows: list[list[Cell]] = []
        holds: list[Hold] = []
        for copy in range(math.ceil(self._scale)):
            for pid, process in second.processes.items():
                held = [(copy * self._recorded + g, used) for g, used in process.holds if copy * self._recorded + g < self._count]
                if not held:
                    continue
                own = pid + self._first_pid + copy * PID_STEP
                growth = self._growth.processes.get(pid, {})
                pids.append(own)
                rows.append([_grown(value, growth, i, loops) for i, value in enumerate(process.values)])
                holds += [Hold(number, own, used) for number, used in held]
        return Processes(
            pid=pids,
            name=[self._name] * len(pids),
            user=[USER] * len(pids),
            values=metric_major(rows, len(PROCESS)),
            holds=holds,
        )

    def _gpu_facts(self, played: Recording, number: int) -> GpuFacts:
        cards = played.header.gpus
        card = cards[number % self._recorded] if number % self._recorded < len(cards) else recording.RecordedGpu(index=number)
        identity = hashlib.blake2s(f"{played.name}/{number}".encode(), digest_size=8).hexdigest()
        return GpuFacts(
            index=number,
            uuid=f"GPU-REPLAY-{identity}",
            name=card.name,
            compute_capability=card.compute_capability,
            mem_total_bytes=card.mem_total_bytes,
            power_limit_w=card.power_limit_w,
            power_limit_default_w=card.power_limit_default_w,
            sm_clock_max_mhz=None if card.sm_clock_max_mhz is None else round(card.sm_clock_max_mhz),
            mem_clock_max_mhz=None if card.mem_clock_max_mhz is None else round(card.mem_clock_max_mhz),
            pcie_link_gen_max=card.pcie_link_gen_max,
            pcie_link_width_max=card.pcie_link_width_max,
            nvlink_links=card.nvlink_links,
            nvlink_bytes_per_s_per_link=card.nvlink_bytes_per_s_per_link,
            memory_kind=card.memory_kind,
            power_scope=card.power_scope,
            power_average_s=card.power_average_s,
        )


class _Growth:
    """By how much each counter grows from one repeat of the steady part to the next."""

    def __init__(self, steady: list[Second]) -> None:
        gpus = range(len(steady[0].gpus))
        self.gpus = [_grows("gpu", [second.gpus[g] for second in steady]) for g in gpus]
        self.host = _grows("host", [second.host for second in steady])
        self.processes: dict[int, dict[int, Number]] = {}
        for pid in {pid for second in steady for pid in second.processes}:
            seen = [second.processes[pid].values for second in steady if pid in second.processes]
            self.processes[pid] = _grows("process", seen)


def _grows(scope: str, rows: list[list[Cell]]) -> dict[int, Number]:
    """Position: growth over the whole part, the step from its end to its next start included."""
    found: dict[int, Number] = {}
    for i in COUNTERS[scope]:
        values = [value for row in rows if (value := row[i]) is not None]
        if values:
            grown = values[-1] - values[0]
            grown += grown / (len(values) - 1) if len(values) > 1 else 0
            found[i] = round(grown) if isinstance(values[0], int) else grown
    return found


def _grown(value: Cell, growth: dict[int, Number], i: int, loops: int) -> Cell:
    return value if value is None or not loops or i not in growth else value + loops * growth[i]


def _scaled(value: Cell, i: int, scale: float) -> Cell:
    if value is None or scale == 1 or i not in _SCALED:
        return value
    return round(value * scale) if isinstance(value, int) else value * scale
