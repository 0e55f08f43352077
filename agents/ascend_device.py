"""Huawei Ascend NPUs behind the device seam, by what `npu-smi` prints.

One thread asks: the table of all chips every PERIOD_S seconds, and with each table one question more about one chip (clocks, memory, ECC in
turn), so that eight NPUs come round in two minutes. A tick takes what came last, and takes nothing that is too old.
"""

import logging
import platform
import queue
import re
import threading
import time
from pathlib import Path
from typing import Final

from agents import npu_smi
from agents.device import NO_ACCOUNTS, DeviceEvent, DriverError, GpuReader, Versions
from agents.npu_smi import Chip, NpuSmiError, Table, Tool
from wire.messages import Cell, GpuFacts
from wire.metrics import Metric, accept, sent

log = logging.getLogger(__name__)

GPU_METRICS: Final[tuple[Metric, ...]] = tuple(sent("gpu"))
PERIOD_S: Final = 5.0
MAX_AGE_S: Final = 20.0
"""A table older than this is no reading of now."""
DETAILS_MAX_AGE_S: Final = 600.0
_PLACE: Final = {metric.name: place for place, metric in enumerate(GPU_METRICS)}
_DETAILS: Final = {
    "common": {"sm_clock_mhz": "Aicore curFreq(MHZ)", "sm_clock_max_mhz": "Aicore Freq(MHZ)"},
    "memory": {"memory_temperature_c": "HBM Temperature(C)", "mem_clock_mhz": "HBM Clock Speed(MHz)"},
    "ecc": {
        "ecc_corrected_volatile_total": "HBM Single Bit Error Count",
        "ecc_uncorrected_volatile_total": "HBM Double Bit Error Count",
        "ecc_corrected_aggregate_total": "HBM Single Bit Aggregate Total Err Cnt",
        "ecc_uncorrected_aggregate_total": "HBM Double Bit Aggregate Total Err Cnt",
    },
}
"""By `-t` of npu-smi: the metrics of its answer and their names in it."""
_DETAIL_METRICS: Final = tuple((kind, metric, name) for kind, names in _DETAILS.items() for metric, name in names.items())
Key = tuple[int, int]


class Board:
    """What npu-smi said last of all chips, and the thread that asks."""

    def __init__(self, tool: Tool) -> None:
        self.table = Table()
        self.at = float("-inf")
        self.details: dict[tuple[Key, str], tuple[dict[str, str], float]] = {}
        self.uuids: dict[Key, str] = {}
        self.events: queue.SimpleQueue[DeviceEvent] = queue.SimpleQueue()
        self.error: NpuSmiError | None = None
        self._tool = tool
        self._turn = 0
        self._stop = threading.Event()

    def start(self) -> None:
        """Ask now and then until `stop`."""
        threading.Thread(target=self._run, name="npu-smi", daemon=True).start()

    def stop(self) -> None:
        """Ask no more; a question under way ends by itself."""
        self._stop.set()

    def look(self) -> None:
        """Ask for the table; NpuSmiError where there is none."""
        table = npu_smi.table(self._tool.ask())
        before = {(chip.npu, chip.chip): chip.health for chip in self.table.chips}
        for chip in table.chips:
            key = (chip.npu, chip.chip)
            if key in self.uuids and key in before and chip.health not in (None, before[key]):
                text = f"NPU {chip.npu} chip {chip.chip} says that its health is {chip.health}; it was {before[key]}."
                self.events.put(DeviceEvent("driver", self.uuids[key], None, text))
        self.table, self.at = table, time.monotonic()

    def ask_detail(self) -> None:
        """One question about one chip, the next in turn."""
        keys = [(chip.npu, chip.chip) for chip in self.table.chips]
        asked = [(key, kind) for key in keys for kind in _DETAILS]
        if asked:
            self._turn = (self._turn + 1) % len(asked)
            self.detail(*asked[self._turn])

    def detail(self, key: Key, kind: str) -> None:
        """Ask about one chip; what it said before grows old where it does not answer."""
        answer = self._tool.ask("-t", kind, "-i", str(key[0]), "-c", str(key[1]))
        self.details[key, kind] = (npu_smi.facts(answer), time.monotonic())

    def identify(self, chip: Chip) -> str:
        """A name for a chip that stays: its die's number, else its card's serial number, else its place in this node."""
        for arguments, names in ((("-c", str(chip.chip)), ("VDie ID", "Die ID")), ((), ("Serial Number",))):
            try:
                told = npu_smi.facts(self._tool.ask("-t", "board", "-i", str(chip.npu), *arguments))
            except NpuSmiError as error:
                log.info("NPU %s does not tell its number: %s", chip.npu, error)
                continue
            for name in names:
                number = re.sub(r"[^0-9A-Za-z]+", "-", told.get(name, "")).strip("-")
                if number.strip("-0"):
                    return f"NPU-{number}" if name != "Serial Number" else f"NPU-{number}-{chip.chip}"
        return f"NPU-{platform.node()}-{chip.npu}-{chip.chip}"

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_S):
            try:
                self.look()
            except NpuSmiError as error:
                if self.error is None:
                    log.warning("npu-smi does not tell of the NPUs, whose readings are absent until it does: %s", error)
                self.error = error
                continue
            except Exception:
                log.exception("What npu-smi printed could not be read; it is asked again")
                continue
            if self.error is not None:
                log.info("npu-smi answers again.")
            self.error = None
            try:
                self.ask_detail()
            except NpuSmiError as error:
                log.debug("npu-smi did not answer about one chip: %s", error)
            except Exception:
                log.exception("What npu-smi printed of one chip could not be read; others are asked about")


class AscendReader:
    """Reads one chip from what npu-smi said last."""

    def __init__(self, key: Key, board: Board) -> None:
        self.values: list[Cell] = [None] * len(GPU_METRICS)
        self.reasons: list[str | None] = ["no_previous"] * len(GPU_METRICS)
        self.holds: list[tuple[int, int | None]] = []
        self.holds_reason: str | None = "no_previous"
        self.xids = 0
        self.answered = False
        self.mig_mode: bool | None = None
        self.instances: tuple[str, ...] = ()
        self.accounts = NO_ACCOUNTS
        self.is_lost = False
        self._key = key
        self._board = board

    def collect(self, now: float) -> None:
        """Take what is fresh at monotonic second `now`."""
        board, key = self._board, self._key
        table = board.table
        if now - board.at > MAX_AGE_S:
            self.fail("timeout")
            return
        chip = next((chip for chip in table.chips if (chip.npu, chip.chip) == key), None)
        if chip is None:
            self.fail("gpu_lost")
            return
        self.fail("unsupported")  # what nothing is told of stays so
        self.answered = True
        self._put("power_w", chip.power_w)
        self._put("temperature_c", chip.temperature_c)
        self._put("gpu_util_pct", chip.core_pct)
        self._put("mem_used_bytes", _bytes(chip.used_mib))
        self._put("mem_total_bytes", _bytes(chip.total_mib))
        for kind, metric, name in _DETAIL_METRICS:
            self._put_detail(kind, metric, name, now)
        if table.holds is not None:
            self.holds = [(pid, used << 20) for npu, number, pid, used in table.holds if (npu, number) == key]
            self.holds_reason = None

    def fail(self, reason: str) -> None:
        """Mark the whole chip absent for `reason`."""
        self.values = [None] * len(GPU_METRICS)
        self.reasons = [reason] * len(GPU_METRICS)
        self.holds, self.holds_reason = [], reason
        self.answered = False
        self.is_lost = reason == "gpu_lost"

    def pause_profiling(self, until: float) -> None:
        """Nothing: npu-smi takes no profiling counters."""

    def _put(self, name: str, value: float | None) -> None:
        """A reading; a dash or "NA" in its column is a blank."""
        place = _PLACE[name]
        self.values[place], self.reasons[place] = (None, "blank") if value is None else accept(GPU_METRICS[place], value)

    def _put_detail(self, kind: str, metric: str, name: str, now: float) -> None:
        told = self._board.details.get((self._key, kind))
        if told is None or now - told[1] > DETAILS_MAX_AGE_S:
            self.reasons[_PLACE[metric]] = "no_previous" if told is None else "timeout"
        elif name in told[0]:
            self._put(metric, npu_smi.figure(told[0][name]))


class AscendNpu:
    """One chip as npu-smi shows it."""

    def __init__(self, index: int, chip: Chip, uuid: str, board: Board) -> None:
        self._key = (chip.npu, chip.chip)
        self._board = board
        self.facts = GpuFacts(
            index=index,
            uuid=uuid,
            name=chip.name if chip.name.startswith("Ascend") else f"Ascend {chip.name}",
            pci_bus_id=chip.bus,
            mem_total_bytes=_bytes(chip.total_mib) or None,
        )

    def reader(self, slow_s: float) -> GpuReader:
        """A reader of it; npu-smi has its own pace, so `slow_s` changes nothing."""
        return AscendReader(self._key, self._board)


class AscendDriver:
    """The NPUs of this machine. `path` is npu-smi."""

    def __init__(self, path: str | Path, deadline_s: float = npu_smi.DEADLINE_S) -> None:
        self._tool = Tool(path, deadline_s)
        self._board: Board | None = None
        self._uuids: dict[tuple[Key, str | None], str] = {}

    def open(self) -> tuple[AscendNpu, ...]:
        """The NPUs that npu-smi lists; DriverError with a named state otherwise."""
        board = Board(self._tool)
        try:
            board.look()
        except NpuSmiError as error:
            raise DriverError(error.state, str(error)) from error
        npus = []
        for index, chip in enumerate(board.table.chips):
            key = (chip.npu, chip.chip)
            known = (key, chip.bus)
            if known not in self._uuids:
                self._uuids[known] = board.identify(chip)
            board.uuids[key] = self._uuids[known]
            npus.append(AscendNpu(index, chip, self._uuids[known], board))
        board.start()
        self._board = board
        return tuple(npus)

    def versions(self) -> Versions:
        """The version of the Ascend driver; there is no CUDA."""
        return Versions(driver=self._board.table.version if self._board else None)

    def unreachable(self) -> tuple[str, ...]:
        """Nothing: npu-smi leaves out what does not answer."""
        return ()

    def event(self, timeout_ms: int) -> DeviceEvent | None:
        """The next change of a chip's health; None after `timeout_ms`."""
        try:
            return self._board.events.get(timeout=timeout_ms / 1000) if self._board else None
        except queue.Empty:
            return None

    def close(self) -> None:
        """Ask no more."""
        if self._board is not None:
            self._board.stop()
            self._board = None


def _bytes(mib: float | None) -> int | None:
    return None if mib is None else int(mib) << 20
