"""Records of the kernel's log, from /dev/kmsg or, where that may not be read, from journalctl."""

import contextlib
import logging
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from agents import own_file

log = logging.getLogger(__name__)

_CHUNK: Final = 16 * 1024
_AT_ONCE: Final = 256
"""Records read before anything else has its turn."""
_LINE_MAX: Final = 256 * 1024
"""Bytes of one line; the kernel's have a few thousand, the journal's some ten thousand."""
_ESCAPE: Final = re.compile(r"\\x([0-9a-f]{2})")
_KERNEL: Final = 0
"""The facility of the kernel's own records; what programs write to /dev/kmsg has another one."""


class LogError(Exception):
    """This log cannot be read; the message says why and what to do."""


class Record(Struct, frozen=True):
    """One message. `at`: the epoch second it was logged; None: just now."""

    message: str
    at: float | None = None


class _Split:
    """Whole lines of what comes in pieces; one that is too long is left out, and no more of it is kept than that."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_too_long = False

    def lines(self, chunk: bytes) -> list[bytes]:
        """Those that end in this piece."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if self._is_too_long and lines:
            self._is_too_long = False
            del lines[0]
        if self._is_too_long or len(self._rest) > _LINE_MAX:
            self._is_too_long, self._rest = True, b""
        return lines


class Kmsg:
    """/dev/kmsg, or a file or pipe with its records. `mark` keeps the boot and the number of the last record that was read."""

    def __init__(self, path: Path, mark: Path | None, proc: Path) -> None:
        self._path = path
        self._mark = mark
        self._proc = proc
        self._fd = -1
        self._split = _Split()
        self._seq = -1
        self._told_to = -1
        self._is_backlog = False
        self._is_skipping = False

    def open(self) -> None:
        """Begin with what comes from now on, or after the mark's record where it is of this boot, or with the boot where it is not."""
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            known = self._known()
            self._is_backlog = known is not None
            self._told_to = -1 if known is None else known
            # with a mark to keep, the old records are read for their numbers alone
            self._is_skipping = known is None and self._mark is not None
            if known is None and not self._is_skipping:
                with contextlib.suppress(OSError):  # a pipe has no end to stand at
                    os.lseek(self._fd, 0, os.SEEK_END)
        except OSError as error:
            self.close()
            raise LogError(
                f"{self._path}: {error.strerror}: run the agent with CAP_SYSLOG, and give a container the device"
            ) from None

    def fileno(self) -> int:
        """The file to wait for."""
        return self._fd

    def read(self) -> list[Record] | None:
        """What is there now; empty: nothing yet; None: at the end of a file, or no writer."""
        found: list[Record] = []
        for _ in range(_AT_ONCE):
            try:
                chunk = os.read(self._fd, _CHUNK)
            except BlockingIOError:
                self._reached_now()
                break
            except BrokenPipeError:
                continue  # records were overwritten before they could be read
            if not chunk:
                self._reached_now()
                return found or None
            found.extend(_each(self._split.lines(chunk), self._record))
        return found

    def keep_mark(self) -> None:
        """Remember how far it was read; a disk that refuses costs a repeated event after the next start."""
        if self._mark is None or self._seq < 0:
            return
        boot = self._boot()
        if boot:
            part = self._mark.with_name(self._mark.name + ".part")
            with contextlib.suppress(OSError):
                part.write_text(f"{boot} {self._seq}\n")
                part.replace(self._mark)

    def close(self) -> None:
        """Close it and remember how far it was read."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self.keep_mark()

    def _reached_now(self) -> None:
        if self._is_backlog or self._is_skipping:
            self._is_backlog = self._is_skipping = False
            self.keep_mark()

    def _known(self) -> int | None:
        """Number of the last record that was read, -1 after a boot; None: nothing is known of what was."""
        if self._mark is None:
            return None
        try:
            boot, seq = own_file.read(self._mark).decode("ascii").split()
            return _count(seq) if boot == self._boot() else -1
        except (OSError, ValueError):
            return None

    def _boot(self) -> str:
        try:
            return (self._proc / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
        except OSError:
            return ""

    def _record(self, line: bytes) -> Record | None:
        """`priority,number,microseconds,flags;message`; lines that begin with a space go on about the record before."""
        head, semicolon, message = line.partition(b";")
        if not semicolon or line[:1] in (b" ", b""):
            return None
        try:
            priority, seq, us, *_ = head.split(b",")
            is_ours, number, microseconds = int(priority) >> 3 == _KERNEL, _count(seq), _count(us)
            self._seq = number  # not of one that makes no sense: all that follows would have been told before
            if not is_ours or number <= self._told_to or self._is_skipping:
                return None
            at = since_boot(microseconds) if self._is_backlog else None
        except ValueError:
            return None
        text = message.decode("utf-8", "replace")
        return Record(_ESCAPE.sub(_unescaped, text), at)


class Journal:
    """`journalctl -k -f`, from now on."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._split = _Split()

    def open(self) -> None:
        """Start journalctl."""
        program = shutil.which("journalctl")
        if program is None:
            raise LogError("journalctl is not on this machine")
        try:
            self._process = subprocess.Popen(  # noqa: S603 - found on PATH, no input
                [program, "-k", "-f", "-n", "0", "-o", "json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            raise LogError(f"journalctl cannot be started: {error.strerror}") from None
        os.set_blocking(self.fileno(), False)

    def fileno(self) -> int:
        """The file to wait for."""
        if self._process is None or self._process.stdout is None:
            raise ValueError("journalctl was not started")
        return self._process.stdout.fileno()

    def read(self) -> list[Record] | None:
        """What is there now; empty: nothing yet; None: journalctl has ended."""
        try:
            chunk = os.read(self.fileno(), _CHUNK)
        except BlockingIOError:
            return []
        if not chunk:
            return None
        return list(_each(self._split.lines(chunk), _of_journal))

    def keep_mark(self) -> None:
        """The journal is followed from now on: there is nothing to remember."""

    def close(self) -> None:
        """End journalctl."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(0.3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _each(lines: Iterable[bytes], read: Callable[[bytes], Record | None]) -> Iterator[Record]:
    """What `read` makes of each line; one that it stumbles over costs itself alone."""
    for line in lines:
        try:
            record = read(line)
        except Exception:
            log.exception("A record of the kernel's log could not be read; those after it are")
            continue
        if record is not None:
            yield record


def _count(text: str | bytes) -> int:
    """A number that the kernel can have; ValueError otherwise."""
    if (found := int(text)) not in range(1 << 63):
        raise ValueError("no number of the kernel's")
    return found


def since_boot(us: int) -> float:
    """The epoch second of a record's microseconds since the boot, as far as clocks agree; none was logged later than now."""
    now = time.time()
    return min(now, now - time.monotonic() + us / 1e6)


def _of_journal(line: bytes) -> Record | None:
    try:
        entry: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None
    message = entry.get("MESSAGE")
    if isinstance(message, list):  # bytes that are no text
        message = bytes(one for one in message if isinstance(one, int) and 0 <= one < 256).decode("utf-8", "replace")
    if not isinstance(message, str) or entry.get("SYSLOG_FACILITY", "0") != "0":
        return None
    return Record(message)


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16))
