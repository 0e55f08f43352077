"""Where a job's GPUs could be had: nodes ranked, each with why, and why the others were left out.

A GPU is free when no open allocation holds it and no process is seen on it. Cards that are split into MIG instances are not whole GPUs,
and are not offered. Nothing is reserved: two that ask at the same time get the same answer.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

import polars as pl
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext, ngettext

from fleet.health import states
from fleet.health.signs import Sign, Signs, State, events, findings
from fleet.inventory.models import Gpu, Node
from fleet.jobs.devices import stands_for
from fleet.jobs.models import Allocation
from fleet.store import clock

WHYS: Final = ("model", "unknown", "drain", "avoid", "nvlink", "held", "busy", "power")
"""Why a node is left out, in the order in which it is asked."""
BRIDGED: Final = ("PCIe", "NVL")
"""Parts of the names of cards that bridges join in pairs or fours; which ones, NVML does not tell."""
NAMED: Final = 20
"""Nodes that are named beside a reason."""
_AT_ONCE: Final = 32
_LATEST_S: Final = 60
_GONE_S: Final = 10
"""A process that was not seen for so long, while its GPU was, is gone."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a job needs on each node."""

    gpus: int = 1
    model: str = ""
    one_nvlink_domain: bool = False
    healthy: bool = True
    power_headroom_w: float | None = None
    limit: int = 10


@dataclass(frozen=True, slots=True)
class Place:
    """A node that fits, with the GPUs to take."""

    node: Node
    state: State
    gpus: tuple[Gpu, ...]
    free_total: int
    power_headroom_w: float | None
    """The least of its GPUs'; None where it was not asked for."""
    reasons: tuple[str, ...]


@dataclass(slots=True)
class LeftOut:
    """Nodes that do not fit, of one reason."""

    why: str
    nodes_total: int = 0
    nodes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Answer:
    """The best places first. `fits_total`: nodes that would do, but for what is only looked at for the best (processes, power)."""

    places: tuple[Place, ...]
    fits_total: int
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    """One node's GPUs of the model, counted."""

    node: Node
    total: int
    linked: int
    free: int
    sick: frozenset[int]
    unnamed: int
    state: State


_Why: TypeAlias = dict[str, LeftOut]


def place(wanted: Wanted, at: datetime) -> Answer:
    """Where `wanted` fits now. StoreError when the store cannot be read."""
    why: _Why = {name: LeftOut(name) for name in WHYS}
    fitting = [row for row in _rows(wanted, at) if _fits(row, wanted, why)]
    fitting.sort(key=lambda row: (row.state != "usable", row.free - wanted.gpus, row.node.name))
    found: list[Place] = []
    for first in range(0, len(fitting), _AT_ONCE):
        if len(found) >= wanted.limit:
            break
        found += _places(fitting[first : first + _AT_ONCE], wanted, why, int(at.timestamp()))
    found.sort(key=lambda one: (one.state != "usable", one.free_total, -(one.power_headroom_w or 0.0), one.node.name))
    return Answer(tuple(found[: wanted.limit]), len(fitting), tuple(one for one in why.values() if one.nodes_total))


def _leave(why: _Why, name: str, node: Node) -> None:
    one = why[name]
    one.nodes_total += 1
    if len(one.nodes) < NAMED:
        one.nodes.append(node.name)


def _cards(wanted: Wanted) -> QuerySet[Gpu]:
    rows = Gpu.objects.filter(present=True, parent_uuid="").exclude(mig_mode=True)
    return rows.filter(model__icontains=wanted.model) if wanted.model else rows


def _linked() -> Q:
    linked = Q(nvlink_links__gt=0)
    for part in BRIDGED:
        linked &= ~Q(model__contains=part)
    return linked


def _rows(wanted: Wanted, at: datetime) -> Iterable[_Row]:
    """Every node, with its GPUs counted by the database: a row a GPU would be the fleet's size in each request."""
    held = Exists(Allocation.objects.filter(gpu=OuterRef("pk"), until_at=None))
    free = ~held & _linked() if wanted.one_nvlink_domain else ~held
    counted = {
        row["node"]: row
        for row in _cards(wanted).order_by().values("node").annotate(
            total=Count("pk"), linked=Count("pk", filter=_linked()), free=Count("pk", filter=free)
        )
    }  # fmt: skip
    nodes = list(Node.objects.only("name", "last_seen_at", "recording").order_by("name"))
    signs = _signs(nodes, at)
    sick, drained = _sick(wanted, signs)
    unnamed = _unnamed()
    none = {"total": 0, "linked": 0, "free": 0}
    for node in nodes:
        row = counted.get(node.pk, none)
        mine = sick.get(node.pk, {})
        yield _Row(
            node,
            total=row["total"],
            linked=row["linked"],
            free=row["free"] - (sum(mine.values()) if wanted.healthy else 0),
            sick=frozenset(mine),
            unnamed=unnamed.get(node.pk, 0),
            state=_state(node, signs.nodes.get(node.pk, ()), node.pk in drained, at),
        )


def _signs(nodes: Collection[Node], at: datetime) -> Signs:
    found = findings(None, texts=False)
    for more in (events(None, at), states.maintenance(nodes, at)):
        for key, signs in more.nodes.items():
            found.nodes.setdefault(key, []).extend(signs)
        for key, signs in more.gpus.items():
            found.gpus.setdefault(key, []).extend(signs)
    return found


def _sick(wanted: Wanted, signs: Signs) -> tuple[dict[int, dict[int, bool]], set[int]]:
    """By node its GPUs that something speaks against, with whether they would count as free, and the nodes to drain for one of them."""
    keys = list(signs.gpus)
    found: dict[int, dict[int, bool]] = {}
    drained: set[int] = set()
    for first in range(0, len(keys), 500):
        part = keys[first : first + 500]
        held = set(Allocation.objects.filter(gpu__in=part, until_at=None).values_list("gpu", flat=True))
        counted = set(_cards(wanted).filter(pk__in=part).values_list("pk", flat=True))
        for pk, node in Gpu.objects.filter(pk__in=part, present=True).values_list("pk", "node_id"):
            if pk in counted:
                found.setdefault(node, {})[pk] = pk not in held
            if states.worst(signs.gpus[pk]) == "drain":
                drained.add(node)
    return found, drained


def _unnamed() -> dict[int, int]:
    """By node how many GPUs are given to jobs without anybody knowing which."""
    found: dict[int, int] = {}
    for node, device in Allocation.objects.filter(until_at=None, gpu=None).exclude(node=None).values_list("node_id", "device"):
        found[node] = found.get(node, 0) + stands_for(device)
    return found


def _state(node: Node, own: Iterable[Sign], has_drained: bool, at: datetime) -> State:
    silent = states.silence(node, at)
    found = states.worst([*own, *([silent] if silent is not None else [])])
    return "drain" if has_drained else found


def _fits(row: _Row, wanted: Wanted, why: _Why) -> bool:
    if row.total < wanted.gpus:
        left = "model"
    elif row.state in ("unknown", "drain"):
        left = row.state
    elif row.state == "avoid" and wanted.healthy:
        left = "avoid"
    elif wanted.one_nvlink_domain and row.linked < wanted.gpus:
        left = "nvlink"
    elif row.free - row.unnamed < wanted.gpus:
        left = "avoid" if wanted.healthy and row.free - row.unnamed + len(row.sick) >= wanted.gpus else "held"
    else:
        return True
    _leave(why, left, row.node)
    return False


def _places(rows: Collection[_Row], wanted: Wanted, why: _Why, now: int) -> list[Place]:
    """Those of a few nodes that fit when their processes and their power are looked at, too."""
    cards = _cards(wanted).filter(node__in=[row.node.pk for row in rows])
    if wanted.one_nvlink_domain:
        cards = cards.filter(_linked())
    cards = cards.exclude(Exists(Allocation.objects.filter(gpu=OuterRef("pk"), until_at=None)))
    by_node: dict[int, list[Gpu]] = {}
    for gpu in cards.order_by("index", "pk"):
        by_node.setdefault(gpu.node_id, []).append(gpu)
    keys = [gpu.pk for gpus in by_node.values() for gpu in gpus]
    busy, power = _seen(keys, now)
    found = []
    for row in rows:
        free = [gpu for gpu in by_node.get(row.node.pk, ()) if not (wanted.healthy and gpu.pk in row.sick)]
        idle = [gpu for gpu in free if gpu.pk not in busy]
        if len(idle) - row.unnamed < wanted.gpus:
            _leave(why, "busy", row.node)
            continue
        room = {
            gpu.pk: gpu.power_limit_w - watts
            for gpu in idle
            if gpu.power_limit_w is not None and (watts := power.get(gpu.pk)) is not None
        }
        if wanted.power_headroom_w is not None:
            idle = [gpu for gpu in idle if room.get(gpu.pk, -1.0) >= wanted.power_headroom_w]
            if len(idle) - row.unnamed < wanted.gpus:
                _leave(why, "power", row.node)
                continue
        taken = _chosen(idle, wanted.gpus)
        least = min((room[gpu.pk] for gpu in taken), default=None) if wanted.power_headroom_w is not None else None
        found.append(
            Place(row.node, row.state, taken, len(idle) - row.unnamed, least, tuple(_reasons(row, taken, idle, wanted, least)))
        )
    return found


def _seen(keys: Collection[int], now: int) -> tuple[set[int], Mapping[int, float]]:
    """The GPUs on which a process is seen, and what each draws."""
    if not keys:
        return set(), {}
    gpus = clock.latest("gpu", now - _LATEST_S, keys, ["power_w"])
    processes = clock.latest("process", now - _LATEST_S, keys, [])
    newest: dict[int, int] = dict(gpus.select("entity", "ts").iter_rows())
    seen: dict[int, int] = dict(processes.group_by("entity").agg(pl.col("ts").max()).iter_rows())
    busy = {entity for entity, ts in seen.items() if ts >= newest.get(entity, ts) - _GONE_S}
    return busy, {entity: watts for entity, watts in gpus.select("entity", "power_w").iter_rows() if watts is not None}


def _chosen(idle: list[Gpu], count: int) -> tuple[Gpu, ...]:
    """On one NUMA node where one has enough, on the one that has the fewest; else by index."""
    by_numa: dict[int, list[Gpu]] = {}
    for gpu in idle:
        if gpu.numa_node is not None:
            by_numa.setdefault(gpu.numa_node, []).append(gpu)
    enough = [gpus for gpus in by_numa.values() if len(gpus) >= count]
    return tuple(min(enough, key=len, default=idle)[:count])


def _reasons(row: _Row, taken: tuple[Gpu, ...], idle: list[Gpu], wanted: Wanted, least: float | None) -> Iterable[str]:
    free = len(idle) - row.unnamed
    says = ngettext(
        "{free} of its {total} GPU of this model is free.", "{free} of its {total} GPUs of this model are free.", row.total
    )
    yield says.format(free=free, total=row.total)
    left = free - wanted.gpus
    if left:
        yield ngettext("{left} free GPU would be left over.", "{left} free GPUs would be left over.", left).format(left=left)
    else:
        yield gettext("No free GPU would be left over.")
    if row.unnamed:
        says = ngettext(
            "{n} GPU is given to a job that does not say which: it may be one of those listed.",
            "{n} GPUs are given to jobs that do not say which: they may be among those listed.",
            row.unnamed,
        )
        yield says.format(n=row.unnamed)
    if wanted.one_nvlink_domain:
        yield gettext("NVLink joins all of them.")
    if len(taken) > 1 and len({gpu.numa_node for gpu in taken}) == 1 and taken[0].numa_node is not None:
        yield gettext("All of them are on NUMA node {node}.").format(node=taken[0].numa_node)
    if least is not None:
        yield gettext("Each may draw at least {watts:.0f} W more than now.").format(watts=least)
    if row.state == "usable":
        yield gettext("Nothing speaks against the node.")
    else:
        yield gettext("The node should be avoided; its health says why.")
