"""What may be asked of an alert: its labels, for many findings with a fixed number of queries."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from django.db.models import OuterRef, Subquery

from fleet.annotations.matching import noted
from fleet.findings.models import Finding
from fleet.inventory.models import Gpu, Node
from fleet.jobs.holding import holders
from fleet.jobs.models import Allocation, Job
from fleet.notify.matchers import Labels
from fleet.tuning.in_force import in_force

NOTED: Final = ("rack", "team", "owner", "partition")
"""Labels that people and programs tell by annotations."""
_IN_ONE_QUERY: Final = 500
_GPUS: Final = Gpu.objects.order_by().values_list("pk", "model", "node_id")
_CLUSTER: Final = (
    Allocation.objects.filter(node=OuterRef("pk")).exclude(job__cluster="").order_by("-from_at").values("job__cluster")
)
_NODES: Final = Node.objects.order_by().only("pk", "name").annotate(cluster=Subquery(_CLUSTER[:1]))
"""With the cluster of the newest job that a scheduler gave the node."""


def labels_of(findings: Sequence[Finding], at: datetime) -> dict[int, Labels]:
    """By finding its labels at `at`: those values that are known. Of its GPUs' holders too: a card's alert has an owner while it works."""
    cards = _cards(findings)
    gpus = {row[0]: row[1:] for row in _rows(_GPUS, "pk", {gpu for several in cards.values() for gpu in several})}
    held = holders(at, gpus.keys())
    jobs = _jobs(findings, {one.job for several in held.values() for one in several})
    by_target = {one.target: one for one in jobs.values()}
    places = {row.pk: _places(row, [gpus[gpu][1] for gpu in cards[row.pk]]) for row in findings}
    nodes = {row.pk: row for row in _rows(_NODES, "pk", {node for several in places.values() for node in several})}
    notes = {
        "node": noted("node", {pk: (node.name,) for pk, node in nodes.items()}, at, keys=NOTED),
        "job": noted("job", {target: (target,) for target in by_target}, at, keys=NOTED),
        "service": noted("service", {row.target: (row.target,) for row in findings if row.scope == "service"}, at, keys=NOTED),
    }
    groups = {rule.id: rule.group for rule in in_force().rules}
    found: dict[int, Labels] = {}
    for row in findings:
        own = [by_target[row.target]] if row.scope == "job" and row.target in by_target else []
        mine = own or [jobs[one.job] for gpu in cards[row.pk] for one in held.get(gpu, ()) if one.job in jobs]
        told = [notes["job"].get(one.target, {}) for one in mine] + [notes["node"].get(node, {}) for node in places[row.pk]]
        told += [notes["service"].get(row.target, {})] if row.scope == "service" else []
        values: dict[str, Iterable[object]] = {
            "severity": [row.severity],
            "rule": [row.rule],
            "group": [groups.get(row.rule, "health")],  # what only events report is of the card's health
            "scope": [row.scope],
            "cluster": [one.cluster for one in mine] or [nodes[node].cluster for node in places[row.pk]],
            "partition": [one.partition for one in mine] + [each.get("partition") for each in told],
            "node": [nodes[node].name for node in places[row.pk]],
            "gpu_model": [gpus[gpu][0] for gpu in cards[row.pk]],
            "rack": [each.get("rack") for each in told],
            "owner": [each.get("owner") for each in told] + [one.user for one in mine],
            "team": [each.get("team") for each in told],
            "job": [row.target] if row.scope == "job" else [one.target for one in mine],
            "service": [row.target] if row.scope == "service" else [],
        }
        found[row.pk] = {label: kept for label, several in values.items() if (kept := _unique(several))}
    return found


def _unique(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(value) for value in values if value))


def _cards(findings: Sequence[Finding]) -> dict[int, list[int]]:
    """The GPUs of each finding: its own, else all of its node's."""
    cards: dict[int, list[int]] = {row.pk: [] for row in findings}
    through = Finding.gpus.through._default_manager.order_by("pk").values_list("finding_id", "gpu_id")
    for finding, gpu in _rows(through, "finding_id", cards):
        cards[finding].append(gpu)
    bare = {row.node_id for row in findings if row.scope == "node" and row.node_id and not cards[row.pk]}
    on: dict[int, list[int]] = defaultdict(list)
    for node, gpu in _rows(Gpu.objects.filter(present=True).order_by("pk").values_list("node_id", "pk"), "node_id", bare):
        on[node].append(gpu)
    return {row.pk: cards[row.pk] or (on[row.node_id] if row.node_id in bare else []) for row in findings}


def _places(finding: Finding, of_cards: Iterable[int]) -> list[int]:
    """The nodes that it is on: its own, and those of its GPUs."""
    own = [finding.node_id] if finding.node_id else []
    return list(dict.fromkeys([*own, *of_cards]))


def _jobs(findings: Sequence[Finding], holding: Iterable[int]) -> dict[int, Job]:
    """The jobs that hold GPUs, and the newest run of each job that a finding is about; by their keys."""
    jobs = Job.objects.only("pk", "cluster", "job_id", "partition", "user", "started_at")
    found = {row.pk: row for row in _rows(jobs, "pk", holding)}
    asked = {row.target for row in findings if row.scope == "job"} - {one.target for one in found.values()}
    newest: dict[str, Job] = {}
    # A run of processes has no cluster, and its target, whatever signs it holds, for an id.
    for row in _rows(jobs.order_by("started_at"), "job_id", asked | {target.partition("/")[2] for target in asked}):
        if row.target in asked:
            newest[row.target] = row
    return found | {row.pk: row for row in newest.values()}


def _rows(rows: Any, field: str, keys: Iterable[Any]) -> Iterator[Any]:
    """The rows whose field is one of the keys, so many in one query."""
    listed = sorted(keys)
    for first in range(0, len(listed), _IN_ONE_QUERY):
        yield from rows.filter(**{f"{field}__in": listed[first : first + _IN_ONE_QUERY]})
