"""Lists of nodes as Slurm writes them (`gpu[01-04,7],login1`), read into names, and the nodes that are meant."""

import re
from collections.abc import Iterable
from itertools import product
from typing import Final

from django.core.exceptions import ValidationError
from django.utils.translation import gettext

from fleet.accounts.models import node_name
from fleet.inventory.models import Node
from fleet.jobs.devices import DeviceError

MOST_HOSTS: Final = 4096
"""In one list."""
_NOBODY: Final = frozenset({"", "(null)", "none assigned", "n/a"})
_HOST: Final = re.compile(r"[^,\[\]]*(?:\[[^\[\]]*\][^,\[\]]*)*")
_PART: Final = re.compile(r"\[([^\[\]]*)\]")
_NUMBERS: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def hosts(told: str) -> tuple[str, ...]:
    """The names in a list, each once, in its order; a range keeps its leading zeros. DeviceError for what is no list of nodes."""
    if told.strip().lower() in _NOBODY:
        return ()
    found: dict[str, None] = {}
    place = spelled = 0
    text = told.strip()
    while place <= len(text):
        one = _HOST.match(text, place)
        if one is None or (one.end() < len(text) and text[one.end()] != ","):
            raise DeviceError(_no_list(told))
        for name in _names(one[0].strip(), told):
            found[name] = None
            spelled += 1  # also what is named again: a short text of ranges could go on for hours
            if spelled > MOST_HOSTS:
                raise DeviceError(_too_many())
        place = one.end() + 1
    return tuple(found)


def _names(one: str, told: str) -> Iterable[str]:
    pieces = _PART.split(one)  # texts and the insides of brackets, by turns
    choices, names = [], 1
    for place, piece in enumerate(pieces):
        choices.append([piece] if place % 2 == 0 else _numbers(piece, told))
        names *= len(choices[-1])
        if names > MOST_HOSTS:
            raise DeviceError(_too_many())
    for chosen in product(*choices):
        name = "".join(chosen)
        try:
            node_name(name)
        except ValidationError:
            raise DeviceError(_no_list(told)) from None
        yield name


def _numbers(piece: str, told: str) -> list[str]:
    found: list[str] = []
    for part in piece.split(","):
        ends = _NUMBERS.fullmatch(part.strip())
        if ends is None:
            raise DeviceError(_no_list(told))
        first, last = ends[1], ends[2] or ends[1]
        if not int(first) <= int(last) < int(first) + MOST_HOSTS:
            raise DeviceError(_no_list(told))
        if len(found) + int(last) - int(first) >= MOST_HOSTS:
            raise DeviceError(_too_many())
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found


def _too_many() -> str:
    return gettext("A list names at most {most} nodes.").format(most=MOST_HOSTS)


def _no_list(told: str) -> str:
    says = gettext("{nodes} is no list of nodes: write names with commas, or ranges as Slurm does (gpu[01-04,7]).")
    return says.format(nodes=told[:60])


def nodes(names: Iterable[str]) -> dict[str, Node]:
    """The nodes of these names, by the name told: first the very name, then whatever its case, then with or without its domain.

    A scheduler may leave the domain out, or tell it, and write in capitals what the node does not: then the only one that fits is meant.
    """
    wanted = list(dict.fromkeys(names))
    found = {node.name: node for part in _parts(wanted) for node in Node.objects.filter(name__in=part)}
    known = {name: found[name] for name in wanted if name in found}
    missing = [name for name in wanted if name not in known]
    if missing:
        known |= _spelled_otherwise(missing)
    return known


def _spelled_otherwise(names: list[str]) -> dict[str, Node]:
    by_name: dict[str, list[str]] = {}
    by_short: dict[str, list[str]] = {}
    for name in Node.objects.order_by().values_list("name", flat=True):
        by_name.setdefault(name.lower(), []).append(name)
        by_short.setdefault(name.lower().partition(".")[0], []).append(name)
    meant = {}
    for name in names:
        low = name.lower()
        there = by_name.get(low) or by_short.get(low.partition(".")[0], [])
        # gpu1 is gpu1.site, and gpu1.site is gpu1; gpu1.here is not gpu1.there
        if len(there) == 1 and (there[0].lower() == low or not ("." in name and "." in there[0])):
            meant[name] = there[0]
    rows = {node.name: node for part in _parts(list(meant.values())) for node in Node.objects.filter(name__in=part)}
    return {name: rows[there] for name, there in meant.items() if there in rows}


def _parts(names: list[str]) -> Iterable[list[str]]:
    return (names[first : first + 500] for first in range(0, len(names), 500))
