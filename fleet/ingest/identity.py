"""GPUs that two nodes tell of: a machine was cloned, or has another name or image than before.

What a GPU is, its enrolled node and its UUID say together, so nothing of two nodes is ever mixed. But one card is in one
machine: where two nodes that speak now both list it, each is told of the other (event `conflict`) and it is counted; where the
other one has gone silent, the card has moved, and it is no longer present there. Recordings that are played, and nodes that
are read from Prometheus beside their agents, are left out, and so is a nil UUID, which names no card.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Count, F, Q
from django.utils import timezone

from fleet.ingest import facts
from fleet.inventory.models import STALE_AFTER, Gpu, Node, Refusal

KIND: Final = "conflict"
CODE: Final = "double_gpu"
"""Of the count among a node's refusals."""
LOOKED_AT: Final = timedelta(seconds=90)
"""So long after its hello a node is looked at: until what had its cards before counts as silent."""
AGAIN: Final = timedelta(days=1)
"""A pair of nodes is told of once within this time."""
_NIL: Final = re.compile(r"(?:GPU-|MIG-)?[0-]+")
_SHOWN: Final = 8
_AT_ONCE: Final = 10_000

logger = logging.getLogger(__name__)


def look() -> None:
    """Find the cards that nodes which have just said hello share with other nodes, and tell of them."""
    now = timezone.now()
    agents = Q(node__recording="", node__source="")
    heard = Q(node__disconnected_at=None, node__last_seen_at__gte=now - STALE_AFTER)
    new = Gpu.objects.filter(agents, heard, present=True, node__connected_at__gte=now - LOOKED_AT)
    cards: dict[str, list[Gpu]] = defaultdict(list)
    held_by = Gpu.objects.filter(agents, present=True, uuid__in=new.values("uuid")).values("uuid").annotate(nodes=Count("pk"))
    shared = list(held_by.filter(nodes__gt=1).values_list("uuid", flat=True)[:_AT_ONCE])
    if not shared:
        return
    for gpu in Gpu.objects.filter(agents, present=True, uuid__in=shared).select_related("node"):
        cards[gpu.uuid].append(gpu)
    both: dict[tuple[Node, Node], list[tuple[Gpu, Gpu]]] = defaultdict(list)
    moved: dict[tuple[Node, Node], list[tuple[Gpu, Gpu]]] = defaultdict(list)
    for uuid, held in cards.items():
        if _NIL.fullmatch(uuid):
            continue
        held.sort(key=lambda gpu: gpu.node_id)
        for place, one in enumerate(held):
            for other in held[place + 1 :]:
                if _speaks(one.node, now) and _speaks(other.node, now):
                    both[one.node, other.node].append((one, other))
                elif _speaks(one.node, now) and _is_silent(other.node, now):
                    moved[other.node, one.node].append((other, one))
                elif _speaks(other.node, now) and _is_silent(one.node, now):
                    moved[one.node, other.node].append((one, other))
    for (first, second), pairs in both.items():
        _conflict(first, second, pairs, now)
    for (old, home), pairs in moved.items():
        _moved(old, home, pairs)


def _speaks(node: Node, now: datetime) -> bool:
    return node.disconnected_at is None and node.last_seen_at is not None and now - node.last_seen_at <= STALE_AFTER


def _is_silent(node: Node, now: datetime) -> bool:
    """True for one that told of its cards once and no longer does; one that has just ended may only be restarting."""
    return node.last_seen_at is not None and now - node.last_seen_at > STALE_AFTER


@transaction.atomic
def _conflict(first: Node, second: Node, pairs: list[tuple[Gpu, Gpu]], now: datetime) -> None:
    """Tell both nodes, once a day, whichever of several processes comes first."""
    list(Node.objects.select_for_update(no_key=True).filter(pk__in=(first.pk, second.pk)).order_by("pk"))
    for node, other, own in ((first, second, [one for one, _ in pairs]), (second, first, [other for _, other in pairs])):
        text = f"{other.name}: {_indices(own)}"
        if node.events.filter(boot="", kind=KIND, text__startswith=f"{other.name}: ", observed_at__gte=now - AGAIN).exists():
            continue
        facts.tell(node, [(own[0] if len(own) == 1 else None, text)], None, KIND, "warn")
        row, _ = Refusal.objects.get_or_create(node_name=node.name, code=CODE)
        detail = f"{other.name} tells of the same GPUs ({_indices(own)})"
        Refusal.objects.filter(pk=row.pk).update(total=F("total") + 1, last_at=now, last_detail=detail[:300])
        logger.warning("%s and %s both tell of %s: one of them is a clone, or has the other's UUIDs", node, other, _indices(own))


@transaction.atomic
def _moved(old: Node, home: Node, pairs: list[tuple[Gpu, Gpu]]) -> None:
    list(Node.objects.select_for_update(no_key=True).filter(pk__in=(old.pk, home.pk)).order_by("pk"))
    if not Gpu.objects.filter(pk__in=[gone.pk for gone, _ in pairs], present=True).update(present=False):
        return  # another process was faster
    own = [here for _, here in pairs]
    facts.tell(home, [(own[0] if len(own) == 1 else None, f"Node: {old.name} → {home.name}")], None)
    logger.info("%s of %s came from %s", _indices(own), home, old)


def _indices(gpus: Iterable[Gpu]) -> str:
    shown = [str(index) for index in sorted(gpu.index for gpu in gpus)]
    return f"GPU {', '.join(shown[:_SHOWN])}" + ("…" if len(shown) > _SHOWN else "")
