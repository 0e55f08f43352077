"""What a job needs of a node, and the answer to where it could be had."""

from dataclasses import dataclass, field
from typing import Final

from fleet.health.signs import State
from fleet.inventory.cards import Card, Machine

WHYS: Final = ("model", "unknown", "drain", "avoid", "nvlink", "held", "busy", "power")
"""Why a node is left out, in the order in which it is asked."""


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

    node: Machine
    state: State
    gpus: tuple[Card, ...]
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
