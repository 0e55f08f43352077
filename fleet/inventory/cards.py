"""The GPUs of the whole fleet as they are in the database, remembered by this process while they do not change.

Answers that look at every GPU would read 10,000 rows each time; what drivers say of a card changes seldom. Each node's GPUs have a version
(gpu_rows.py): each request reads the versions, and only the rows of nodes whose version is another. What changes by itself, such as when
a node was heard of, is never remembered.
"""

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple, TypeVar, cast

from fleet.inventory.models import Gpu, Node

FORGET_S: Final = 600.0
"""All of it is read anew so often: a change that went past Django, in SQL, shows by then."""
MOST_MADE: Final = 16
"""Questions of which the answers are remembered with the cards."""
_IN_ONE_QUERY: Final = 500

_T = TypeVar("_T")


class Machine(NamedTuple):
    """A node, as far as lists of GPUs need it."""

    pk: int
    name: str
    recording: str


class Card(NamedTuple):
    """A GPU, or a MIG instance."""

    pk: int
    node: int
    uuid: str
    index: int  # type: ignore[assignment] # the field's own name, not the tuple's method
    model: str
    present: bool
    parent_uuid: str
    mig_mode: bool | None
    nvlink_links: int | None
    power_limit_w: float | None
    numa_node: int | None

    @property
    def is_whole(self) -> bool:
        """True for a card that is there and not split into MIG instances."""
        return self.present and not self.parent_uuid and not self.mig_mode


class Inventory:
    """Every node by name, the cards of each by index, and what was made of all of them."""

    def __init__(
        self, rows: Sequence[tuple[int, str, str, int | None]], of_node: Mapping[int, tuple[Card, ...]], read_at: float
    ) -> None:
        self.rows = rows
        self.machines = {pk: Machine(pk, name, recording) for pk, name, recording, _version in rows}
        self.of_node = of_node
        self.read_at = read_at
        self._made: dict[Hashable, Any] = {}

    def cards(self) -> Iterator[Card]:
        """All of them."""
        for cards in self.of_node.values():
            yield from cards

    def made(self, key: Hashable, make: Callable[["Inventory"], _T]) -> _T:
        """What `make` makes of the inventory; made once while nothing changes."""
        if key not in self._made:
            if len(self._made) >= MOST_MADE:
                self._made = {}
            self._made[key] = make(self)
        return cast(_T, self._made[key])


_remembered: Inventory | None = None


def inventory() -> Inventory:
    """The nodes and the cards of all of them, as they are now."""
    global _remembered  # of this process; a thread that is slower puts back what was true when it read
    rows = list(Node.objects.order_by("name").values_list("pk", "name", "recording", "listing__version"))
    before = _remembered
    if before is not None and time.monotonic() - before.read_at >= FORGET_S:
        before = None
    if before is not None and before.rows == rows:
        return before
    versions = {pk: version for pk, _name, _recording, version in before.rows} if before is not None else {}
    kept = {pk: before.of_node[pk] for pk, _, _, version in rows if before is not None and versions.get(pk, "") == version}
    read = _read({pk for pk, _, _, _ in rows if pk not in kept})
    of_node = {pk: kept[pk] if pk in kept else read.get(pk, ()) for pk, _, _, _ in rows}
    _remembered = Inventory(rows, of_node, time.monotonic() if before is None else before.read_at)
    return _remembered


def _read(nodes: Set[int]) -> dict[int, tuple[Card, ...]]:
    """The cards of these nodes, in order of index."""
    if not nodes:
        return {}
    found: dict[int, list[Card]] = {}
    rows = Gpu.objects.filter(node__in=nodes) if len(nodes) <= _IN_ONE_QUERY else Gpu.objects.all()
    for row in rows.order_by("index", "pk").values_list("pk", "node_id", *Card._fields[2:]):
        card = Card(*row)
        if card.node in nodes:
            found.setdefault(card.node, []).append(card)
    return {node: tuple(cards) for node, cards in found.items()}
