"""How well GPUs and nodes are, in one word that a scheduler can act on, with the reasons and how old they are."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from django.utils.translation import gettext

from fleet.annotations.matching import noted
from fleet.health.signs import STATES, Sign, Signs, State, events, findings
from fleet.inventory.models import STALE_AFTER, Gpu, Node

_RANK: Final = {state: place for place, state in enumerate(STATES)}


@dataclass(frozen=True, slots=True)
class Health:
    """One state with its reasons, the worst first. `since`: of the oldest reason for it; None where it is usable.

    `age_s`: how old the newest reading is; None where there never was one.
    """

    state: State
    reasons: tuple[Sign, ...]
    since: datetime | None
    age_s: float | None


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """A node with its GPUs; `node` is None where no agent ever told of `name`."""

    name: str
    node: Node | None
    health: Health
    gpus: tuple[tuple[Gpu, Health], ...]


def of_nodes(nodes: Sequence[Node], at: datetime) -> list[NodeHealth]:
    """The nodes' health in their order. A node is no better than the worst of its GPUs; what is stale is unknown."""
    keys = [node.pk for node in nodes]
    cards: dict[int, list[Gpu]] = {}
    for gpu in Gpu.objects.filter(node__in=keys).order_by("index", "parent_uuid", "pk"):
        cards.setdefault(gpu.node_id, []).append(gpu)
    signs = _joined(findings(keys), events(keys, at), maintenance({node.pk: node.name for node in nodes}, at))
    return [_of_node(node, cards.get(node.pk, []), signs, at) for node in nodes]


def maintenance(names: Mapping[int, str], at: datetime) -> Signs:
    """Of nodes that somebody works on, as people or programs noted."""
    notes = noted("node", {pk: (name,) for pk, name in names.items()}, at, keys=("maintenance",))
    sign = Sign("avoid", gettext("Somebody works on the node (annotation maintenance)."), None)
    return Signs({pk: [sign] for pk, values in notes.items() if values.get("maintenance") is True}, {})


def unheard(name: str) -> NodeHealth:
    """Of a node that no agent ever told of: unknown."""
    sign = Sign("unknown", gettext("No agent has told of this node."), None)
    return NodeHealth(name, None, Health("unknown", (sign,), None, None), ())


def silence(node: Node, at: datetime) -> Sign | None:
    """Why nothing is known of the node now; None where it reports."""
    if node.last_seen_at is None:
        return Sign("unknown", gettext("Its agent has sent no reading yet."), None)
    if at - node.last_seen_at > STALE_AFTER:
        return Sign("unknown", gettext("Nothing has come from its agent for a while: its state is unknown."), node.last_seen_at)
    return None


def _of_node(node: Node, cards: Sequence[Gpu], signs: Signs, at: datetime) -> NodeHealth:
    silent = silence(node, at)
    age_s = None if node.last_seen_at is None else max(0.0, (at - node.last_seen_at).total_seconds())
    by_uuid = {gpu.uuid: gpu.pk for gpu in cards}
    of_gpus = []
    for gpu in cards:
        own = [*signs.gpus.get(gpu.pk, ()), *signs.gpus.get(by_uuid.get(gpu.parent_uuid, 0), ())]
        if silent is not None:
            own.append(silent)
        elif not gpu.present:
            own.append(Sign("unknown", gettext("Its agent does not list it any more."), None))
        of_gpus.append((gpu, _health(own, age_s)))
    own = list(signs.nodes.get(node.pk, ()))
    there = [(gpu, health) for gpu, health in of_gpus if gpu.present]
    if silent is not None:
        own.append(silent)
    elif not there:
        own.append(Sign("unknown", gettext("Its agent lists no GPU."), None))
    for gpu, health in of_gpus:
        if gpu.parent_uuid or (not gpu.present and health.state != "drain"):
            continue  # a slice has its card's reasons, and what was taken out says nothing
        own += [replace(sign, text=f"GPU {gpu.index}: {sign.text}") for sign in health.reasons if sign is not silent]
    return NodeHealth(node.name, node, _health(own, age_s), tuple(of_gpus))


def _health(signs: Collection[Sign], age_s: float | None) -> Health:
    if not signs:
        return Health("usable", (), None, age_s)
    reasons = tuple(sorted(signs, key=lambda sign: -_RANK[sign.state]))
    state = reasons[0].state
    times = [sign.since for sign in reasons if sign.state == state and sign.since is not None]
    return Health(state, reasons, min(times, default=None), age_s)


def _joined(*many: Signs) -> Signs:
    found = Signs({}, {})
    for one in many:
        for key, signs in one.nodes.items():
            found.nodes.setdefault(key, []).extend(signs)
        for key, signs in one.gpus.items():
            found.gpus.setdefault(key, []).extend(signs)
    return found
