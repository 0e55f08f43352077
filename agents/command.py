"""A command, and what the GPUs, the host and its processes did while it ran.

The command keeps its standard streams, its exit code and the signals that are sent to it; sampling goes on beside it.
"""

import asyncio
import gzip
import logging
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, structs

from agents import recorder
from agents.collectors import procfs
from agents.machine import Machine
from agents.stand_ins import GROWN_BYTES, StandIns
from wire.recording import Header, Recording, Sample, Writer

log = logging.getLogger(__name__)

MAX_SAMPLES: Final = 7200
"""Half an hour at 4 Hz; a longer run keeps every second, then every fourth sample for the diagnosis. The file keeps all."""
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
_decode: Final = msgspec.json.Decoder(Sample).decode


class Ran(Struct):
    """How a command ended: its exit code as a shell tells it, and its recording (None: nothing was sampled).

    `trouble` says why the file is not whole, or not all of the run was sampled; None: it is, and was.
    """

    code: int
    seconds: float
    recording: Recording | None
    gpus_state: str
    trouble: str | None = None


class CommandError(Exception):
    """The command could not be started; `code` is what a shell would answer."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


async def run(words: Sequence[str], machine: Machine, file: Path | None = None, hz: float = recorder.HZ) -> Ran:
    """Run `words` to its end and sample meanwhile; CommandError when it cannot be started, OSError when `file` cannot be begun."""
    running = asyncio.get_running_loop()
    writer = None if file is None else _LazyWriter(file)
    began = time.monotonic()
    try:
        child = await asyncio.create_subprocess_exec(*words)
    except FileNotFoundError:
        raise CommandError(f"{words[0]}: command not found", NOT_FOUND) from None
    except OSError as error:
        raise CommandError(f"{words[0]}: {error.strerror or error}", NOT_EXECUTABLE) from None
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        running.add_signal_handler(number, _forward, child, number)
    watch = _Watch(child.pid)
    sampling = asyncio.create_task(_sample(machine, hz, watch, writer))
    try:
        code = await child.wait()
    finally:
        sampling.cancel()
        (ended,) = await asyncio.gather(sampling, return_exceptions=True)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            running.remove_signal_handler(number)
        if writer is not None:
            writer.close()
    recording = watch.recording(Path(words[0]).name)
    trouble = None if writer is None else writer.trouble
    if isinstance(ended, Exception):
        log.error("Sampling ended before the command did", exc_info=ended)
        trouble = f"sampling ended before the command did, over a defect: {type(ended).__name__}: {ended}"
    if file is not None and recording is not None and trouble is None and watch.chosen() != watch.all():
        try:
            _keep_only(file, recording.header, watch.chosen())
        except OSError as error:
            trouble = f"{file} has all GPUs: {error.strerror or error}"
    state = machine.state_detail or machine.state
    return Ran(code if code >= 0 else 128 - code, time.monotonic() - began, recording, state, trouble)


def _forward(child: asyncio.subprocess.Process, number: int) -> None:
    """Hand a signal on. Ctrl-C on a terminal already reached the child: twice would kill what wanted to end in order."""
    if number == signal.SIGINT and _on_terminal():
        return
    try:
        child.send_signal(number)
    except ProcessLookupError:
        return


def _on_terminal() -> bool:
    try:
        return os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


async def _sample(machine: Machine, hz: float, watch: "_Watch", writer: "_LazyWriter | None") -> None:
    stand_ins = StandIns(watch.pid)
    async for sample in recorder.samples(machine, hz):
        if not machine.inventory.gpus:
            continue  # the driver may still come
        head = recorder.header(machine, hz)
        sample = stand_ins.apply(sample)
        watch.take(head, sample)
        if writer is not None:
            writer.write(head, sample)


class _LazyWriter:
    """Writes the header as soon as the GPUs are known. A disk that refuses ends the file, never the sampling: see `trouble`."""

    def __init__(self, file: Path) -> None:
        file.touch()  # a path that cannot be written should be said before the command has run for hours
        self._file = file
        self._writer: Writer | None = None
        self.trouble: str | None = None

    def write(self, head: Header, sample: Sample) -> None:
        if self.trouble is not None:
            return
        try:
            if self._writer is None:
                self._writer = Writer(self._file, head)
            self._writer.sample(sample)
        except OSError as error:
            self._end(error)

    def close(self) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
            elif self._file.stat().st_size == 0:
                self._file.unlink()
        except OSError as error:
            self._end(error)

    def _end(self, error: OSError) -> None:
        self.trouble = self.trouble or f"{self._file} is not whole: {error.strerror or error}"


class _Watch:
    """Keeps samples and finds out which GPUs the command used."""

    def __init__(self, pid: int, proc: str = "/proc") -> None:
        self.pid = pid
        self._proc = proc
        self._header: Header | None = None
        self._samples: list[Sample] = []
        self._every = 1
        self._number = 0
        self._kin: dict[int, bool] = {}
        self._tree: set[int] = set()  # indices of GPUs held by the command's descendants
        self._later: set[int] = set()  # held by processes that began after it, as a container's do
        self._first_used: dict[int, int] = {}
        self._grown: set[int] = set()
        self._start = self._started(pid)

    def take(self, head: Header, sample: Sample) -> None:
        """Take one more sample."""
        self._header = head
        for gpu in sample.gpus:
            index = gpu["index"]
            for pid in map(int, gpu.get("pids", ())):
                if self._is_kin(pid):
                    self._tree.add(index)
                elif self._start is not None and (self._started(pid) or 0) >= self._start:
                    self._later.add(index)
            used = gpu.get("mem_used_bytes")
            if used is not None and used - self._first_used.setdefault(index, used) >= GROWN_BYTES:
                self._grown.add(index)
        self._number += 1
        if self._number % self._every == 0:
            self._samples.append(sample)
        if len(self._samples) >= 2 * MAX_SAMPLES:
            self._samples = self._samples[1::2]
            self._every *= 2

    def all(self) -> set[int]:
        """Every GPU's index."""
        return {card.index for card in self._header.gpus} if self._header is not None else set()

    def chosen(self) -> set[int]:
        """GPUs that the command used as far as can be told; all when nothing can."""
        return self._tree or self._later or self._grown or self.all()

    def recording(self, name: str) -> Recording | None:
        """What was sampled of the chosen GPUs."""
        if self._header is None or not self._samples:
            return None
        chosen = self.chosen()
        return Recording(
            name=name,
            header=structs.replace(self._header, gpus=tuple(card for card in self._header.gpus if card.index in chosen)),
            samples=tuple(_only(sample, chosen) for sample in self._samples),
        )

    def _is_kin(self, pid: int) -> bool:
        """True when `pid` descends from the command."""
        if pid not in self._kin:
            parent, found = pid, False
            while parent > 1 and not found:
                found = parent == self.pid
                stat = self._stat(parent)
                parent = int(stat[1]) if stat else 0
            self._kin[pid] = found
        return self._kin[pid]

    def _started(self, pid: int) -> int | None:
        stat = self._stat(pid)
        return int(stat[19]) if stat else None

    def _stat(self, pid: int) -> list[bytes]:
        try:
            content = procfs.read(f"{self._proc}/{pid}/stat")
            words = content[content.rindex(b")") + 2 :].split()
        except (OSError, ValueError):
            return []
        return words if len(words) > 19 else []


def _only(sample: Sample, chosen: set[int]) -> Sample:
    gpus = tuple(gpu for gpu in sample.gpus if gpu["index"] in chosen)
    pids = {int(pid) for gpu in gpus for pid in gpu.get("pids", ())}
    return structs.replace(sample, gpus=gpus, processes=tuple(one for one in sample.processes if one["pid"] in pids))


def _keep_only(file: Path, header: Header, chosen: set[int]) -> None:
    """Leave only the chosen GPUs in the file, with every sample that it has, in one step; line by line, as a run may last days."""
    part = file.with_name(file.name + ".part")
    try:
        with gzip.open(file) as lines:
            writer = Writer(part, header)
            next(lines)
            for line in lines:
                writer.sample(_only(_decode(line), chosen))
        writer.close()
        part.replace(file)
    except OSError:
        part.unlink(missing_ok=True)
        raise
