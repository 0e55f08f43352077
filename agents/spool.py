"""What the server has not stored yet, on disk and bounded.

Segments are append-only files of records, each with a checksum; the first record of a segment is the hello under which
its batches were made, so that a later run of the agent can still deliver them. What was settled (stored or refused) is a
record too. A torn tail or a damaged record loses itself alone. When the bound is reached the oldest batches are dropped
and counted; events move on to the newest segment, and go only when no batch is left to go in their place. While the disk
refuses, records wait in memory, bounded in the same way.

Survives the death of the process at any instant. After a loss of power the last seconds may be missing; events are
synced to the disk before they count as kept.
"""

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from agents import lock
from agents.segment import (
    BATCH,
    EVENT,
    HEADER_BYTES,
    HELLO,
    SETTLED,
    Group,
    Place,
    Segment,
    pack_settled,
    records,
    unpack_settled,
)
from wire.codec import WireError, decode_from_agent, encode
from wire.messages import Hello

log = logging.getLogger(__name__)

MEMORY_BYTES: Final = 8 << 20
"""How much waits in memory where there is no disk."""

Range = tuple[int, int]


class SpoolError(Exception):
    """The spool's directory cannot be used; the message says why."""


class SpoolHeldError(SpoolError):
    """Another agent uses the directory; the message names its pid."""


class Spool:
    """Records until they are settled. `directory` None: in memory alone, lost when the process ends."""

    def __init__(self, directory: Path | None = None, max_bytes: int = 64_000_000) -> None:
        self.dropped = 0
        """Batches and events lost because the bound was reached."""
        self.dropped_events = 0
        """The events among them."""
        self.write_errors = 0
        """Records that the disk refused."""
        self.damaged = 0
        """Stretches of bytes that were no record when the spool was opened."""
        self._directory = directory
        self._max_bytes = max_bytes
        self._segment_bytes = max(4096, min(1 << 20, max_bytes // 8))
        self._segments: list[Segment] = []
        self._open: Segment | None = None
        self._number = 0
        self._groups: dict[bytes, Group] = {}
        self._current: Group | None = None
        self._current_hello = b""
        self._in_memory = 0
        self._failing = False
        self._lock_fd: int | None = None
        if directory is not None:
            self._lock(directory)
            self._recover(directory)

    # What the loop and the sender use

    def begin(self, hello: Hello) -> Group:
        """Make `hello` the one under which later records are made; its group."""
        payload = encode(hello)
        self._roll()
        self._current_hello = payload
        self._current = self._groups.setdefault(payload, Group(hello))
        return self._current

    @property
    def current(self) -> Group:
        """The group of the last hello."""
        if self._current is None:
            raise RuntimeError("the spool has no hello yet")
        return self._current

    def earlier(self) -> list[Group]:
        """Groups of earlier hellos that still have records, oldest first."""
        for key in [key for key, group in self._groups.items() if group.is_empty and group is not self._current]:
            del self._groups[key]
        return [group for group in self._groups.values() if group is not self._current]

    def append(self, kind: int, seq: int, payload: bytes) -> None:
        """Keep one record; never raises for a disk that refuses."""
        group = self.current
        place = self._write(kind, seq, payload)
        if place is None:
            self._in_memory += len(payload)
            group.places[kind][seq] = payload
            self._bound_memory()
            return
        group.places[kind][seq] = place
        place[0].records.add((group, kind, seq))
        if kind == EVENT:
            self._sync(place[0])
        self._bound_disk()

    def payload(self, group: Group, kind: int, seq: int) -> bytes | None:
        """The bytes of one pending record; None when it was settled or dropped meanwhile, or cannot be read back."""
        place = group.places[kind].get(seq)
        if place is None or isinstance(place, bytes):
            return place
        segment, offset, length = place
        try:
            payload = segment.read(kind, seq, offset, length)
        except OSError as error:
            log.warning("The spool %s cannot be read back: %s", segment.path, error)
            return None
        if payload is None:
            self._forget(group, kind, seq)
            self.damaged += 1
        return payload

    def settle(self, group: Group, kind: int, ranges: Iterable[Range]) -> int:
        """Forget the records in these inclusive ranges; how many there were."""
        places = group.places[kind]
        count = 0
        for low, high in ranges:
            seqs = range(low, high + 1) if high - low < len(places) else [seq for seq in places if low <= seq <= high]
            found = [seq for seq in seqs if seq in places]
            if any(not isinstance(places[seq], bytes) for seq in found):
                # no further than what is there: a later record of the range is not settled by this
                self._write(SETTLED, 0, pack_settled(group.hello.boot, kind, low, max(found)))
            for seq in found:
                self._forget(group, kind, seq)
            count += len(found)
        return count

    def close(self) -> None:
        """Close the files; what is not settled stays on disk."""
        self._open = None
        self._trim()
        for segment in self._segments:
            segment.close()
        self._segments = []
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    @property
    def waiting(self) -> int:
        """Records that are not settled yet."""
        return sum(len(places) for group in self._groups.values() for places in group.places)

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes, on disk and in memory."""
        return sum(segment.size for segment in self._segments) + self._in_memory

    # Writing

    def _write(self, kind: int, seq: int, payload: bytes) -> Place | None:
        """Append one record; None when the disk refused it."""
        if self._directory is None:
            return None
        try:
            segment = self._open or self._new_segment(self._directory)
            if segment.size >= self._segment_bytes:
                self._roll()
                segment = self._new_segment(self._directory)
            offset = segment.size
            self._put(segment, kind, seq, payload)
        except OSError as error:
            self.write_errors += 1
            if not self._failing:
                self._failing = True
                log.error("The spool %s refuses records, which wait in memory meanwhile: %s", self._directory, error)
            return None
        if self._failing:
            self._failing = False
            log.warning("The spool %s takes records again; %d so far had to wait in memory.", self._directory, self.write_errors)
        return segment, offset, len(payload)

    def _put(self, segment: Segment, kind: int, seq: int, payload: bytes) -> None:
        try:
            segment.append(kind, seq, payload)
        except OSError:
            if segment.is_torn:
                self._roll()
            raise

    def _new_segment(self, directory: Path) -> Segment:
        if self._current is None:
            raise OSError(22, "no hello yet")
        self._number += 1
        path = directory / f"{self._number:012d}.spool"
        segment = Segment.create(path)
        try:
            self._put(segment, HELLO, 0, self._current_hello)
        except OSError:
            segment.remove()
            raise
        self._segments.append(segment)
        self._open = segment
        return segment

    def _roll(self) -> None:
        """End the open segment."""
        self._open = None
        self._trim()

    def _sync(self, segment: Segment) -> None:
        try:
            segment.sync()
        except OSError as error:
            log.warning("The spool %s cannot be synced, so an event may not be on the disk yet: %s", segment.path, error)

    # Forgetting

    def _forget(self, group: Group, kind: int, seq: int) -> None:
        place = group.places[kind].pop(seq, None)
        if isinstance(place, bytes):
            self._in_memory -= len(place)
        elif place is not None:
            place[0].records.discard((group, kind, seq))
            self._trim()

    def _trim(self) -> None:
        """Delete the oldest segments that have nothing left. Later ones wait: they note what was settled in older ones."""
        while self._segments and self._segments[0] is not self._open and not self._segments[0].records:
            self._remove(self._segments[0])

    def _remove(self, segment: Segment) -> None:
        if segment in self._segments:
            self._segments.remove(segment)
            segment.remove()

    def _bound_disk(self) -> None:
        while len(self._segments) > 1 and sum(segment.size for segment in self._segments) > self._max_bytes:
            segment = self._to_drop()
            if segment.has_batch:
                self._carry_events(segment)
            lost = len(segment.records)
            if lost:
                self._count_dropped(lost, sum(kind == EVENT for _, kind, _ in segment.records))
                log.warning("The spool is full: its %d oldest records were dropped (%d so far).", lost, self.dropped)
            for group, kind, seq in segment.records:
                group.places[kind].pop(seq, None)
            segment.records.clear()
            self._remove(segment)

    def _to_drop(self) -> Segment:
        """The segment to give up next: an empty one, else the oldest with a batch, else the oldest."""
        closed = [one for one in self._segments if one is not self._open]
        for found in (
            next((one for one in closed if not one.records), None),
            next((one for one in closed if one.has_batch), None),
        ):
            if found is not None:
                return found
        if self._open is not None and self._open.has_batch:
            closed, self._open = [self._open], None
        return closed[0]

    def _carry_events(self, segment: Segment) -> None:
        """Move the events of a segment to the newest one, each boot's under its own hello; to memory where the disk refuses."""
        events: dict[Group, list[int]] = {}
        for group, kind, seq in segment.records:
            if kind == EVENT:
                events.setdefault(group, []).append(seq)
        for group, seqs in events.items():
            payloads = {seq: payload for seq in sorted(seqs) if (payload := self.payload(group, EVENT, seq)) is not None}
            try:
                self._append_under(group, payloads)
            except OSError:
                self.write_errors += 1
                self._open = None  # it may end under another hello than the current one
                for seq, payload in payloads.items():
                    if group.places[EVENT][seq] is not payload and group.places[EVENT][seq][0] is segment:
                        self._in_memory += len(payload)
                        group.places[EVENT][seq] = payload
            segment.records.difference_update((group, EVENT, seq) for seq in payloads)
        self._bound_memory()

    def _append_under(self, group: Group, payloads: dict[int, bytes]) -> None:
        """Append events of a group to one segment, between its hello and the current one; OSError when the disk refuses."""
        if self._directory is None:
            return
        target = self._open
        if target is None or target.size >= self._segment_bytes:
            target = self._new_segment(self._directory)
        if group is not self._current:
            self._put(target, HELLO, 0, encode(group.hello))
        for seq, payload in payloads.items():
            offset = target.size
            self._put(target, EVENT, seq, payload)
            group.places[EVENT][seq] = (target, offset, len(payload))
            target.records.add((group, EVENT, seq))
        if group is not self._current:
            self._put(target, HELLO, 0, self._current_hello)
        self._sync(target)

    def _count_dropped(self, records: int, events: int) -> None:
        self.dropped += records
        self.dropped_events += events

    def _bound_memory(self) -> None:
        limit = min(MEMORY_BYTES, self._max_bytes)
        if self._in_memory <= limit:
            return
        before = self.dropped
        for kind in (BATCH, EVENT):
            for group in self._groups.values():
                for seq, place in list(group.places[kind].items()):
                    if self._in_memory <= limit:
                        break
                    if isinstance(place, bytes):
                        self._forget(group, kind, seq)
                        self._count_dropped(1, kind == EVENT)
        if before == 0:
            log.warning("More than %d bytes wait in memory: the oldest records are dropped until the server takes some.", limit)

    # Opening

    def _lock(self, directory: Path) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock_fd = lock.hold(
                directory / "lock", f"uses the spool {directory}: stop it, or give this one its own directory."
            )
        except lock.HeldError as error:
            raise SpoolHeldError(str(error)) from None
        except OSError as error:
            raise SpoolError(f"the spool {directory} cannot be used: {error.strerror or error}.") from None

    def _recover(self, directory: Path) -> None:
        settled: list[tuple[str, int, int, int]] = []
        for path in sorted(directory.glob("*.spool")):
            self._number = max(self._number, int(path.stem) if path.stem.isdecimal() and path.stem.isascii() else 0)
            try:
                segment = Segment.open(path)
                content = path.read_bytes()
            except OSError as error:
                log.warning("The spool segment %s cannot be read and is left where it is: %s", path, error)
                continue
            try:
                self._recover_segment(segment, content, settled)
            except Exception:  # no file may keep the agent from starting
                self.damaged += 1
                log.exception("The spool segment %s cannot be read to its end; the rest of the spool is kept", path.name)
        for boot, kind, low, high in settled:
            for group in self._groups.values():
                if group.hello.boot == boot:
                    for seq in [seq for seq in group.places[kind] if low <= seq <= high]:
                        self._forget(group, kind, seq)
        self._trim()
        if self.damaged:
            log.warning("The spool had %d damaged or torn stretches; the rest of it is kept.", self.damaged)

    def _recover_segment(self, segment: Segment, content: bytes, settled: list[tuple[str, int, int, int]]) -> None:
        self._segments.append(segment)
        group: Group | None = None
        end = 0
        for offset, kind, seq, payload in records(content):
            if offset != end:
                self.damaged += 1
            end = offset + HEADER_BYTES + len(payload)
            if kind == HELLO:
                group = self._recover_group(payload)
            elif kind == SETTLED:
                try:
                    settled.append(unpack_settled(payload))
                except (msgspec.DecodeError, ValueError):  # whole, and yet no such record
                    self.damaged += 1
            elif kind not in (BATCH, EVENT):
                self.damaged += 1
            elif group is None:
                self._count_dropped(1, kind == EVENT)  # its hello is gone: nobody could read it
            else:
                group.places[kind][seq] = (segment, offset, len(payload))
                segment.records.add((group, kind, seq))
        if end != len(content):
            self.damaged += 1

    def _recover_group(self, payload: bytes) -> Group | None:
        if payload not in self._groups:
            try:
                hello = decode_from_agent(payload)
            except WireError as error:
                log.warning("A hello in the spool is of another version of the agent, its records are dropped: %s", error)
                return None
            if not isinstance(hello, Hello):
                return None
            self._groups[payload] = Group(hello)
        return self._groups[payload]
