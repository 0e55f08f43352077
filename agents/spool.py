"""What the server has not stored yet, on disk and bounded.

Segments are append-only files of records, each with a checksum; the first record of a segment is the hello under which
its batches were made, so that a later run of the agent can still deliver them. What was settled (stored or refused) is a
record too. A torn tail or a damaged record loses itself alone. When the bound is reached the oldest batches are dropped
and counted; events move on to the newest segment, and go only when no batch is left to go in their place. While the disk
refuses, records wait in memory, bounded in the same way, and are written as soon as it takes some again; a full disk does not
keep the agent from starting, nor does one that is read-only for a while, as file systems are after errors of their disk.

Survives the death of the process at any instant. After a loss of power the last seconds may be missing; events are
synced to the disk before they count as kept.
"""

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from agents import lock
from agents.read_back import LostError, ReadBack
from agents.segment import BATCH, EVENT, HELLO, SETTLED, Group, Place, Segment, pack_settled
from agents.segment_files import SegmentFiles
from agents.seq_ranges import inside
from agents.spool_recovery import SpoolError as SpoolError
from agents.spool_recovery import SpoolHeldError as SpoolHeldError
from agents.spool_recovery import take
from wire.codec import encode
from wire.messages import Hello

log = logging.getLogger(__name__)

MEMORY_BYTES: Final = 8 << 20
"""How much waits in memory where there is no disk."""


class Spool:
    """Records until they are settled. `directory` None: in memory alone, lost when the process ends."""

    def __init__(self, directory: Path | None = None, max_bytes: int = 64_000_000) -> None:
        self.dropped = 0
        """Batches and events lost: the bound was reached, or the disk did not give them back."""
        self.dropped_events = 0
        """The events among them."""
        self.unreadable = 0
        """Those among all of them that the disk did not give back."""
        self.write_errors = 0
        """Records that the disk refused."""
        self.damaged = 0
        """Stretches of bytes that were no record when the spool was opened."""
        self._directory = directory
        self._max_bytes = max_bytes
        self._files = SegmentFiles(directory, max(4096, min(1 << 20, max_bytes // 8)))
        self._groups: dict[bytes, Group] = {}
        self._current: Group | None = None
        self._current_hello = b""
        self._read_back = ReadBack()
        self._in_memory = 0
        self._failing = False
        self._lock_fd: int | None = None
        if directory is not None:
            self._open(directory)

    def begin(self, hello: Hello) -> Group:
        """Make `hello` the one under which later records are made; its group."""
        payload = encode(hello)
        self._files.roll()
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
            place[0].try_to_sync()
        if self._in_memory:
            self._write_waiting()
        self._bound_disk()

    def payload(self, group: Group, kind: int, seq: int) -> bytes | None:
        """The bytes of one pending record; None when it was settled or dropped meanwhile, or cannot be read back.

        One that is pending afterwards the disk does not give back now; the next one to be asked for it may have it, or gives it up.
        """
        place = group.places[kind].get(seq)
        if place is None or isinstance(place, bytes):
            return place
        try:
            return self._read_back.read(group, kind, seq, place)
        except LostError as error:
            self._forget(group, kind, seq)
            self.dropped += 1
            self.dropped_events += kind == EVENT
            self.unreadable += 1
            if self.unreadable == 1:
                log.warning(
                    "A record of %s cannot be read back; it and those like it are dropped and counted: %s", place[0].path, error
                )
            return None

    def settle(self, group: Group, kind: int, ranges: Iterable[tuple[int, int]]) -> int:
        """Forget the records in these inclusive ranges; how many there were."""
        places, count = group.places[kind], 0
        for found in list(inside(places, ranges)):
            if any(not isinstance(places[seq], bytes) for seq in found):
                # no further than what is there: a later record of the range is not settled by this
                self._write(SETTLED, 0, pack_settled(group.hello.boot, kind, found[0], found[-1]))
            for seq in found:
                self._forget(group, kind, seq)
            count += len(found)
        return count

    def close(self) -> None:
        """Close the files; what is not settled stays on disk."""
        if self._in_memory and self._lock_fd is not None:
            self._write_waiting()
        self._files.close()
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
        return self._files.size + self._in_memory

    # Writing

    def _write(self, kind: int, seq: int, payload: bytes) -> Place | None:
        """Append one record; None when the disk refused it."""
        if self._directory is None:
            return None
        try:
            if self._lock_fd is None:
                self._take(self._directory)
            segment = self._files.open_under(self._current_hello)
            offset = segment.size
            self._files.put(segment, kind, seq, payload)
        except (OSError, SpoolHeldError) as error:
            self.write_errors += 1
            self._say_failing(error)
            return None
        if self._failing:
            self._failing = False
            log.warning("The spool %s takes records again; %d so far had to wait in memory.", self._directory, self.write_errors)
        return segment, offset, len(payload)

    def _say_failing(self, error: Exception) -> None:
        if not self._failing:
            self._failing = True
            log.error("The spool %s refuses records, which wait in memory meanwhile: %s", self._directory, error)

    def _write_waiting(self) -> None:
        """Write what had to wait in memory, events first; what the disk still refuses waits on."""
        for kind in (EVENT, BATCH):
            for group in list(self._groups.values()):
                waiting = {seq: place for seq, place in sorted(group.places[kind].items()) if isinstance(place, bytes)}
                try:
                    self._append_under(group, kind, waiting)
                except OSError:
                    if group is not self._current:
                        self._files.give_up_open()  # it may end under another hello than the current one
                    return
                finally:
                    self._in_memory -= sum(
                        len(payload) for seq, payload in waiting.items() if group.places[kind][seq] is not payload
                    )

    # Forgetting

    def _forget(self, group: Group, kind: int, seq: int) -> None:
        place = group.places[kind].pop(seq, None)
        self._read_back.forget(group, kind, seq)
        if isinstance(place, bytes):
            self._in_memory -= len(place)
        elif place is not None:
            place[0].records.discard((group, kind, seq))
            self._files.trim()

    def _bound_disk(self) -> None:
        while self._files.count > 1 and self._files.size > self._max_bytes:
            segment = self._files.to_drop()
            if segment.has_batch:
                self._carry_events(segment)
            lost = len(segment.records)
            if lost:
                self.dropped += lost
                self.dropped_events += sum(kind == EVENT for _, kind, _ in segment.records)
                log.warning("The spool is full: its %d oldest records were dropped (%d so far).", lost, self.dropped)
            for group, kind, seq in segment.records:
                group.places[kind].pop(seq, None)
                self._read_back.forget(group, kind, seq)
            segment.records.clear()
            self._files.remove(segment)

    def _carry_events(self, segment: Segment) -> None:
        """Move the events of a segment to the newest one, each boot's under its own hello; to memory where the disk refuses."""
        events: dict[Group, list[int]] = {}
        for group, kind, seq in segment.records:
            if kind == EVENT:
                events.setdefault(group, []).append(seq)
        for group, seqs in events.items():
            payloads = {seq: payload for seq in sorted(seqs) if (payload := self.payload(group, EVENT, seq)) is not None}
            try:
                self._append_under(group, EVENT, payloads)
            except OSError:
                self.write_errors += 1
                self._files.give_up_open()  # it may end under another hello than the current one
                for seq, payload in payloads.items():
                    if group.places[EVENT][seq] is not payload and group.places[EVENT][seq][0] is segment:
                        self._in_memory += len(payload)
                        group.places[EVENT][seq] = payload
            segment.records.difference_update((group, EVENT, seq) for seq in payloads)
        self._bound_memory()

    def _append_under(self, group: Group, kind: int, payloads: dict[int, bytes]) -> None:
        """Append records of a group, each segment's between its hello and the current one; OSError when the disk refuses."""
        if self._directory is None or not payloads:
            return
        target: Segment | None = None
        for seq, payload in payloads.items():
            following = self._files.open_under(self._current_hello)
            if following is not target:
                target = following
                if group is not self._current:
                    self._files.put(target, HELLO, 0, encode(group.hello))
            offset = target.size
            self._files.put(target, kind, seq, payload)
            group.places[kind][seq] = (target, offset, len(payload))
            target.records.add((group, kind, seq))
        if target is not None:
            if group is not self._current:
                self._files.put(target, HELLO, 0, self._current_hello)
            target.try_to_sync()

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
                        self.dropped += 1
                        self.dropped_events += kind == EVENT
        if before == 0:
            log.warning("More than %d bytes wait in memory: the oldest records are dropped until the server takes some.", limit)

    # Opening

    def _open(self, directory: Path) -> None:
        try:
            self._take(directory)
        except OSError as error:
            if error.errno not in lock.PASSING:
                raise SpoolError(f"the spool {directory} cannot be used: {error.strerror or error}.") from None
            self._say_failing(error)

    def _take(self, directory: Path) -> None:
        """Make the directory and lock it, and go on with what an earlier run left in it; OSError where the disk refuses."""
        self._lock_fd, found = take(directory)
        self._files.take(found.segments, found.number)
        self._groups = found.groups | self._groups
        self.damaged = found.damaged
        self.dropped += found.orphans
        self.dropped_events += found.orphan_events
        self._files.trim()
