"""Where a job's GPUs could be had: nodes ranked, each with why, and why the others were left out.

A GPU is free when no open allocation holds it and no process is seen on it. Cards that are split into MIG instances are not whole GPUs,
and are not offered. Nothing is reserved: two that ask at the same time get the same answer.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, TypeAlias

from django.utils.translation import gettext, ngettext

from fleet.health import states
from fleet.health.needs import WHYS, Answer, LeftOut, Place, Wanted
from fleet.health.signs import State, events, states_by_findings, worse
from fleet.inventory.cards import Card, Inventory, Machine, inventory
from fleet.inventory.models import STALE_AFTER, Node
from fleet.jobs.devices import stands_for
from fleet.jobs.models import Allocation
from fleet.store import clock

BRIDGED: Final = ("pcie", "nvl")
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
class _Pool:
    """The cards of a model, as long as no row of a GPU changes: by node how many, how many that NVLink joins, and those to offer.

    `node_of` has the node of each card to offer, `by_node` the node of every GPU there is or was.
    """

    total: Mapping[int, int]
    linked: Mapping[int, int]
    offered: Mapping[int, tuple[Card, ...]]
    node_of: Mapping[int, int]
    by_node: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Row:
    """One node that fits by its numbers. `sick`: of its cards those that something speaks against."""

    node: Machine
    total: int
    free: int
    sick: frozenset[int]
    unnamed: int
    state: State


@dataclass(frozen=True, slots=True)
class _Idle:
    """One node's cards that would do; the most power that so many of them have left."""

    row: _Row
    cards: tuple[Card, ...]
    free_total: int
    headroom_w: float | None
    room: Mapping[int, float]


_Why: TypeAlias = dict[str, LeftOut]


def place(wanted: Wanted, at: datetime) -> Answer:
    """Where `wanted` fits now. StoreError when the store cannot be read."""
    why: _Why = {name: LeftOut(name) for name in WHYS}
    there = inventory()
    pool = there.made((wanted.model, wanted.one_nvlink_domain), partial(_pool, wanted))
    held = frozenset(Allocation.objects.filter(until_at=None, gpu__isnull=False).order_by().values_list("gpu", flat=True))
    fitting = _fitting(wanted, at, there.machines, pool, held, why)
    fitting.sort(key=lambda row: (row.state != "usable", row.free - wanted.gpus, row.node.name))
    looked_at = fitting[: max(MOST_LOOKED_AT, wanted.limit)]
    first = max(_FIRST, wanted.limit)
    found: list[_Idle] = []
    for part in (looked_at[:first], looked_at[first:]):
        if part and len(found) < wanted.limit:
            found += _idle(part, wanted, pool, held, why, int(at.timestamp()))
    found.sort(key=lambda one: (one.row.state != "usable", one.free_total, -(one.headroom_w or 0.0), one.row.node.name))
    left_out = tuple(one for one in why.values() if one.nodes_total)
    return Answer(tuple(_place(one, wanted) for one in found[: wanted.limit]), len(fitting), left_out)


def _pool(wanted: Wanted, cards: Inventory) -> _Pool:
    part = wanted.model.lower()
    total: Counter[int] = Counter()
    linked: Counter[int] = Counter()
    offered: dict[int, list[Card]] = {}
    of_model = {model: part in model.lower() for model in {card.model for card in cards.cards()}}
    bridged = {model: any(one in model.lower() for one in BRIDGED) for model in of_model}
    for card in cards.cards():
        if not card.is_whole or not of_model[card.model]:
            continue
        total[card.node] += 1
        is_linked = bool(card.nvlink_links) and not bridged[card.model]
        linked[card.node] += is_linked
        if is_linked or not wanted.one_nvlink_domain:
            offered.setdefault(card.node, []).append(card)
    return _Pool(
        dict(total),
        dict(linked),
        {node: tuple(mine) for node, mine in offered.items()},
        {card.pk: node for node, mine in offered.items() for card in mine},
        {card.pk: card.node for card in cards.cards()},
    )


def _leave(why: _Why, name: str, node: Machine) -> None:
    one = why[name]
    one.nodes_total += 1
    if len(one.nodes) < NAMED:
        one.nodes.append(node.name)


def _fitting(
    wanted: Wanted, at: datetime, machines: Mapping[int, Machine], pool: _Pool, held: Collection[int], why: _Why
) -> list[_Row]:
    """The nodes that fit by their numbers, by name. Each node is looked at: only numbers and words are asked of it."""
    of_nodes, of_gpus = _states(machines, at)
    sick: dict[int, set[int]] = {}
    for pk, state in of_gpus.items():
        if pk in pool.node_of:
            sick.setdefault(pool.node_of[pk], set()).add(pk)
        if state == "drain" and pk in pool.by_node:  # one that fell off the bus is not listed any more, and drains its node
            of_nodes[pool.by_node[pk]] = "drain"
    fresh = set(Node.objects.filter(last_seen_at__gte=at - STALE_AFTER).order_by().values_list("pk", flat=True))
    taken = Counter(map(pool.node_of.get, held))
    unnamed = _unnamed()
    fitting = []
    for pk, node in machines.items():
        total = pool.total.get(pk, 0)
        if total < wanted.gpus:
            _leave(why, "model", node)
            continue
        mine = sick.get(pk, ())
        unhurt = len(pool.offered.get(pk, ())) - taken.get(pk, 0)
        free = unhurt - (sum(one not in held for one in mine) if wanted.healthy else 0)
        health: State = "usable" if pk in fresh else "unknown"
        if pk in of_nodes:
            health = worse(of_nodes[pk], health)
        left = _left(wanted, health, pool.linked.get(pk, 0), free - unnamed.get(pk, 0), len(mine))
        if left:
            _leave(why, left, node)
        else:
            fitting.append(_Row(node, total, free, frozenset(mine), unnamed.get(pk, 0), health))
    return fitting


def _states(machines: Mapping[int, Machine], at: datetime) -> tuple[dict[int, State], dict[int, State]]:
    """By node and by GPU, of those that something speaks against."""
    nodes, gpus = states_by_findings()
    names = {pk: node.name for pk, node in machines.items()}
    for more in (events(None, at), states.maintenance(names, at)):
        for of, told in ((nodes, more.nodes), (gpus, more.gpus)):
            for key, signs in told.items():
                for sign in signs:
                    of[key] = worse(of.get(key, "usable"), sign.state)
    return nodes, gpus


def _unnamed() -> dict[int, int]:
    """By node how many GPUs are given to jobs without anybody knowing which."""
    found: dict[int, int] = {}
    for node, device in Allocation.objects.filter(until_at=None, gpu=None).exclude(node=None).values_list("node_id", "device"):
        found[node] = found.get(node, 0) + stands_for(device)
    return found


def _left(wanted: Wanted, state: State, linked: int, free: int, sick: int) -> str:
    """Why a node with enough cards is left out; empty where it is not."""
    if state in ("unknown", "drain"):
        return state
    if state == "avoid" and wanted.healthy:
        return "avoid"
    if wanted.one_nvlink_domain and linked < wanted.gpus:
        return "nvlink"
    if free < wanted.gpus:
        return "avoid" if wanted.healthy and free + sick >= wanted.gpus else "held"
    return ""


def _idle(rows: Collection[_Row], wanted: Wanted, pool: _Pool, held: Collection[int], why: _Why, now: int) -> list[_Idle]:
    """Those of a few nodes that fit when their processes and their power are looked at, too."""
    free = {row.node.pk: [card for card in pool.offered[row.node.pk] if card.pk not in held] for row in rows}
    keys = [card.pk for cards in free.values() for card in cards]
    ahead = clock.ahead("gpu", keys)
    busy = _busy(keys, now, ahead)
    power = _power(keys, now, ahead) if wanted.power_headroom_w is not None else {}
    found = []
    for row in rows:
        idle = [card for card in free[row.node.pk] if card.pk not in busy and not (wanted.healthy and card.pk in row.sick)]
        if len(idle) - row.unnamed < wanted.gpus:
            _leave(why, "busy", row.node)
            continue
        headroom_w = None
        room: dict[int, float] = {}
        if wanted.power_headroom_w is not None:
            least = wanted.power_headroom_w
            room = {
                one.pk: one.power_limit_w - power[one.pk] for one in idle if one.power_limit_w is not None and one.pk in power
            }
            idle = [card for card in idle if card.pk in room and room[card.pk] >= least]
            if len(idle) - row.unnamed < wanted.gpus:
                _leave(why, "power", row.node)
                continue
            headroom_w = sorted((room[card.pk] for card in idle), reverse=True)[wanted.gpus - 1]
        found.append(_Idle(row, tuple(idle), len(idle) - row.unnamed, headroom_w, room))
    return found


def _place(one: _Idle, wanted: Wanted) -> Place:
    """It with the GPUs to take and why."""
    taken = _chosen(one.cards, wanted.gpus)
    least = None if wanted.power_headroom_w is None else min(one.room[card.pk] for card in taken)
    return Place(one.row.node, one.row.state, taken, one.free_total, least, tuple(_reasons(one, taken, wanted, least)))


def _busy(keys: Collection[int], now: int, ahead: clock.Ahead) -> set[int]:
    """The GPUs on which a process was seen a moment ago."""
    return set(clock.latest("process", now - _SEEN_S, keys, [], ahead=ahead)["entity"].to_list()) if keys else set()


def _power(keys: Collection[int], now: int, ahead: clock.Ahead) -> dict[int, float]:
    """What each GPU draws, in W, of those of which it is known."""
    rows = clock.latest("gpu", now - _LATEST_S, keys, ["power_w"], ahead=ahead).select("entity", "power_w") if keys else None
    return {} if rows is None else {entity: watts for entity, watts in rows.iter_rows() if watts is not None}


def _chosen(idle: tuple[Card, ...], count: int) -> tuple[Card, ...]:
    """On one NUMA node where one has enough, on the one that has the fewest; else by index."""
    by_numa: dict[int, list[Card]] = {}
    for gpu in idle:
        if gpu.numa_node is not None:
            by_numa.setdefault(gpu.numa_node, []).append(gpu)
    enough = [gpus for gpus in by_numa.values() if len(gpus) >= count]
    return tuple(min(enough, key=len, default=[*idle])[:count])


def _reasons(one: _Idle, taken: tuple[Card, ...], wanted: Wanted, least: float | None) -> Iterable[str]:
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
