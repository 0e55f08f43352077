"""What an earlier run of the agent left in the spool's directory, as far as it is whole."""

import logging
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from agents import lock
from agents.segment import BATCH, EVENT, HEADER_BYTES, HELLO, SETTLED, Group, Segment, records, unpack_settled
from agents.seq_ranges import inside
from wire.codec import WireError, decode_from_agent
from wire.messages import Hello

log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"([0-9]{12,15})\.spool")
"""Segments count from 1; a number that no agent reaches is not gone on with."""


class SpoolError(Exception):
    """The spool's directory cannot be used; the message says why."""


class SpoolHeldError(SpoolError):
    """Another agent uses the directory; the message names its pid."""


@dataclass
class Recovered:
    """The segments, oldest first, and the groups that their records belong to, by the bytes of their hello."""

    segments: list[Segment] = field(default_factory=list)
    number: int = 0
    """The highest that a file has."""
    groups: dict[bytes, Group] = field(default_factory=dict)
    settled: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=dict)
    """By boot and kind, inclusive ranges: records that were settled since, and are left out of the groups."""
    damaged: int = 0
    """Stretches of bytes that are no record."""
    orphans: int = 0
    """Records that nobody could read: their hello is gone."""
    orphan_events: int = 0
    """The events among them."""


def take(directory: Path) -> tuple[int, Recovered]:
    """Make the directory and lock it: the lock's descriptor, and what is in it.

    SpoolHeldError while another agent has it, OSError where the disk refuses.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        held = lock.hold(directory / "lock", f"uses the spool {directory}: stop it, or give this one its own directory.")
    except lock.HeldError as error:
        raise SpoolHeldError(str(error)) from None
    try:
        return held, recover(directory)
    except BaseException:
        os.close(held)
        raise


def recover(directory: Path) -> Recovered:
    """Read every segment. One that cannot be read is left where it is; no file keeps the agent from starting."""
    found = Recovered()
    for number, path in _segments(directory):
        found.number = number
        try:
            segment = Segment.open(path)
            try:
                content = segment.content()
            except OSError:
                segment.close()
                raise
        except OSError as error:
            log.warning("The spool segment %s cannot be read and is left where it is: %s", path, error)
            continue
        found.segments.append(segment)
        try:
            _recover_segment(found, segment, content)
        except Exception:
            found.damaged += 1
            log.exception("The spool segment %s cannot be read to its end; the rest of the spool is kept", path.name)
    for group in found.groups.values():
        for kind in (BATCH, EVENT):
            _leave_out(group, kind, found.settled.get((group.hello.boot, kind), []))
    if found.damaged:
        log.warning("The spool had %d damaged or torn stretches; the rest of it is kept.", found.damaged)
    return found


def _segments(directory: Path) -> list[tuple[int, Path]]:
    """(number, path) of the agent's own files, oldest first; whatever else is called `*.spool` is left alone and told of."""
    found, strangers = [], []
    for path in sorted(directory.glob("*.spool")):
        name = _NAME.fullmatch(path.name)
        if name is not None and _is_file(path):
            found.append((int(name[1]), path))
        else:
            strangers.append(repr(path.name[:40]))
    if strangers:
        some = ", ".join(strangers[:3]) + (", ..." if len(strangers) > 3 else "")
        log.warning("%s has %d things that are no files of the spool and are left alone: %s", directory, len(strangers), some)
    return sorted(found)


def _is_file(path: Path) -> bool:
    """False for a folder, a link, a pipe or a device, which nobody opens; where the disk does not say, opening will."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return True


def _leave_out(group: Group, kind: int, ranges: list[tuple[int, int]]) -> None:
    """Take the records of these inclusive ranges out of the group: they were settled."""
    places = group.places[kind]
    for seqs in list(inside(places, ranges)):
        for seq in seqs:
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
                boot, settled, low, high = unpack_settled(payload)
            except (msgspec.DecodeError, ValueError):  # whole, and yet no such record
                found.damaged += 1
            else:
                found.settled.setdefault((boot, settled), []).append((low, high))
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
