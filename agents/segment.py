"""The spool's files: append-only segments of records, each with a checksum, and the groups that the records belong to.

A record is a header (magic, kind, length, seq, checksum over all the rest) and its payload. A torn tail or a damaged record
loses itself alone: reading goes on at the next record that is whole.
"""

import logging
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from wire.messages import Hello

log = logging.getLogger(__name__)

HELLO: Final = 0
BATCH: Final = 1
EVENT: Final = 2
SETTLED: Final = 3
_MAGIC: Final = b"Fs"
_HEADER: Final = struct.Struct("<2sBxIQI")
HEADER_BYTES: Final = _HEADER.size
_MAX_RECORD: Final = 4 << 20
_BLOCK: Final = 4096
_BAD_BLOCKS: Final = 64
"""Of one file. A disk may take seconds for each, and the agent shall start meanwhile."""


class Segment:
    """One file. `records` are those not settled yet, with their group: events of several boots may share a segment."""

    def __init__(self, path: Path, fd: int, size: int) -> None:
        self.path = path
        self.size = size
        self.records: set[tuple[Group, int, int]] = set()
        self.is_torn = False
        """A record was written in part and could not be taken back: nothing may follow it."""
        self._fd = fd

    @classmethod
    def create(cls, path: Path) -> "Segment":
        """A new, empty file; OSError when it is there already or the disk refuses."""
        return cls(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), 0)

    @classmethod
    def open(cls, path: Path) -> "Segment":
        """The file that an earlier run left; what lies there in its place holds nobody up."""
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        return cls(path, fd, os.fstat(fd).st_size)

    @property
    def has_batch(self) -> bool:
        """True while a batch in it is not settled."""
        return any(kind == BATCH for _, kind, _ in self.records)

    def append(self, kind: int, seq: int, payload: bytes) -> None:
        """Write one record whole or not at all; OSError when the disk refuses."""
        record = pack(kind, seq, payload)
        try:
            written = os.pwrite(self._fd, record, self.size)
            if written != len(record):
                raise OSError(28, "no space left for the whole record")
        except OSError:
            try:
                os.ftruncate(self._fd, self.size)
            except OSError:
                self.is_torn = True
            raise
        self.size += len(record)

    def read(self, kind: int, seq: int, offset: int, length: int) -> bytes | None:
        """The payload of the record at `offset`; None when it is damaged, OSError when the disk refuses."""
        header = os.pread(self._fd, HEADER_BYTES, offset)
        payload = os.pread(self._fd, length, offset + HEADER_BYTES)
        return payload if _checked(header, payload) == (kind, seq) else None

    def content(self) -> bytes:
        """All of it, with zeros in place of blocks that the disk does not give back; OSError where that is the whole file, or too much."""
        try:
            return self._block(0, self.size)
        except OSError:
            blocks, bad = [], 0
            for offset in range(0, self.size, _BLOCK):
                length = min(_BLOCK, self.size - offset)
                try:
                    blocks.append(self._block(offset, length))
                except OSError:
                    bad += 1
                    if bad > _BAD_BLOCKS:
                        raise
                    blocks.append(b"\0" * length)
            if bad == len(blocks):
                raise
            return b"".join(blocks)

    def _block(self, offset: int, length: int) -> bytes:
        found = os.pread(self._fd, length, offset)
        while len(found) < length and (more := os.pread(self._fd, length - len(found), offset + len(found))):
            found += more
        return found

    def sync(self) -> None:
        """Return when all of it is on the disk."""
        os.fdatasync(self._fd)

    def try_to_sync(self) -> None:
        """Sync, where the disk lets."""
        try:
            self.sync()
        except OSError as error:
            log.warning("The spool %s cannot be synced, so an event may not be on the disk yet: %s", self.path, error)

    def close(self) -> None:
        """Close the file; it stays."""
        os.close(self._fd)

    def remove(self) -> None:
        """Close and delete the file."""
        os.close(self._fd)
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be deleted: %s. What was in it may be sent again after the next start.", self.path, error)


Place: TypeAlias = tuple[Segment, int, int]
"""Where a record lies: its segment, its offset, its payload's length."""


class Group:
    """The records made under one hello; they can only be delivered after it."""

    def __init__(self, hello: Hello) -> None:
        self.hello = hello
        self.places: tuple[dict[int, Place | bytes], ...] = ({}, {}, {})
        """By kind and seq; bytes: it waits in memory."""

    def pending(self, kind: int) -> list[int]:
        """Seqs not settled yet, oldest first."""
        return sorted(self.places[kind])

    @property
    def is_empty(self) -> bool:
        """True when nothing is left to deliver."""
        return not self.places[BATCH] and not self.places[EVENT]


def pack(kind: int, seq: int, payload: bytes) -> bytes:
    """One record."""
    head = _HEADER.pack(_MAGIC, kind, len(payload), seq, 0)
    checksum = zlib.crc32(payload, zlib.crc32(head[:-4]))
    return head[:-4] + struct.pack("<I", checksum) + payload


def pack_settled(boot: str, kind: int, low: int, high: int) -> bytes:
    """The payload that notes that seqs `low` to `high` of one kind of a boot are settled."""
    return msgspec.msgpack.encode((boot, kind, low, high))


def unpack_settled(payload: bytes) -> tuple[str, int, int, int]:
    """What `pack_settled` was given; DecodeError or ValueError when it is no such note."""
    boot, kind, low, high = msgspec.msgpack.decode(payload, type=tuple[str, int, int, int])
    if kind not in (BATCH, EVENT):
        raise ValueError(f"records of kind {kind} are never settled")
    return boot, kind, low, high


def _checked(header: bytes, payload: bytes) -> tuple[int, int] | None:
    """Kind and seq of a record that is whole; None otherwise."""
    if len(header) != HEADER_BYTES:
        return None
    magic, kind, length, seq, checksum = _HEADER.unpack(header)
    if magic != _MAGIC or kind > SETTLED or length != len(payload):
        return None
    return (kind, seq) if zlib.crc32(payload, zlib.crc32(header[:-4])) == checksum else None


def records(content: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(offset, kind, seq, payload) of every whole record, also of those after damaged bytes."""
    offset = content.find(_MAGIC)
    while 0 <= offset <= len(content) - HEADER_BYTES:
        header = content[offset : offset + HEADER_BYTES]
        length = _HEADER.unpack(header)[2]
        if length <= _MAX_RECORD:
            payload = content[offset + HEADER_BYTES : offset + HEADER_BYTES + length]
            found = _checked(header, payload)
            if found is not None:
                yield offset, *found, payload
                offset = content.find(_MAGIC, offset + HEADER_BYTES + length)
                continue
        offset = content.find(_MAGIC, offset + 1)
