"""Which machine a series of dcgm-exporter is of, and whether two machines go by one name."""

import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Final, Protocol

from django.db.models import F

from fleet.inventory.models import Refusal
from fleet.store.prometheus_cells import Of

HOST_LABELS: Final = ("Hostname", "hostname", "node", "kubernetes_node", "nodename")
CODE: Final = "two_nodes"
MAX_NAME: Final = 200

logger = logging.getLogger(__name__)


class Told(Protocol):
    """One GPU as its series tell."""

    @property
    def of(self) -> Of:
        """Whose series it is."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Those of its newest sample."""

    @property
    def since(self) -> float:
        """The first sample of those looked at."""

    @property
    def at(self) -> float:
        """The newest sample."""


def host(labels: Mapping[str, str], cluster_label: str) -> str:
    """The node's name: what the exporter calls its machine, and @ its cluster where the label tells one."""
    told = next((labels[name] for name in HOST_LABELS if labels.get(name)), "")
    name = told or labels.get("instance", "").rpartition(":")[0].strip("[]") or "unknown"
    cluster = labels.get(cluster_label, "") if cluster_label else ""
    return clean(f"{name}@{cluster}" if cluster else name, MAX_NAME)


def clean(text: str, most: int) -> str:
    """A label's text as a column takes it: PostgreSQL has no NUL."""
    return text.replace("\0", "")[:most]


def number(labels: Mapping[str, str]) -> int | None:
    """The GPU's index; None where it is not told, or is no number."""
    told = labels.get("gpu", "")
    return int(told[:4]) if told.isascii() and told.isdigit() else None


def say_doubles(by_host: Mapping[str, Iterable[Told]], now: float, episode_s: float) -> None:
    """Tell of each name under which two GPUs have one index at the same time; counted once while it lasts."""
    at = datetime.fromtimestamp(now, UTC)
    for name, told in by_host.items():
        cards = [(one, index) for one in told if not one.of.parent and (index := number(one.labels)) is not None]
        double = next((pair for pair in combinations(sorted(cards, key=_order), 2) if _together(*pair)), None)
        if double is None:
            continue
        (one, index), (other, _) = double
        detail = f"GPU {index} is both {one.of.uuid} and {other.of.uuid} at once: two machines have this name."
        row, is_new = Refusal.objects.get_or_create(node_name=name, code=CODE, defaults={"last_at": at})
        begins = is_new or at - row.last_at > timedelta(seconds=episode_s)
        if begins:
            logger.warning(
                "%s: %s Name the label that tells clusters apart with FETTLE_STORE_CLUSTER_LABEL, or one of them with FETTLE_STORE_SELECTOR.",
                name,
                detail,
            )
        Refusal.objects.filter(pk=row.pk).update(total=F("total") + int(begins), last_at=at, last_detail=detail[:300])


def _order(card: tuple[Told, int]) -> tuple[int, str]:
    return card[1], card[0].of.uuid


def _together(one: tuple[Told, int], other: tuple[Told, int]) -> bool:
    """True for one index while both go on; a card that another took the place of had ended before."""
    return one[1] == other[1] and one[0].since <= other[0].at and other[0].since <= one[0].at
