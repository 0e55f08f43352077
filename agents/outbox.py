"""The spool as connections see it: frames to send, and what the server's answers settle or refuse."""

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Final

from agents.segment import BATCH, EVENT, Group
from agents.spool import Spool
from wire.codec import MAX_FRAME_BYTES, WireError, decode_from_agent, encode_text

log = logging.getLogger(__name__)

CLOCK: Final = (
    " This node's clock is too far ahead of the server's, too far behind it or was never set, or the record is older than"
    " all that the server keeps: let NTP set both clocks."
)
"""Of samples that are refused as `bad_time`."""


class Outbox:
    """One node's records on their way; outlives connections."""

    def __init__(self, spool: Spool, as_text: bool) -> None:
        self.spool = spool
        self.refused: Counter[str] = Counter()
        """Records that were given up, by the server's code."""
        self.stored = 0
        """Records that the server stored."""
        self._as_text = as_text

    def frame(self, group: Group, kind: int, seq: int) -> bytes | str | None:
        """The frame to send; None when the record is gone, or cannot be read back now, or no server can take it."""
        payload = self.spool.payload(group, kind, seq)
        if payload is None:
            return None
        try:
            frame = encode_text(decode_from_agent(payload)) if self._as_text else payload
        except WireError as error:
            self.refuse(group, kind, seq, error.code)
            return None
        if len(frame) > MAX_FRAME_BYTES:
            self.refuse(group, kind, seq, "too_large")
            return None
        return frame

    def settle(self, group: Group, kind: int, ranges: list[tuple[int, int]]) -> None:
        """The server stored these."""
        self.stored += self.spool.settle(group, kind, ranges)

    def refuse(self, group: Group, kind: int, seq: int, code: str) -> None:
        """The server, or its size limit, will never take this one."""
        if self.spool.settle(group, kind, [(seq, seq)]):
            self.refused[code] += 1
            if self.refused[code] == 1:
                log.warning(
                    "The server refused record %d of %s for good (%s); it is dropped and counted. The node's page lists refusals.%s",
                    seq,
                    group.hello.node,
                    plain(code),
                    CLOCK if code == "bad_time" else "",
                )

    def refuse_largest(self, sent: Iterable[tuple[Group, int, int]]) -> None:
        """The server closed over the size of a frame: it can only be the largest of those under way."""
        sizes = [(len(self.frame(*one) or b""), one[0].hello.boot, *one[1:], one[0]) for one in sent]
        if sizes:
            _, _, kind, seq, group = max(sizes, key=lambda one: one[:4])
            self.refuse(group, kind, seq, "too_large")

    def refuse_all(self, group: Group, code: str) -> None:
        """The server will never take any record of this group."""
        for kind in (BATCH, EVENT):
            for seq in group.pending(kind):
                self.refuse(group, kind, seq, code)


def plain(text: str) -> str:
    """What the server said, fit for a log: no control or format characters, 200 at most."""
    return "".join(character for character in text[:400] if character.isprintable())[:200]
