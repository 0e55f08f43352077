"""Which open finding explains which: pure. A broken card explains why the job that held it hangs, a silent node all that is on it.

Causes lie nearer to the metal than what follows from them: fabric, node and card before clocks, hosts and storage, those before jobs and
services. `TABLE` says which rules explain which, over what they share, and how far apart they may have opened. A chain is told by its first
cause. Every step of a chain goes from a lower stage to a higher one, or at the same stage from what opened earlier, so there is no circle.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias

Place: TypeAlias = Literal["gpu", "fabric", "node", "rack", "job", "cluster"]
"""What two findings can share. fabric: an NVLink domain, or the NVSwitch baseboard of a node; job: the job itself, wherever it runs now."""
PLACES: Final[tuple[Place, ...]] = ("gpu", "fabric", "node", "rack", "job", "cluster")

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
_ALWAYS: Final = math.inf
CROWD_NODES: Final = 3
"""So many nodes of a rack that grow hot within minutes of each other have one cause: two may be chance."""

SITE: Final = frozenset({"many-nodes-silent"})
SILENT: Final = frozenset({"node-silent"})
LOST: Final = frozenset({"xid-fallen-off-bus", "gpu-missing"})
COUNT: Final = "xid-fallen-off-bus:node"
"""The node's count of GPUs: what `xid-fallen-off-bus` says of a node and not of a card."""
LINKS: Final = frozenset({"nvlink-fault", "nvswitch-fault"})
MEMORY: Final = frozenset({"row-remap-failed", "uncorrectable-ecc"})
CARD: Final = LOST | MEMORY | {"gpu-reset-required"}
LESSER: Final = frozenset({"row-remap-pending", "correctable-ecc-rate", "app-fault-xid"})
HEAT: Final = frozenset({"hw-slowdown-active", "thermal-drift-vs-peers"})
SLOW_CARD: Final = HEAT | {"clocks-locked-low", "gpu-co-tenant-contention", "pcie-link-degraded", "power-cap-limited"}
HOST: Final = frozenset({"dataloader-oversubscribed", "host-memory-pressure", "node-cpu-undersized"})
STOPPED: Final = frozenset(
    {"collective-hang", "gpu-allocated-idle", "gpu-memory-held-idle", "job-partial-gpu-use", "restart-loop-same-node"}
)
SLOWED: Final = frozenset(
    {"energy-cost-per-unit-regression", "low-mfu", "rank-straggler", "scaling-inefficient", "step-time-regression"}
)
COLLECTIVE: Final = frozenset(
    {"collective-hang", "comm-not-overlapped", "rank-straggler", "scaling-inefficient", "step-time-regression"}
)
DATA: Final = frozenset(
    {
        "checkpoint-stall", "cpu-preprocessing-bound", "dataloader-too-few-workers", "epoch-boundary-stall", "slow-sample-head-of-line",
        "step-time-regression", "storage-small-files", "storage-throughput-bound",
    }
)  # fmt: skip
SERVING: Final = frozenset(
    {"latency-clock-jitter", "prefill-ttft-breach", "serving-cold-start", "serving-latency-regression", "serving-queue-growth"}
)


@dataclass(frozen=True, slots=True)
class Explains:
    """One row of the table: any of `causes` explains any of `effects` (None: whatever is of a later stage) that shares one of `over` with it.

    The effect opened up to `later_s` after the cause, or up to `earlier_s` before it: what follows is sometimes seen first. With `crowd`
    only where so many nodes of the place have it within `later_s`.
    """

    causes: frozenset[str]
    over: tuple[Place, ...]
    effects: frozenset[str] | None
    later_s: float
    earlier_s: float
    crowd: int = 0


TABLE: Final = (
    Explains(SITE, ("cluster",), SILENT, _ALWAYS, 10 * _MINUTE),
    Explains(SILENT, ("node",), None, _ALWAYS, 10 * _MINUTE),
    Explains(LINKS, ("gpu", "fabric"), LINKS | CARD | LESSER | {COUNT}, 10 * _MINUTE, 2 * _MINUTE),
    Explains(LINKS, ("gpu", "fabric", "job"), COLLECTIVE | STOPPED, _HOUR, 10 * _MINUTE),
    Explains(LOST, ("gpu",), None, _ALWAYS, 10 * _MINUTE),
    Explains(LOST, ("node",), frozenset({COUNT}), _ALWAYS, 10 * _MINUTE),
    Explains(LOST, ("fabric",), LINKS, 10 * _MINUTE, 0.0),
    Explains(MEMORY, ("gpu",), CARD | LESSER, _HOUR, 2 * _MINUTE),
    Explains(frozenset({"gpu-reset-required"}), ("gpu",), LESSER, _HOUR, 2 * _MINUTE),
    Explains(CARD, ("gpu", "job"), STOPPED | SLOWED | SERVING | {"loss-anomaly"}, _HOUR, 15 * _MINUTE),
    Explains(CARD, ("node",), frozenset({"restart-loop-same-node"}), _ALWAYS, 2 * _HOUR),
    Explains(frozenset({"app-fault-xid"}), ("gpu", "job"), STOPPED, 30 * _MINUTE, 15 * _MINUTE),
    Explains(frozenset({"app-fault-xid"}), ("node",), frozenset({"restart-loop-same-node"}), 2 * _HOUR, 2 * _HOUR),
    Explains(HEAT, ("rack",), HEAT, 15 * _MINUTE, 0.0, crowd=CROWD_NODES),
    Explains(SLOW_CARD, ("gpu",), frozenset({"gpu-slow-outlier"}), _ALWAYS, 30 * _MINUTE),
    Explains(SLOW_CARD | {"gpu-slow-outlier"}, ("gpu", "job"), SLOWED | SERVING, _ALWAYS, 30 * _MINUTE),
    Explains(HOST, ("node",), DATA | {"rank-straggler", "restart-loop-same-node"}, _ALWAYS, 30 * _MINUTE),
    Explains(frozenset({"ib-port-errors-or-congestion"}), ("node",), COLLECTIVE, _ALWAYS, 30 * _MINUTE),
    Explains(frozenset({"shared-storage-contention"}), ("cluster",), DATA, _ALWAYS, 30 * _MINUTE),
    Explains(frozenset({"collective-hang"}), ("job",), STOPPED | SLOWED, _ALWAYS, 30 * _MINUTE),
    Explains(DATA - {"step-time-regression"}, ("job",), frozenset({"low-mfu", "step-time-regression"}), _ALWAYS, 30 * _MINUTE),
    Explains(frozenset({"rank-straggler"}), ("job",), SLOWED | {"comm-not-overlapped"}, _ALWAYS, 30 * _MINUTE),
)

_STAGES: Final[tuple[Collection[str], ...]] = (
    SITE, SILENT, LINKS | LOST, {"row-remap-failed"}, {"uncorrectable-ecc"}, {"gpu-reset-required"}, {"row-remap-pending"},
    {"correctable-ecc-rate"}, {"app-fault-xid"}, {COUNT}, HEAT, SLOW_CARD - HEAT, {"gpu-slow-outlier"},
    HOST | {"ib-port-errors-or-congestion", "shared-storage-contention"}, {"collective-hang"},
    DATA - {"step-time-regression"}, {"rank-straggler"},
)  # fmt: skip
_STAGE: Final = {rule: stage for stage, rules in enumerate(_STAGES) for rule in rules}
_LAST: Final = len(_STAGES)
EXPLAINING: Final = frozenset().union(*(row.causes for row in TABLE))
"""Every rule that may explain another."""
CLUSTER_WIDE: Final = tuple(row for row in TABLE if "cluster" in row.over)


@dataclass(frozen=True, slots=True)
class Standing:
    """An open finding, with what it is on. `told`: it fires and is not in shadow; what nobody is told of explains nothing."""

    key: int
    rule: str
    scope: str
    opened_at: float  # epoch seconds
    told: bool = True
    on: Mapping[Place, Collection[object]] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Its rule, or what stands for it in the table."""
        return COUNT if self.scope == "node" and self.rule == "xid-fallen-off-bus" else self.rule

    @property
    def order(self) -> tuple[int, float, int]:
        """First causes first."""
        return _STAGE.get(self.kind, _LAST), self.opened_at, self.key


class Because(NamedTuple):
    """The key of the finding that explains another, and what the two share."""

    key: int
    place: Place


def explained_by(rules: Iterable[str]) -> frozenset[str] | None:
    """The rules whose findings one of these rules may explain; None: any."""
    found: set[str] = set()
    for rule in rules:
        for row in TABLE:
            if rule in row.causes:
                if row.effects is None:
                    return None
                found |= {effect.partition(":")[0] for effect in row.effects}
    return frozenset(found)


def explainers(rules: Iterable[str]) -> frozenset[str]:
    """The rules that may explain a finding of one of these rules."""
    asked = {*rules}
    kinds = asked | ({COUNT} if "xid-fallen-off-bus" in asked else set())
    return frozenset().union(*(row.causes for row in TABLE if row.effects is None or not kinds.isdisjoint(row.effects)))


def direct(effects: Iterable[Standing], candidates: Iterable[Standing]) -> dict[int, Because]:
    """By key of the `effects` that some of the `candidates` explain, the first that does."""
    index = _Index(candidates)
    return {one.key: because for one in effects if (because := index.first(one)) is not None}


def causes(standing: Sequence[Standing]) -> dict[int, Because]:
    """By key of the findings that others of them explain, the first cause of all that led to it."""
    return roots(standing, direct(standing, standing), {})


def roots(effects: Iterable[Standing], direct: Mapping[int, Because], known: Mapping[int, Because]) -> dict[int, Because]:
    """`direct` with every chain followed to its beginning; `known`: the first causes of findings that are not among the effects."""
    found: dict[int, Because] = {}
    for one in sorted(effects, key=lambda one: one.order):  # what explains comes before what it explains
        if one.key in direct:
            because = direct[one.key]
            found[one.key] = found.get(because.key) or known.get(because.key) or because
    return found


class _Index:
    """Candidates by row of the table and by what they are on."""

    def __init__(self, candidates: Iterable[Standing]) -> None:
        self._by: dict[tuple[int, Place, object], list[Standing]] = defaultdict(list)
        for one in candidates:
            if one.told and one.kind in EXPLAINING:
                for number in _EXPLAIN[one.kind]:
                    for place in TABLE[number].over:
                        for key in one.on.get(place, ()):
                            self._by[number, place, key].append(one)
        for held in self._by.values():
            held.sort(key=lambda one: one.order)

    def first(self, effect: Standing) -> Because | None:
        """The first of the candidates that explains the effect."""
        best: Standing | None = None
        over: Place = "gpu"
        for number, row in _follow(effect.kind):
            for place in row.over:
                for key in effect.on.get(place, ()):
                    for cause in self._by.get((number, place, key), ()):
                        if (best is not None and cause.order >= best.order) or cause.order >= effect.order:
                            break
                        if _in_time(row, cause, effect) and (not row.crowd or self._is_crowd(number, place, key, cause)):
                            best, over = cause, place
                            break
        return None if best is None else Because(best.key, over)

    def _is_crowd(self, number: int, place: Place, key: object, first: Standing) -> bool:
        row = TABLE[number]
        nodes: set[object] = set()
        for one in self._by[number, place, key]:
            if 0 <= one.opened_at - first.opened_at <= row.later_s:
                nodes.update(one.on.get("node", ()))
        return len(nodes) >= row.crowd


def _in_time(row: Explains, cause: Standing, effect: Standing) -> bool:
    return -row.earlier_s <= effect.opened_at - cause.opened_at <= row.later_s


@cache
def _follow(kind: str) -> tuple[tuple[int, Explains], ...]:
    """The rows of the table that may explain such a finding, with their places in it."""
    return tuple((number, row) for number, row in enumerate(TABLE) if row.effects is None or kind in row.effects)


_EXPLAIN: Final = {kind: tuple(n for n, row in enumerate(TABLE) if kind in row.causes) for kind in EXPLAINING}
