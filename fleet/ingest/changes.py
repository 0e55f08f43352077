"""How much news of its engines, processes and GPUs in words a node may tell: beyond its share `busy`, which agents keep and send again.

What was told before costs nothing, whoever tells it again and on which connection: a restarted agent names all of it
anew. New names, and words that change, cost their node one change each; so a storm of them costs that node alone.
"""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from fleet.ingest.accept import MAX_ENGINES, MAX_PROCESSES, Session
from wire.codec import WireError
from wire.messages import Batch

CHANGES_PER_S: Final = 5.0
CHANGES_AT_ONCE: Final = 2 * (MAX_PROCESSES + MAX_ENGINES)
"""Of one node: more than any one batch may tell, so that none waits for ever."""
MAX_KNOWN: Final = 4 * MAX_PROCESSES
"""Names of a node that are remembered; past it all of them are forgotten."""


@dataclass(slots=True)
class _Node:
    left: float = field(default_factory=lambda: float(CHANGES_AT_ONCE))
    at: float = field(default_factory=time.monotonic)
    known: dict[int | str, int] = field(default_factory=dict)  # a pid or an engine's name, and a hash of what was told of it

    def refill(self, now: float) -> None:
        self.left = min(CHANGES_AT_ONCE, self.left + CHANGES_PER_S * max(0.0, now - self.at))
        self.at = now


@dataclass(slots=True)
class Changes:
    """The shares of all nodes; used on the event loop alone."""

    _nodes: dict[int, _Node] = field(default_factory=lambda: defaultdict(_Node))

    def take(self, session: Session, batch: Batch) -> None:
        """Count what a checked batch tells anew; WireError `busy` when that is more than its node has left."""
        engines, labels = batch.engines, batch.processes.labels
        if not (engines.name or labels or batch.gpu_labels):
            return
        told: dict[int | str, int] = {one.pid: hash(frozenset(one.labels.items())) for one in labels}
        for name, *facts in zip(engines.name, engines.kind, engines.model, engines.pid, strict=True):
            told[name] = hash(tuple(facts))
        # keys with a space: no engine is called so
        told.update((f"why {one.name}", hash((one.reason, frozenset(one.metrics.items())))) for one in engines.absent)
        told.update((f"gpu {one.gpu}", hash(frozenset(one.labels.items()))) for one in batch.gpu_labels)
        node = self._nodes[session.node]
        node.refill(time.monotonic())
        cost = sum(node.known.get(key) != mark for key, mark in told.items())
        if cost > node.left:
            detail = f"more than {CHANGES_PER_S:.0f} changes a second of what its engines, processes and GPUs are called"
            raise WireError("busy", detail, batch.seq)
        node.left -= cost
        if len(node.known) + cost > MAX_KNOWN:
            node.known.clear()
        node.known.update(told)

    def forget(self, node: int) -> None:
        """Let go of a node that is no longer in the inventory, or long silent."""
        self._nodes.pop(node, None)
