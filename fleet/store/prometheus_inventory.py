"""Nodes and GPUs of a fleet that is read from a Prometheus, made from the labels of dcgm-exporter's series.

A node is seen while one of its series goes on: each sample speaks for one scrape interval. One that ended, because the exporter,
the node or the scraping did, makes its node unknown, never idle. Nodes that an agent of ours tells of are left alone.
"""

import logging
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from django.db import transaction

from fleet.inventory.models import STALE_AFTER, Absence, Gpu, Node
from fleet.store import prometheus_cells, promql
from fleet.store.prometheus import SOURCE, PrometheusSeries
from fleet.store.prometheus_hosts import clean, host, number, say_doubles
from wire import dcgm_fields
from wire.labels import EXPORTED
from wire.messages import PROCESSES

LOOK_S: Final = 180
"""How far back a node is looked for; what was last seen before that is not there."""
ALWAYS: Final = (155, 150, 203)
"""Fields of which every exporter tells one."""
FACTS: Final = {250: "mem_total_bytes", 164: "power_limit_w", 113: "sm_clock_max_mhz", 114: "mem_clock_max_mhz"}
IN_ONE_QUERY: Final = 500
MAX_ODD: Final = 100
"""So many odd series are told of."""

logger = logging.getLogger(__name__)
_said: set[str] = set()
"""Names of nodes that are left to their agents, said once."""
_odd: set[str] = set()
"""Series that cannot be read, said once."""


@dataclass(slots=True)
class Seen:
    """One GPU or instance as its series tell: when last, how often, by which labels."""

    of: prometheus_cells.Of
    host: str
    since: float
    at: float
    interval_s: float | None
    labels: Mapping[str, str]
    users: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def discover(engine: PrometheusSeries, now: float) -> int:
    """Bring nodes and GPUs up to what the series say at `now`; how many GPUs go on. Repeating it changes nothing. StoreError."""
    seen = _seen(engine, now)
    facts = _facts(engine, now, seen)
    by_host: dict[str, list[Seen]] = defaultdict(list)
    for one in seen.values():
        by_host[one.host].append(one)
    with transaction.atomic():
        nodes = _nodes(by_host, now)
        _gpus(nodes, by_host, facts)
        say_doubles({name: by_host[name] for name in nodes}, now, LOOK_S)
        _blind(nodes.values(), now)
    return len(seen)


def _seen(engine: PrometheusSeries, now: float) -> dict[str, Seen]:
    """What went on within LOOK_S, by UUID; of one that two exporters tell of, what the last sample says."""
    found: dict[str, Seen] = {}
    for one in promql.instant(engine.read, f"{select(engine, ALWAYS)}[{LOOK_S}s]", now):
        try:
            of = prometheus_cells.of(one.metric)
            if of is None or not one.values:
                continue
            made = _one(of, one, engine.cluster_label)
        except ValueError as error:
            _say_odd(one.metric, str(error))
            continue
        if one.metric.get("gpu") and number(one.metric) is None:
            _say_odd(one.metric, "its gpu is no number")
        before = found.get(of.uuid)
        if before is not None:
            made.since = before.since = min(made.since, before.since)
        if before is None or before.at < made.at:
            made.users = before.users if before is not None else made.users
            found[of.uuid] = made
        elif before.interval_s is None:
            before.interval_s = made.interval_s
        for name in EXPORTED:
            if value := one.metric.get(f"exported_{name}") or one.metric.get(name):
                found[of.uuid].users[name].add(clean(value, 1000))
    for uuid in {one.of.parent for one in found.values() if one.of.parent} - found.keys():
        part = max((one for one in found.values() if one.of.parent == uuid), key=lambda one: one.at)
        found[uuid] = Seen(prometheus_cells.Of(uuid), part.host, part.since, part.at, part.interval_s, part.labels)
    return found


def _one(of: prometheus_cells.Of, one: promql.Result, cluster_label: str) -> Seen:
    times = [at for at, _ in one.values]
    steps = [after - before for before, after in pairwise(times)]
    return Seen(of, host(one.metric, cluster_label), times[0], times[-1], statistics.median(steps) if steps else None, one.metric)


def _say_odd(labels: Mapping[str, str], why: str) -> None:
    key = repr(sorted(labels.items()))
    if key not in _odd and len(_odd) < MAX_ODD:
        _odd.add(key)
        logger.warning("A series of Prometheus is odd (%s): %s", why, key[:500])


def _facts(engine: PrometheusSeries, now: float, seen: Mapping[str, Seen]) -> dict[str, dict[str, float]]:
    """Numbers that do not change, by UUID."""
    if not seen:
        return {}
    numbers = (*FACTS, dcgm_fields.FB_FREE, 252, 253)
    told = promql.instant(engine.read, select(engine, numbers), now)
    for one in told:
        one.values = [one.value] if one.value is not None else []
    cells = prometheus_cells.whole(prometheus_cells.readings(told, prometheus_cells.Habits()), {})
    rows = prometheus_cells.rows(cells, {uuid: number for number, uuid in enumerate(seen)})
    uuids = list(seen)
    kept = [name for name in FACTS.values() if name in rows.columns]
    return {
        uuids[row["entity"]]: {name: row[name] for name in kept if row[name] is not None} for row in rows.iter_rows(named=True)
    }


def select(engine: PrometheusSeries, numbers: Iterable[int]) -> str:
    """A selector of every name of these fields among the fleet's series."""
    names = "|".join(sorted(name for number in numbers for name in dcgm_fields.names(number)))
    return "{" + promql.joined(f'__name__=~"{names}"', engine.selector) + "}"


def _nodes(by_host: Mapping[str, list[Seen]], now: float) -> dict[str, Node]:
    """The nodes of these hosts by name, brought up to what was seen; those of our own agents are left out."""
    known = {node.name: node for node in Node.objects.select_for_update(no_key=True).filter(name__in=by_host)}
    ours = {name for name, node in known.items() if node.source != SOURCE}
    for name in sorted(ours - _said):
        logger.warning("Prometheus tells of %s, of which our own agent tells too; its series are left alone", name)
    _said.clear()
    _said.update(ours)
    known = {name: node for name, node in known.items() if name not in ours}
    new = [Node(name=name, source=SOURCE, connected_at=_utc(now)) for name in by_host.keys() - known.keys() - ours]
    Node.objects.bulk_create(new, ignore_conflicts=True)
    if new:
        known = {node.name: node for node in Node.objects.filter(name__in=by_host, source=SOURCE)}
    for name, node in known.items():
        told = by_host[name]
        newest = max(told, key=lambda one: one.at)
        if (interval := next((one.interval_s for one in told if one.interval_s), None)) is not None:
            node.interval_s = round(interval, 3)
        node.last_seen_at = _utc(min(now, newest.at + node.interval_s))
        node.driver_version = clean(newest.labels.get("DCGM_FI_DRIVER_VERSION", node.driver_version), 40)
        node.cuda_driver_version = clean(newest.labels.get("DCGM_FI_CUDA_DRIVER_VERSION", node.cuda_driver_version), 40)
    changed = ["interval_s", "last_seen_at", "driver_version", "cuda_driver_version"]
    Node.objects.bulk_update(known.values(), changed, batch_size=IN_ONE_QUERY)
    return known


def _gpus(nodes: Mapping[str, Node], by_host: Mapping[str, list[Seen]], facts: Mapping[str, Mapping[str, float]]) -> None:
    known = {(gpu.node_id, gpu.uuid): gpu for gpu in Gpu.objects.filter(node__in=nodes.values())}
    split = {one.of.parent for told in by_host.values() for one in told if one.of.parent}
    new: list[Gpu] = []
    changed: list[Gpu] = []
    ended = {gpu.pk for gpu in known.values() if gpu.present}
    for name, node in nodes.items():
        newest = max(one.at for one in by_host[name])
        for one in by_host[name]:
            if newest - one.at > STALE_AFTER.total_seconds() + (one.interval_s or 0):
                continue  # the node goes on and this one does not: nobody knows what it does
            wanted = _columns(one, facts.get(one.of.uuid, {}), one.of.uuid in split)
            gpu = known.get((node.pk, one.of.uuid))
            if gpu is not None:
                ended.discard(gpu.pk)
            if gpu is None:
                new.append(Gpu(node=node, uuid=one.of.uuid, **{"index": 0, **wanted}))
            elif different := [column for column, value in wanted.items() if getattr(gpu, column) != value]:
                for column in different:
                    setattr(gpu, column, wanted[column])
                changed.append(gpu)
    Gpu.objects.bulk_create(new, batch_size=IN_ONE_QUERY)
    Gpu.objects.bulk_update(changed, _COLUMNS, batch_size=IN_ONE_QUERY)
    Gpu.objects.filter(pk__in=ended).update(present=False)
    moved = {one.uuid for one in new}
    if moved:  # a GPU that was put into another machine is not in the one before
        Gpu.objects.filter(uuid__in=moved, node__source=SOURCE).exclude(node__in=nodes.values()).update(present=False)


_COLUMNS: Final = (
    "index", "model", "pci_bus_id", "mig_mode", "parent_uuid", "mig_profile", "mig_gpu_instance", "labels", "present", *FACTS.values()
)  # fmt: skip


def _columns(one: Seen, facts: Mapping[str, float], is_split: bool) -> dict[str, Any]:
    """The columns of a GPU's row that its series tell; what they do not tell is left as it is."""
    labels, model = one.labels, one.labels.get("modelName") or "unknown GPU"
    columns: dict[str, Any] = {
        "model": clean(f"{model} MIG {one.of.profile}" if one.of.parent else model, 100),
        "pci_bus_id": clean(labels.get("pci_bus_id", ""), 40),
        "parent_uuid": one.of.parent or "",
        "mig_profile": (one.of.profile or "")[:40],
        "mig_gpu_instance": one.of.instance,
        "labels": {name: ",".join(sorted(values)) for name, values in sorted(one.users.items())},
        "present": True,
    }
    if (index := number(labels)) is not None:
        columns["index"] = index
    if is_split:
        columns["mig_mode"] = True
    for name, value in facts.items():
        columns[name] = int(value) if name == "mem_total_bytes" else float(value)
    return columns


def _blind(nodes: Iterable[Node], now: float) -> None:
    """Say of every node that nobody knows who holds its GPUs: an exporter does not tell."""
    wanted = {node.pk for node in nodes}
    said = set(Absence.objects.filter(metric=PROCESSES, until=None, gpu=None, node__in=wanted).values_list("node_id", flat=True))
    Absence.objects.bulk_create(
        Absence(node_id=pk, metric=PROCESSES, reason="unsupported", since=_utc(now)) for pk in wanted - said
    )


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
