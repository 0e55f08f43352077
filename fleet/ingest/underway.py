"""Groups of chunks that the store takes or has taken, in the order in which they were sent, until they are known to be durable."""

from fleet.ingest.columns import Chunk


class Underway:
    """Owned by the event loop. A group is known by its list, which its sender alone changes while it is underway."""

    def __init__(self) -> None:
        self._groups: list[list[Chunk]] = []

    def add(self, group: list[Chunk]) -> None:
        """It is sent after all others."""
        self._groups.append(group)

    def has(self, group: list[Chunk]) -> bool:
        """False once it has ended, or was recalled."""
        return any(one is group for one in self._groups)

    def end(self, group: list[Chunk]) -> None:
        """It is durable, or there is another end to it."""
        self._groups = [one for one in self._groups if one is not group]

    def recall(self, group: list[Chunk]) -> list[Chunk]:
        """What is to be sent again where this group may be lost: it, and after it all that was sent since.

        Of a second that two groups tell of, the last word is to be sent last.
        """
        first = next(place for place, one in enumerate(self._groups) if one is group)
        self._groups, again = self._groups[:first], self._groups[first:]
        return [chunk for one in again for chunk in one]
