"""Memory that several endpoints share: each may always have a little, and more while there is some that nobody else holds."""

import threading
from types import TracebackType
from typing import Final

OWN_BYTES: Final = 500_000
"""What each endpoint may always hold: an engine of one replica takes 200 KB."""


class NoRoomError(Exception):
    """There is no room for more; the message is a sentence."""


class Room:
    """`total` bytes for all endpoints together, above what is each one's own; one of them may hold `most`."""

    def __init__(self, total: int, most: int) -> None:
        self.total = total
        self.most = most
        self._left = total
        self._lock = threading.Lock()

    def move(self, before: int, now: int) -> bool:
        """Hold `now` bytes in place of `before`; False where there is no room for it, and nothing is changed."""
        more = max(0, now - OWN_BYTES) - max(0, before - OWN_BYTES)
        with self._lock:
            if more > self._left:
                return False
            self._left -= more
        return True


class Holding:
    """What one endpoint holds, in bytes as they are reckoned; given back with the block, or by `shrink`."""

    def __init__(self, room: Room) -> None:
        self.bytes = 0
        self._room = room

    def grow(self, by: int) -> None:
        """Hold so much more; NoRoomError where that is too much."""
        now = self.bytes + by
        if now > self._room.most:
            raise NoRoomError(f"The answer takes more than {self._room.most / 1e6:.0f} MB of memory, which is not read.")
        if not self._room.move(self.bytes, now):
            raise NoRoomError("All answers together take more memory than there is for them; this one is not read.")
        self.bytes = now

    def shrink(self, to: int) -> None:
        """Hold no more than that."""
        if to < self.bytes:
            self._room.move(self.bytes, to)
            self.bytes = to

    def __enter__(self) -> "Holding":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.shrink(0)
