"""Where a job's GPUs could be had: nodes ranked, each with why, and why the others were left out.

A GPU is free when no open allocation holds it and no process is seen on it. Cards that are split into MIG instances are not whole GPUs,
and are not offered. Nothing is reserved: two that ask at the same time get the same answer.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext, ngettext

from fleet.health import states
from fleet.health.needs import WHYS, Answer, LeftOut, Place, Wanted
from fleet.health.signs import State, events, states_by_findings, worse
from fleet.inventory.models import STALE_AFTER, Gpu, Node
from fleet.jobs.devices import stands_for
from fleet.jobs.models import Allocation
from fleet.store import clock

BRIDGED: Final = ("PCIe", "NVL")
"""Parts of the names of cards that bridges join in pairs or fours; which ones, NVML does not tell."""
NAMED: Final = 20
"""Nodes that are named beside a reason."""
_FIRST: Final = 16
MOST_LOOKED_AT: Final = 128
"""Nodes of which processes and power are looked at: the best of those that fit otherwise."""
_LATEST_S: Final = 60
_SEEN_S: Final = 20
"""A process that was seen within so long is there: agents send each second, and are stored some seconds later."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One node's GPUs of the model, counted."""

    node: int
    name: str
    total: int
    linked: int
    free: int
    sick: frozenset[int]
    unnamed: int
    state: State


@dataclass(frozen=True, slots=True)
class _Idle:
    """One node's GPUs that would do, by id; the most power that so many of them have left."""

    row: _Row
    gpus: tuple[int, ...]
    free_total: int
    headroom_w: float | None
    room: Mapping[int, float]


_Why: TypeAlias = dict[str, LeftOut]


def place(wanted: Wanted, at: datetime) -> Answer:
    """Where `wanted` fits now. StoreError when the store cannot be read."""
    why: _Why = {name: LeftOut(name) for name in WHYS}
    fitting = [row for row in _rows(wanted, at) if _fits(row, wanted, why)]
    fitting.sort(key=lambda row: (row.state != "usable", row.free - wanted.gpus, row.name))
    looked_at = fitting[: max(MOST_LOOKED_AT, wanted.limit)]
    first = max(_FIRST, wanted.limit)
    found: list[_Idle] = []
    for part in (looked_at[:first], looked_at[first:]):
        if part and len(found) < wanted.limit:
            found += _idle(part, wanted, why, int(at.timestamp()))
    found.sort(key=lambda one: (one.row.state != "usable", one.free_total, -(one.headroom_w or 0.0), one.row.name))
    left_out = tuple(one for one in why.values() if one.nodes_total)
    return Answer(tuple(_places(found[: wanted.limit], wanted)), len(fitting), left_out)


def _leave(why: _Why, name: str, row: _Row) -> None:
    one = why[name]
    one.nodes_total += 1
    if len(one.nodes) < NAMED:
        one.nodes.append(row.name)


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
    wants = {"total": Count("pk"), "free": Count("pk", filter=~held & _linked() if wanted.one_nvlink_domain else ~held)}
    if wanted.one_nvlink_domain:
        wants["linked"] = Count("pk", filter=_linked())
    rows: Any = _cards(wanted).order_by().values("node").annotate(**wants)
    counted = {row["node"]: row for row in rows}
    names = dict(Node.objects.order_by("name").values_list("pk", "name"))
    fresh = set(Node.objects.filter(last_seen_at__gte=at - STALE_AFTER).order_by().values_list("pk", flat=True))
    of_nodes, of_gpus = _states(names, at)
    sick = _sick(wanted, of_gpus, of_nodes)
    unnamed = _unnamed()
    none = {"total": 0, "free": 0}
    for pk, name in names.items():
        row = counted.get(pk, none)
        mine = sick.get(pk, {})
        yield _Row(
            pk,
            name,
            total=row["total"],
            linked=row.get("linked", row["total"]),
            free=row["free"] - (sum(mine.values()) if wanted.healthy else 0),
            sick=frozenset(mine),
            unnamed=unnamed.get(pk, 0),
            state=worse(of_nodes.get(pk, "usable"), "usable" if pk in fresh else "unknown"),
        )


def _states(names: Mapping[int, str], at: datetime) -> tuple[dict[int, State], dict[int, State]]:
    """By node and by GPU, of those that something speaks against."""
    nodes, gpus = states_by_findings()
    for more in (events(None, at), states.maintenance(names, at)):
        for of, told in ((nodes, more.nodes), (gpus, more.gpus)):
            for key, signs in told.items():
                for sign in signs:
                    of[key] = worse(of.get(key, "usable"), sign.state)
    return nodes, gpus


def _sick(wanted: Wanted, of_gpus: Mapping[int, State], of_nodes: dict[int, State]) -> dict[int, dict[int, bool]]:
    """By node its GPUs that something speaks against, with whether they would count as free. For a GPU to drain its node is drained."""
    keys = list(of_gpus)
    found: dict[int, dict[int, bool]] = {}
    for first in range(0, len(keys), 500):
        part = keys[first : first + 500]
        held = set(Allocation.objects.filter(gpu__in=part, until_at=None).values_list("gpu", flat=True))
        counted = set(_cards(wanted).filter(pk__in=part).values_list("pk", flat=True))
        for pk, node in Gpu.objects.filter(pk__in=part).order_by().values_list("pk", "node_id"):
            if pk in counted:
                found.setdefault(node, {})[pk] = pk not in held
            if of_gpus[pk] == "drain":  # one that fell off the bus is not listed any more
                of_nodes[node] = "drain"
    return found


def _unnamed() -> dict[int, int]:
    """By node how many GPUs are given to jobs without anybody knowing which."""
    found: dict[int, int] = {}
    for node, device in Allocation.objects.filter(until_at=None, gpu=None).exclude(node=None).values_list("node_id", "device"):
        found[node] = found.get(node, 0) + stands_for(device)
    return found


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
    _leave(why, left, row)
    return False


def _idle(rows: Collection[_Row], wanted: Wanted, why: _Why, now: int) -> list[_Idle]:
    """Those of a few nodes that fit when their processes and their power are looked at, too."""
    cards = _cards(wanted).filter(node__in=[row.node for row in rows])
    if wanted.one_nvlink_domain:
        cards = cards.filter(_linked())
    cards = cards.exclude(Exists(Allocation.objects.filter(gpu=OuterRef("pk"), until_at=None)))
    by_node: dict[int, list[int]] = {}
    limits: dict[int, float | None] = {}
    for pk, node, limit_w in cards.order_by("index", "pk").values_list("pk", "node_id", "power_limit_w"):
        by_node.setdefault(node, []).append(pk)
        limits[pk] = limit_w
    busy = _busy(limits, now)
    power = _power(limits, now) if wanted.power_headroom_w is not None else {}
    room = {pk: limit_w - power[pk] for pk, limit_w in limits.items() if limit_w is not None and pk in power}
    found = []
    for row in rows:
        idle = [pk for pk in by_node.get(row.node, ()) if pk not in busy and not (wanted.healthy and pk in row.sick)]
        if len(idle) - row.unnamed < wanted.gpus:
            _leave(why, "busy", row)
            continue
        headroom_w = None
        if wanted.power_headroom_w is not None:
            least = wanted.power_headroom_w
            idle = [pk for pk in idle if pk in room and room[pk] >= least]
            if len(idle) - row.unnamed < wanted.gpus:
                _leave(why, "power", row)
                continue
            headroom_w = sorted((room[pk] for pk in idle), reverse=True)[wanted.gpus - 1]
        found.append(_Idle(row, tuple(idle), len(idle) - row.unnamed, headroom_w, room))
    return found


def _places(found: Collection[_Idle], wanted: Wanted) -> Iterable[Place]:
    """Each with the GPUs to take and why."""
    wide = ("node_id", "index", "uuid", "model", "numa_node")
    gpus = Gpu.objects.only(*wide).in_bulk([pk for one in found for pk in one.gpus])
    nodes = Node.objects.only("name", "recording").in_bulk([one.row.node for one in found])
    for one in found:
        taken = _chosen([gpus[pk] for pk in one.gpus], wanted.gpus)
        least = None if wanted.power_headroom_w is None else min(one.room[gpu.pk] for gpu in taken)
        reasons = tuple(_reasons(one, taken, wanted, least))
        yield Place(nodes[one.row.node], one.row.state, taken, one.free_total, least, reasons)


def _busy(keys: Collection[int], now: int) -> set[int]:
    """The GPUs on which a process was seen a moment ago."""
    return set(clock.latest("process", now - _SEEN_S, keys, [])["entity"].to_list()) if keys else set()


def _power(keys: Collection[int], now: int) -> dict[int, float]:
    """What each GPU draws, in W, of those of which it is known."""
    rows = clock.latest("gpu", now - _LATEST_S, keys, ["power_w"]).select("entity", "power_w") if keys else None
    return {} if rows is None else {entity: watts for entity, watts in rows.iter_rows() if watts is not None}


def _chosen(idle: list[Gpu], count: int) -> tuple[Gpu, ...]:
    """On one NUMA node where one has enough, on the one that has the fewest; else by index."""
    by_numa: dict[int, list[Gpu]] = {}
    for gpu in idle:
        if gpu.numa_node is not None:
            by_numa.setdefault(gpu.numa_node, []).append(gpu)
    enough = [gpus for gpus in by_numa.values() if len(gpus) >= count]
    return tuple(min(enough, key=len, default=idle)[:count])


def _reasons(one: _Idle, taken: tuple[Gpu, ...], wanted: Wanted, least: float | None) -> Iterable[str]:
    row, free = one.row, one.free_total
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
