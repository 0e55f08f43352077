"""What an earlier run of the agent left in the spool's directory, as far as it is whole."""

import logging
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from agents.segment import BATCH, EVENT, HEADER_BYTES, HELLO, SETTLED, Group, Segment, records, unpack_settled
from wire.codec import WireError, decode_from_agent
from wire.messages import Hello

log = logging.getLogger(__name__)


@dataclass
class Recovered:
    """The segments, oldest first, and the groups that their records belong to, by the bytes of their hello."""

    segments: list[Segment] = field(default_factory=list)
    number: int = 0
    """The highest that a file has."""
    groups: dict[bytes, Group] = field(default_factory=dict)
    settled: list[tuple[str, int, int, int]] = field(default_factory=list)
    """(boot, kind, low, high): records that were settled since, and are left out of the groups."""
    damaged: int = 0
    """Stretches of bytes that are no record."""
    orphans: int = 0
    """Records that nobody could read: their hello is gone."""
    orphan_events: int = 0
    """The events among them."""


def recover(directory: Path) -> Recovered:
    """Read every segment. One that cannot be read is left where it is; no file keeps the agent from starting."""
    found = Recovered()
    for path in sorted(directory.glob("*.spool")):
        found.number = max(found.number, int(path.stem) if path.stem.isdecimal() and path.stem.isascii() else 0)
        try:
            segment = Segment.open(path)
            content = path.read_bytes()
        except OSError as error:
            log.warning("The spool segment %s cannot be read and is left where it is: %s", path, error)
            continue
        found.segments.append(segment)
        try:
            _recover_segment(found, segment, content)
        except Exception:
            found.damaged += 1
            log.exception("The spool segment %s cannot be read to its end; the rest of the spool is kept", path.name)
    for boot, kind, low, high in found.settled:
        for group in found.groups.values():
            if group.hello.boot == boot:
                _leave_out(group, kind, low, high)
    if found.damaged:
        log.warning("The spool had %d damaged or torn stretches; the rest of it is kept.", found.damaged)
    return found


def _leave_out(group: Group, kind: int, low: int, high: int) -> None:
    places = group.places[kind]
    for seq in [seq for seq in places if low <= seq <= high]:
        place = places.pop(seq)
        if not isinstance(place, bytes):
            place[0].records.discard((group, kind, seq))


def _recover_segment(found: Recovered, segment: Segment, content: bytes) -> None:
    group: Group | None = None
    end = 0
    for offset, kind, seq, payload in records(content):
        if offset != end:
            found.damaged += 1
        end = offset + HEADER_BYTES + len(payload)
        if kind == HELLO:
            group = _group(found.groups, payload)
        elif kind == SETTLED:
            try:
                found.settled.append(unpack_settled(payload))
            except (msgspec.DecodeError, ValueError):  # whole, and yet no such record
                found.damaged += 1
        elif kind not in (BATCH, EVENT):
            found.damaged += 1
        elif group is None:
            found.orphans += 1
            found.orphan_events += kind == EVENT
        else:
            group.places[kind][seq] = (segment, offset, len(payload))
            segment.records.add((group, kind, seq))
    if end != len(content):
        found.damaged += 1


def _group(groups: dict[bytes, Group], payload: bytes) -> Group | None:
    """The group of a hello; None where this version of the agent cannot read it."""
    if payload not in groups:
        try:
            hello = decode_from_agent(payload)
        except WireError as error:
            log.warning("A hello in the spool is of another version of the agent, its records are dropped: %s", error)
            return None
        if not isinstance(hello, Hello):
            return None
        groups[payload] = Group(hello)
    return groups[payload]
