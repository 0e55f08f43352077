"""What `npu-smi` prints, asked with a deadline and read by the names of its columns. Knows no metric.

The tool is not made to be run twice at once, and killing it in the middle of a driver call may do harm: one that does not answer is
asked to end (SIGTERM) and left alone, and no other is started until it has.
"""

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PLACES: Final = ("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi", "/usr/bin/npu-smi")
DEADLINE_S: Final = 10.0
_NONE: Final = ("NA", "N/A", "-", "--", "")
_NAMES: Final = {"NPU ID": "NPU", "NPU Util(%)": "AICore(%)"}  # as Ascend 950 names them


class NpuSmiError(Exception):
    """The tool did not answer as it should; `state` is a key of agents.device.DRIVER_STATES."""

    def __init__(self, state: str, text: str) -> None:
        super().__init__(text)
        self.state = state


@dataclass(slots=True)
class Chip:
    """One chip's row of `npu-smi info`; None: the tool says that it has none. Memory in MiB."""

    npu: int
    chip: int
    name: str
    health: str | None
    bus: str | None
    power_w: float | None
    temperature_c: float | None
    core_pct: float | None
    used_mib: float | None
    total_mib: float | None


@dataclass(slots=True)
class Table:
    """An answer of `npu-smi info`. `holds`: (npu, chip, pid, MiB); None where the tool lists no processes at all."""

    version: str | None = None
    chips: list[Chip] = field(default_factory=list)
    holds: list[tuple[int, int, int, int]] | None = None


def found() -> str | None:
    """The path of npu-smi on this machine; None: it is not here."""
    return shutil.which("npu-smi") or next((place for place in PLACES if os.access(place, os.X_OK)), None)


class Tool:
    """Runs npu-smi, one question after another. `path` is the program."""

    def __init__(self, path: str | Path, deadline_s: float = DEADLINE_S) -> None:
        self._path = str(path)
        self._deadline_s = deadline_s
        self._stuck: subprocess.Popen[str] | None = None
        self._turn = threading.Lock()  # one that was told to stop may still be asking

    def ask(self, *arguments: str) -> str:
        """What it prints to `npu-smi info ARGUMENTS`; NpuSmiError where it cannot be run, fails or does not answer in time."""
        with self._turn:
            return self._ask(arguments)

    def _ask(self, arguments: tuple[str, ...]) -> str:
        if self._stuck is not None:
            if self._stuck.poll() is None:
                raise NpuSmiError("timeout", "an earlier npu-smi has still not ended")
            self._stuck.communicate()
            self._stuck = None
        try:
            process = subprocess.Popen(  # noqa: S603 - a fixed path, and arguments of our own
                [self._path, "info", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=os.environ | {"LC_ALL": "C"},
            )
        except OSError as error:
            raise NpuSmiError("no_npu_tool", str(error)) from error
        try:
            text, _ = process.communicate(timeout=self._deadline_s)
        except subprocess.TimeoutExpired as error:
            process.terminate()
            self._stuck = process
            raise NpuSmiError("timeout", f"npu-smi did not answer within {self._deadline_s:g} s") from error
        if re.search(r"dcmi\w* (module )?initialize failed|DrvMngGetConsoleLogLevel failed|ermission denied", text):
            raise NpuSmiError("no_npu_driver", _line(text))
        if process.returncode:
            raise NpuSmiError("driver_error", f"npu-smi ended with status {process.returncode}: {_line(text)}")
        return text


def table(text: str) -> Table:
    """The answer of `npu-smi info`, whatever its columns' widths and order; NpuSmiError `unknown_layout` where its names are not known."""
    answer = Table()
    version = re.search(r"\bVersion:\s*([^\s|]+)", text)
    answer.version = version[1] if version else None
    heads: list[list[list[str]]] = []
    first: dict[str, str] | None = None
    for cells in _rows(text):
        words = [_names(cell) for cell in cells]
        if "Process id" in cells:
            answer.holds, heads, first = [], [[[cell] for cell in cells]], None
        elif "Health" in cells:
            heads = [words]
        elif len(heads) == 1 and any("Bus-Id" in cell for cell in words):
            heads.append(words)
        elif answer.holds is not None:
            _hold(cells, heads[0], answer.holds)
        elif len(heads) == 2:
            if first is None:
                first = _named(heads[0], cells)
            else:
                answer.chips.append(_chip(first | _named(heads[1], cells)))
                first = None
    if not answer.chips:
        raise NpuSmiError("unknown_layout", f"no chip was found in what npu-smi printed: {_line(text)}")
    return answer


def facts(text: str) -> dict[str, str]:
    """The lines `name : value` of `npu-smi info -t …`; the first of equal names is the chip's, a later one the MCU's."""
    told: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(" :")
        if colon and value.strip() not in _NONE:
            told.setdefault(name.strip(), value.strip())
    return told


def figure(text: str | None) -> float | None:
    """A number, or None where the tool has none."""
    try:
        return float(text or "")
    except ValueError:
        return None


def _rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.strip().startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) > 1:
                yield cells


def _names(cell: str) -> list[str]:
    """The columns that a cell of the head names."""
    for old, new in _NAMES.items():
        cell = cell.replace(old, new)
    return cell.split()


def _named(head: Sequence[Sequence[str]], cells: Sequence[str]) -> dict[str, str]:
    """A row's values by the names of its head; NpuSmiError where the two do not fit."""
    told: dict[str, str] = {}
    if len(head) == len(cells):
        for names, cell in zip(head, cells, strict=True):
            values = re.sub(r"\s*/\s*", "/", cell).split()
            if len(values) > len(names) and names[-1:] == ["Name"]:  # a name of several words
                values = [*values[: len(names) - 1], " ".join(values[len(names) - 1 :])]
            if len(values) != len(names):
                break
            told |= dict(zip(names, values, strict=True))
        else:
            return told
    raise NpuSmiError("unknown_layout", f"npu-smi's row {' | '.join(cells)!r} does not fit its head")


def _chip(told: dict[str, str]) -> Chip:
    try:
        npu, name, bus = int(told["NPU"]), told["Name"], told["Bus-Id"]
        chip = int(told.get("Chip", "0"))
        used, total = _pair(told.get("HBM-Usage(MB)"))
        if not total:  # a card with DDR, or one whose HBM is told in the other column
            used, total = _pair(told.get("Memory-Usage(MB)"))
    except (KeyError, ValueError) as error:
        raise NpuSmiError("unknown_layout", f"npu-smi's table lacks or garbles a column: {error}") from error
    return Chip(
        npu,
        chip,
        name,
        _some(told.get("Health")),
        _some(bus),
        figure(told.get("Power(W)")),
        figure(told.get("Temp(C)")),
        figure(told.get("AICore(%)")),
        used,
        total,
    )


def _pair(text: str | None) -> tuple[float | None, float | None]:
    used, _, total = (text or "").partition("/")
    return figure(used), figure(total)


def _some(text: str | None) -> str | None:
    return None if text is None or text in _NONE else text


def _hold(cells: Sequence[str], head: Sequence[Sequence[str]], holds: list[tuple[int, int, int, int]]) -> None:
    names = [names[0] for names in head]
    if len(cells) != len(names):
        return  # "No running processes found in NPU 0"
    told = dict(zip(names, cells, strict=True))
    place = cells[0].split()
    pid, used = told["Process id"], figure(told.get("Process memory(MB)"))
    if pid.isdecimal() and used is not None and all(word.isdecimal() for word in place) and place:
        holds.append((int(place[0]), int(place[1]) if len(place) > 1 else 0, int(pid), int(used)))


def _line(text: str) -> str:
    """The first line that says something, for a message."""
    return next((line.strip() for line in text.splitlines() if line.strip(" +-=|")), "nothing")[:200]
