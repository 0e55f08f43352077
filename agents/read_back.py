"""Records as the disk gives them back; one that it does not give back twice is given up."""

import time
from typing import Final

from agents.segment import Group, Place

UNREAD_S: Final = 30.0
"""How far apart the two are: a disk may be busy with its errors for a while."""


class LostError(Exception):
    """The record will not come back; the message says why."""


class ReadBack:
    """Which records could not be read once, and since when."""

    def __init__(self) -> None:
        self._since: dict[tuple[Group, int, int], float] = {}

    def read(self, group: Group, kind: int, seq: int, place: Place) -> bytes | None:
        """The record's bytes; None where the disk does not give them back now: ask again in UNREAD_S, which may be a LostError."""
        segment, offset, length = place
        try:
            payload = segment.read(kind, seq, offset, length)
        except OSError as error:
            now = time.monotonic()
            if now - self._since.setdefault((group, kind, seq), now) < UNREAD_S:
                return None
            raise LostError(str(error)) from None
        if payload is None:
            raise LostError("it is damaged")
        self.forget(group, kind, seq)
        return payload

    def forget(self, group: Group, kind: int, seq: int) -> None:
        """The record is gone, or was read."""
        if self._since:
            self._since.pop((group, kind, seq), None)
