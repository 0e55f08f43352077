"""Open findings and what they are on, as the causes see them: cards, fabrics, nodes, racks, jobs. Read for a few of them at a time."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from django.db.models import QuerySet

from advisor import causes
from advisor.causes import Because, Place, Standing
from fleet.annotations.matching import noted
from fleet.annotations.models import Annotation
from fleet.findings.models import Finding
from fleet.inventory.models import Gpu, Node
from fleet.jobs.holding import holders_within

TOLD: Final = ("firing", "noisy")
_IN_ONE_QUERY: Final = 500
"""Nodes; near more of them everything that is open is read."""
_REMEMBERED: Final = timedelta(hours=2)
"""Of a cause that opened longer ago, who held its cards then is not looked up any more."""
LABELS: Final = ("rack", "nvlink_domain")
"""Keys of annotations of nodes."""
_RACKED: Final = frozenset(chain.from_iterable(row.causes for row in causes.TABLE if "rack" in row.over))
_FABRICS: Final = frozenset(
    chain.from_iterable(row.causes | (row.effects or frozenset()) for row in causes.TABLE if "fabric" in row.over)
)
_WIDE: Final = {
    rule: others
    for row in causes.CLUSTER_WIDE
    for rules, others in ((row.causes, row.effects or frozenset()), (row.effects or frozenset(), row.causes))
    for rule in rules
}
"""Rules that meet over the whole cluster, wherever their findings are."""


@dataclass(slots=True)
class Open:
    """A finding as it is read here; `still`: it is open."""

    pk: int
    rule: str
    scope: str
    target: str
    node: int | None
    told: bool
    opened_at: datetime
    cause: Because | None
    still: bool
    gpus: set[int] = field(default_factory=set)
    nodes: set[int] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Nearby:
    """What is open near some findings; everything is read once."""

    at: datetime
    rows: dict[int, Open] = field(default_factory=dict)
    _home: dict[int, tuple[int, str]] = field(default_factory=dict)
    _whole: bool = False
    _labels: "dict[int, dict[str, str]] | None" = None

    def of(self, keys: Collection[int], rules: Collection[str] | None = None) -> dict[int, Open]:
        """What is open and is one of the keys, is explained by one of them, or shares a place with one, be that one open or over.

        `rules`: of what only shares a place those of these rules alone; None is all.
        """
        if len(keys) > _IN_ONE_QUERY:
            return self._everything(rules)
        start = list(self._read(Finding.objects.filter(pk__in=list(keys))).values())
        nodes = self._nodes(start)
        jobs = {row.target for row in start if row.scope == "job"} | {job for row in start for job in row.jobs}
        if len(nodes) + len(jobs) > _IN_ONE_QUERY:
            return self._everything(rules)
        still = Finding.objects.filter(resolved_at=None)
        found = {row.pk: row for row in start if row.still} | self._read(still.filter(cause__in=list(keys)))
        there = still if rules is None else still.filter(rule__in=rules)
        near = [there.filter(node__in=nodes)] if nodes else []
        near += [there.filter(pk__in=part) for part in _parts(self._holding(nodes))]
        if jobs:
            near.append(there.filter(scope="job", target__in=jobs))
        if wide := {other for row in start for other in _WIDE.get(row.rule, ())}:
            near.append(there.filter(rule__in=wide))
        for rows in near:
            found |= self._read(rows)
        self.rows |= found
        return found

    def _holding(self, nodes: Collection[int]) -> set[int]:
        """The findings, open or over, that are on cards of the nodes: by cards, for joined the database would look at all that are open."""
        cards = Gpu.objects.filter(node__in=nodes).order_by().values_list("pk", flat=True) if nodes else ()
        through = Finding.gpus.through.objects.order_by()
        return {
            finding for part in _parts(cards) for finding in through.filter(gpu__in=part).values_list("finding_id", flat=True)
        }

    def _everything(self, rules: Collection[str] | None) -> dict[int, Open]:
        if not self._whole:
            self.rows |= self._read(Finding.objects.filter(resolved_at=None))
            self._whole = True
        return {pk: row for pk, row in self.rows.items() if rules is None or row.rule in rules or row.cause is not None}

    def read(self, keys: Collection[int]) -> dict[int, Open]:
        """The findings of these keys, open or over."""
        return {pk: row for part in _parts(keys) for pk, row in self._read(Finding.objects.filter(pk__in=part)).items()}

    def is_open(self, keys: Collection[int]) -> set[int]:
        """Those of the findings that are open."""
        away = set(keys) - self.rows.keys()
        there = {
            pk
            for part in _parts(away)
            for pk in Finding.objects.filter(pk__in=part, resolved_at=None).values_list("pk", flat=True)
        }
        return there | (set(keys) & self.rows.keys())

    def standing(self, row: Open) -> Standing:
        """The finding with what it is on."""
        told = self._told()
        labels = [(node, told[node]) for node in row.nodes if node in told] if told else []
        domains = {node: one["nvlink_domain"] for node, one in labels if "nvlink_domain" in one}
        on: dict[Place, Collection[object]] = {
            "gpu": row.gpus,
            "node": row.nodes,
            "fabric": {domains.get(node, node) for node in row.nodes} if domains else row.nodes,
            "rack": {one["rack"] for _, one in labels if "rack" in one},
            "job": {row.target} if row.scope == "job" else row.jobs,
            "cluster": ("",),
        }
        return Standing(row.pk, row.rule, row.scope, row.opened_at.timestamp(), row.told, on)

    def _nodes(self, rows: Iterable[Open]) -> set[int]:
        """The nodes that the rows are on, with those of their racks and fabrics where that matters to their rules."""
        nodes: set[int] = set()
        racks: set[str] = set()
        fabrics: set[str] = set()
        for row in rows:
            nodes |= row.nodes
            for node in row.nodes:
                told = self._told().get(node, {})
                if row.rule in _RACKED and "rack" in told:
                    racks.add(told["rack"])
                if row.rule in _FABRICS and "nvlink_domain" in told:
                    fabrics.add(told["nvlink_domain"])
        if racks or fabrics:
            nodes |= {
                pk for pk, told in self._told().items() if told.get("rack") in racks or told.get("nvlink_domain") in fabrics
            }
        return nodes

    def _told(self) -> Mapping[int, Mapping[str, str]]:
        """By node its rack and its NVLink domain, where somebody told them."""
        if self._labels is None:
            self._labels = {}
            if Annotation.objects.filter(scope="node", key__in=LABELS).exists():
                names = {pk: (name,) for pk, name in Node.objects.order_by().values_list("pk", "name")}
                told = noted("node", names, self.at, LABELS)
                self._labels = {pk: {key: str(value) for key, value in one.items()} for pk, one in told.items()}
        return self._labels

    def _read(self, asked: "QuerySet[Finding]") -> dict[int, Open]:
        """The findings with what they are on."""
        fields = (
            "pk",
            "rule",
            "scope",
            "target",
            "node_id",
            "condition",
            "shadow",
            "opened_at",
            "cause_id",
            "cause_place",
            "resolved_at",
        )
        known = self.rows
        rows: dict[int, Open] = {}
        for pk, rule, scope, target, node, condition, shadow, opened_at, cause, place, ended in asked.order_by().values_list(
            *fields
        ):
            if pk in known:
                rows[pk] = known[pk]
                continue
            because = None if cause is None else Because(cause, place or "node")
            told = condition in TOLD and not shadow
            rows[pk] = Open(pk, rule, scope, target, node, told, opened_at, because, ended is None)
        self._place({pk: row for pk, row in rows.items() if pk not in known})
        return rows

    def _place(self, rows: Mapping[int, Open]) -> None:
        """Add cards, nodes and jobs to rows that were just read."""
        if not rows:
            return
        through = Finding.gpus.through.objects.order_by()
        few = len(rows) <= _IN_ONE_QUERY
        through = through.filter(finding__in=list(rows)) if few else through.filter(finding__resolved_at=None)
        held = [(finding, gpu) for finding, gpu in through.values_list("finding_id", "gpu_id") if finding in rows]
        homes = self._homes({gpu for _, gpu in held})
        slices = {gpu: homes[gpu] for _, gpu in held if gpu in homes and homes[gpu][1]}
        cards = _cards(set(slices.values()))
        for finding, gpu in held:
            rows[finding].gpus.add(gpu)
            if gpu in homes:
                rows[finding].nodes.add(homes[gpu][0])
            if gpu in slices and slices[gpu] in cards:
                rows[finding].gpus.add(cards[slices[gpu]])
        for row in rows.values():
            if row.node is not None:
                row.nodes.add(row.node)
        young = [row for row in rows.values() if row.opened_at > self.at - _REMEMBERED and row.rule in causes.EXPLAINING]
        self._add_jobs([row for row in young if row.scope == "gpu" and row.gpus])

    def _homes(self, gpus: Collection[int]) -> Mapping[int, tuple[int, str]]:
        """The node of each card, and the UUID of the card that it is a slice of; read once, and not joined: that takes many times as long."""
        unknown = [gpu for gpu in gpus if gpu not in self._home]
        cards = Gpu.objects.order_by()
        parts = [cards.filter(pk__in=part) for part in _parts(unknown)] if len(unknown) <= 2 * _IN_ONE_QUERY else [cards]
        for part in parts:
            self._home |= {pk: (node, parent) for pk, node, parent in part.values_list("pk", "node_id", "parent_uuid")}
        return self._home

    def _add_jobs(self, rows: list[Open]) -> None:
        """Who held the cards of what may be a cause when it opened: a job that runs elsewhere by now is still its victim."""
        if not rows:
            return
        opened = [row.opened_at for row in rows]
        gpus = {gpu for row in rows for gpu in row.gpus}
        held = holders_within(min(opened), max(opened) + timedelta(seconds=1), gpus)
        for row in rows:
            for gpu in row.gpus:
                for one in held.get(gpu, ()):
                    if one.from_at <= row.opened_at and (one.until_at is None or one.until_at >= row.opened_at):
                        row.jobs.add(one.target)


def _cards(slices: set[tuple[int, str]]) -> dict[tuple[int, str], int]:
    """By node and UUID the cards that MIG instances are slices of."""
    if not slices:
        return {}
    rows = Gpu.objects.filter(uuid__in={uuid for _, uuid in slices}).values_list("pk", "node_id", "uuid")
    return {(node, uuid): pk for pk, node, uuid in rows if (node, uuid) in slices}


def _parts(keys: Iterable[int]) -> Iterator[list[int]]:
    listed = sorted(keys)
    for first in range(0, len(listed), _IN_ONE_QUERY):
        yield listed[first : first + _IN_ONE_QUERY]
