"""The spool's segments in their directory, oldest first; records go into the one that is open."""

from collections.abc import Iterable
from pathlib import Path

from agents.segment import HELLO, Segment


class SegmentFiles:
    """`segment_bytes`: where a segment ends and the next begins. `directory` None: there is no disk, and no segment."""

    def __init__(self, directory: Path | None, segment_bytes: int) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._segments: list[Segment] = []
        self._open: Segment | None = None
        self._number = 0

    def take(self, segments: Iterable[Segment], number: int) -> None:
        """Begin with what an earlier run left; `number` is the highest that one of its files has."""
        self._segments = list(segments)
        self._number = number

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._segments)

    @property
    def size(self) -> int:
        """Their bytes."""
        return sum(segment.size for segment in self._segments)

    def open_under(self, hello: bytes) -> Segment:
        """The segment for the next record, with `hello` first where it is a new one; OSError when the disk refuses."""
        if self._open is not None and self._open.size >= self._segment_bytes:
            self.roll()
        if self._open is None:
            self._open = self._new(hello)
        return self._open

    def put(self, segment: Segment, kind: int, seq: int, payload: bytes) -> None:
        """Append a record; OSError when the disk refuses. Nothing follows one that was written in part."""
        try:
            segment.append(kind, seq, payload)
        except OSError:
            if segment.is_torn:
                self.roll()
            raise

    def roll(self) -> None:
        """End the open segment."""
        self._open = None
        self.trim()

    def give_up_open(self) -> None:
        """Put no more records into the open segment, and delete nothing."""
        self._open = None

    def trim(self) -> None:
        """Delete the oldest segments that have nothing left. Later ones wait: they note what was settled in older ones."""
        while self._segments and self._segments[0] is not self._open and not self._segments[0].records:
            self.remove(self._segments[0])

    def remove(self, segment: Segment) -> None:
        """Delete one, where it is still there."""
        if segment in self._segments:
            self._segments.remove(segment)
            segment.remove()

    def to_drop(self) -> Segment:
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

    def close(self) -> None:
        """Close all; those with records stay on disk."""
        self.roll()
        for segment in self._segments:
            segment.close()
        self._segments = []

    def _new(self, hello: bytes) -> Segment:
        if self._directory is None or not hello:
            raise OSError(22, "no directory, or no hello yet")
        self._number += 1
        segment = Segment.create(self._directory / f"{self._number:012d}.spool")
        try:
            segment.append(HELLO, 0, hello)
        except OSError:
            segment.remove()
            raise
        self._segments.append(segment)
        return segment
