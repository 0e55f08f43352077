"""B-5 of the bench protocols: how fast a folder's disk reads, past the page cache, from a file that is gone afterwards."""

import contextlib
import errno
import fcntl
import mmap
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agents.bench.arithmetic import percentile
from wire.bench import Score
from wire.sentence import _

MIB: Final = 1 << 20
SEQUENTIAL_BYTES: Final = MIB
RANDOM_BYTES: Final = 64 * 1024
READERS: Final = {"disk_sequential_read": 4, "disk_random_read": 16}
"""Reads under way at once: one alone does not fill an NVMe disk."""
NAMES: Final = {"disk_sequential_read": SEQUENTIAL_BYTES, "disk_random_read": RANDOM_BYTES}
LEFT_SHARE: Final = 0.1
LEFT_BYTES: Final = 2 << 30
"""What must stay free on the disk: a tenth of it, and so many bytes."""
SMALLEST: Final = 64 * MIB
SLICE_S: Final = 0.1
"""Percentiles are of the rate in slices of so long."""


class DiskError(Exception):
    """The disk cannot be measured; the message is the sentence, without its first words' capital."""


def size_for(folder: Path, *, quick: bool) -> int:
    """Bytes of the file to read; DiskError where the disk has no room for it."""
    try:
        found = os.statvfs(folder)
        kind = file_system(os.stat(folder).st_dev)
    except OSError as error:
        raise DiskError(f"{folder} cannot be used: {error.strerror or error}") from None
    if kind in ("tmpfs", "ramfs"):
        raise DiskError(f"{folder} lies in memory ({kind}), and no disk would be measured: name another")
    free, whole = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    spare = int(free - max(LEFT_BYTES, LEFT_SHARE * whole)) // MIB * MIB
    if spare < SMALLEST:
        raise DiskError(
            f"{folder} has {free / 1e9:.1f} GB free; the test leaves a tenth of the disk and {LEFT_BYTES / 1e9:.1f} GB free, and needs"
            f" {SMALLEST / 1e6:.0f} MB more: name a folder with more room"
        )
    return min(spare, (512 if quick else 4096) * MIB)


def file_system(device: int, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """The kind of file system on a device; empty where the kernel does not say."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        before, _sign, after = line.partition(" - ")
        if before.split()[2:3] == [wanted] and after:
            return after.split()[0]
    return ""


def measure(folder: Path, *, quick: bool) -> Iterator[tuple[str, Score | str]]:
    """Each test's name with its score, or with why there is none. The file has no name while it is there, so that nothing is left of it."""
    try:
        size = size_for(folder, quick=quick)
        with _file(folder, size) as file:
            for name, block in NAMES.items():
                yield name, _read(file, name, block, size, 2.0 if quick else 10.0)
    except (DiskError, OSError) as error:
        why = str(error) if isinstance(error, DiskError) else f"{folder} fails: {error.strerror or error}"
        for name in NAMES:
            yield name, why


@contextlib.contextmanager
def _file(folder: Path, size: int) -> Iterator[int]:
    """A written file's descriptor, set to direct I/O."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        descriptor = file.fileno()
        try:
            for _number in range(size // MIB // 4):
                _write(descriptor, os.urandom(4 * MIB))  # what a disk cannot pack
            os.fsync(descriptor)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskError(f"{folder} ran out of room, or of quota, while the test's file was written") from None
            raise
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_DIRECT)
            os.preadv(descriptor, [mmap.mmap(-1, RANDOM_BYTES)], 0)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise DiskError(
                f"{folder} lies on a file system that refuses direct I/O, so that its memory and not its disk would be measured: name another"
            ) from None
        yield descriptor


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _read(descriptor: int, name: str, block: int, size: int, seconds: float) -> Score:
    """Read for so long, by several threads; a thread's read waits outside of Python's lock."""
    until = time.monotonic() + seconds
    done: list[list[tuple[float, int]]] = []
    failed: list[OSError] = []
    blocks = size // block
    turn = iter(range(1 << 60))
    lock = threading.Lock()

    def place(own: random.Random) -> int:
        if block == RANDOM_BYTES:
            return own.randrange(blocks)
        with lock:
            return next(turn) % blocks

    def reader(number: int) -> None:
        own, mine = random.Random(number), []  # noqa: S311 - places in a file
        buffer = mmap.mmap(-1, block)  # direct I/O wants whole pages
        try:
            while time.monotonic() < until:
                count = os.preadv(descriptor, [buffer], place(own) * block)
                mine.append((time.monotonic(), count))
        except OSError as error:
            failed.append(error)
        done.append(mine)

    began = time.monotonic()
    threads = [threading.Thread(target=reader, args=(number,), daemon=True) for number in range(READERS[name])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 60)
    if failed:
        raise failed[0]
    reads = [one for mine in done for one in mine]
    return score(name, reads, began, max((t for t, _rate in reads), default=began))


def score(name: str, reads: list[tuple[float, int]], began: float, ended: float) -> Score:
    """Rates over slices of time; the whole is one slice where it is short. DiskError where next to nothing was read."""
    slices = max(1, int((ended - began) / SLICE_S))
    if ended <= began:
        raise DiskError(_("no read came back in time"))
    each = [0] * slices
    for t, count in reads:
        each[min(slices - 1, int((t - began) / (ended - began) * slices))] += count
    found = [amount / ((ended - began) / slices) for amount in each]
    middle = percentile(found, 0.5)
    if middle <= 0:
        raise DiskError(_("most of the time no read came back"))
    low = percentile(found, 0.05)
    return Score(
        name=name,
        value=middle,
        p5=low,
        p95=percentile(found, 0.95),
        unit="bytes_per_second",
        iterations=min(len(reads), 1_000_000),
    )
