"""What is to be sent of one hello's records over one connection, in which order, and what is under way."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from agents.read_back import UNREAD_S
from agents.segment import BATCH, EVENT, Group

IN_FLIGHT: Final = 256
"""Old batches wait while so many are not acked."""
UNANSWERED_S: Final = 120.0
"""A record that was neither stored nor refused for so long is sent again; the server keeps one of the two."""


class Lane:
    """The records of one group: events first, then fresh batches, then the backlog."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.events: deque[int] = deque(group.pending(EVENT))
        self.fresh: deque[int] = deque()
        self.backlog: deque[int] = deque(group.pending(BATCH))
        self.in_flight: dict[tuple[int, int], float] = {}
        """(kind, seq): the monotonic second at which it was sent, oldest first."""
        self.unread: dict[tuple[int, int], float] = {}
        """Likewise those that the disk did not give back, since when."""
        self.is_welcome = False
        """The server took its hello."""
        self.hello_at = float("-inf")

    @property
    def has_any(self) -> bool:
        """True while a record waits to be sent."""
        return bool(self.events or self.fresh or self.backlog)

    @property
    def is_full(self) -> bool:
        """True while old batches have to wait for acks."""
        return len(self.in_flight) >= IN_FLIGHT

    def take_new(self) -> Iterator[tuple[int, int]]:
        """(kind, seq) of all events, then of all fresh batches, those that come meanwhile too; they wait no more."""
        while self.events:
            yield EVENT, self.events.popleft()
        while self.fresh:
            yield BATCH, self.fresh.popleft()

    def offer(self, kind: int, seq: int) -> None:
        """A new record."""
        (self.events if kind == EVENT else self.fresh).append(seq)

    def put_back(self, kind: int, seq: int) -> None:
        """Send it again, where it is under way."""
        if self.in_flight.pop((kind, seq), None) is not None:
            self._wait(kind, seq)

    def send_again(self, now: float) -> None:
        """Put back what got no answer until monotonic second `now`, and what is to be asked of the disk again."""
        for passed, seconds in ((self.in_flight, UNANSWERED_S), (self.unread, UNREAD_S)):
            for key, at in list(passed.items()):
                if now - at < seconds:
                    break  # in the order of sending
                del passed[key]
                self._wait(*key)

    def _wait(self, kind: int, seq: int) -> None:
        (self.events if kind == EVENT else self.backlog).append(seq)

    def forget_settled(self, kind: int) -> None:
        """Records that the spool has settled are under way no more."""
        places = self.group.places[kind]
        for key in [key for key in self.in_flight if key[0] == kind and key[1] not in places]:
            del self.in_flight[key]
