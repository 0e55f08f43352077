"""The advisor's Window of the fleet: series from the store, facts from inventory, jobs from who holds the GPUs.

Only what is fresh is looked at. A node that is stale, or a GPU of it that its agent no longer reports or whose driver
gives no values any more, is left out, so nothing is concluded about it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Final

import polars as pl

from advisor.frames import CONSTANTS, FACTS, Window
from advisor.measured import HOST_METRICS, measured
from advisor.samples import GPU_METRICS, PROCESS_METRICS
from fleet.findings.judged import Place, Target
from fleet.inventory.models import STALE_AFTER, Absence, Gpu, Node
from fleet.jobs.attribution import Attribution, Labels, attribute
from fleet.jobs.holding import ended_within, holders
from fleet.store import clock
from wire.messages import PROCESSES
from wire.metrics import HELD, Scope

_READ: Final[dict[Scope, tuple[str, tuple[str, ...]]]] = {
    "gpu": ("gpu", GPU_METRICS),
    "host": ("node", HOST_METRICS),
    "process": ("gpu", (*PROCESS_METRICS, "user")),
}
"""By scope: what the advisor calls its entity, and the columns that it looks at."""

NOTHING: Final = Window(
    pl.DataFrame(schema={"gpu": pl.Int64, "t": pl.Float64}),
    pl.DataFrame(schema={"node": pl.Int64}),
    pl.DataFrame(schema={"gpu": pl.Int64, "pid": pl.Int64, "t": pl.Float64, "gpu_mem_bytes": pl.Int64}),
    pl.DataFrame(schema=FACTS),
)

STALE_S: Final = STALE_AFTER.total_seconds()
AWAY_S: Final = 5.0
"""A job that none of its GPUs listed for so long was away: the window holds a start or an end, not only the job at work.
Shorter than the pause between two judgements, so that a program's end is not taken twice for an improvement."""


GPUS_AT_ONCE: Final = 2_000
"""So many GPUs' rows are in memory at a time, of whole nodes: 150 MB of 300 s at 1 Hz, and several times that while they are measured."""


@dataclass(slots=True)
class Card:
    """What is read of a GPU's row: of thousands, whole objects would take four times as long to make."""

    pk: int
    node_id: int
    index: int
    model: str
    compute_capability: str
    memory_kind: str
    power_scope: str
    mig_mode: bool | None
    parent_uuid: str
    mem_total_bytes: int | None
    power_limit_w: float | None
    power_limit_default_w: float | None
    sm_clock_max_mhz: float | None
    mem_clock_max_mhz: float | None
    pcie_link_gen_max: int | None
    pcie_link_width_max: int | None
    nvlink_links: int | None
    nvlink_bytes_per_s_per_link: float | None


_CARD: Final = tuple(one.name for one in fields(Card))


@dataclass(frozen=True, slots=True)
class Look:
    """A window with the place of each target in it, the nodes and GPUs that report, and the GPUs whose holders nobody knows.

    `window` has of GPUs the times of their samples and of processes what they hold, no more; `measured` is what the advisor makes
    of all the rest (advisor/measured.py). `away`: jobs of which no process held anything during a part of the window, `unused`: during
    all of it. `whose`: how each GPU's job is known.
    """

    window: Window
    places: Mapping[Target, Place]
    fresh_nodes: frozenset[int]
    gpus: frozenset[int] = frozenset()
    blind: frozenset[int] = frozenset()
    away: frozenset[str] = frozenset()
    unused: frozenset[str] = frozenset()
    whose: Attribution = field(default_factory=Attribution)
    measured: tuple[pl.DataFrame, ...] = ()


def look(at: datetime, span_s: int, patience_s: float, labels: Labels | None = None) -> Look:
    """The fleet's last `span_s` seconds before `at`, measured with patience_s; StoreError when the store cannot be read.

    `labels`: what processes told of themselves, by node and pid, for whose job each works.
    """
    fresh = {node.pk: node for node in Node.objects.filter(last_seen_at__gte=at - STALE_AFTER)}
    cards = Gpu.objects.filter(node__in=fresh, present=True).order_by().values_list(*_CARD) if fresh else ()
    gpus = {card[0]: Card(*card) for card in cards}
    blind = _blind(gpus)
    span = int(at.timestamp()) - span_s, int(at.timestamp())
    ahead = {scope: clock.ahead(scope) for scope in _READ}
    seen: list[Window] = []
    parts: list[pl.DataFrame] = []
    given, ended = holders(at, processes=False), ended_within(at - timedelta(seconds=span_s), at)
    names = {pk: node.name for pk, node in fresh.items()}
    whose = Attribution()
    here: set[str] = set()
    used: set[str] = set()
    for nodes in _together(fresh, gpus):
        held = {pk: gpu for pk, gpu in gpus.items() if gpu.node_id in nodes}
        gpu, host, process = (
            _read(scope, span, nodes if scope == "host" else held, ahead[scope]) for scope in ("gpu", "host", "process")
        )
        reporting = _reporting(gpu, {pk: one.node_id for pk, one in held.items()})
        if len(reporting) < len(held):
            gpu, process = (frame.filter(pl.col("gpu").is_in(reporting)) for frame in (gpu, process))
        part = attribute(at, process, {pk: held[pk].node_id for pk in reporting}, names, given, labels or {}, ended)
        facts = pl.DataFrame(
            [_facts(held[pk], fresh[held[pk].node_id], part.jobs.get(pk)) for pk in sorted(reporting)], schema=FACTS, strict=False
        )
        parts.append(measured(Window(gpu, host, process, facts, blind), patience_s))
        here |= _here(gpu, process, part.jobs)
        used |= {part.jobs[pk] for pk in part.used | blind if pk in part.jobs}
        whose.add(part)
        held_bytes = process.select("gpu", "pid", "t", "gpu_mem_bytes")
        seen.append(Window(gpu.select("gpu", "t"), host.select("node").unique(), held_bytes, facts, blind))
    window = NOTHING
    if seen:
        gpu, host, process, facts = (
            pl.concat([getattr(one, name) for one in seen]) for name in ("gpu", "host", "process", "facts")
        )
        window = Window(gpu, host, process, facts, blind)
    known = set(window.facts["gpu"].to_list())
    home = set(window.host["node"].to_list()) | {gpus[pk].node_id for pk in known}
    jobs = frozenset(whose.jobs.values())
    places = _places(known, gpus, whose.jobs, home)
    return Look(window, places, frozenset(home), frozenset(known), blind, jobs - here, jobs - used, whose, measured=tuple(parts))


def _together(nodes: Mapping[int, Node], gpus: Mapping[int, Card]) -> Iterator[dict[int, Node]]:
    """The nodes in groups of about GPUS_AT_ONCE GPUs, those with near ids together: their rows lie near each other."""
    held: dict[int, list[int]] = defaultdict(list)
    for pk, gpu in gpus.items():
        held[gpu.node_id].append(pk)
    group: dict[int, Node] = {}
    count = 0
    for pk in sorted(nodes, key=lambda pk: (min(held[pk], default=0), pk)):
        group[pk] = nodes[pk]
        count += len(held[pk])
        if count >= GPUS_AT_ONCE:
            yield group
            group, count = {}, 0
    if group:
        yield group


def _here(gpu: pl.DataFrame, process: pl.DataFrame, jobs: Mapping[int, str]) -> set[str]:
    """The jobs of which some GPU listed somebody all the time: between no two of its samples nobody for longer than AWAY_S, or three of them."""
    of_jobs = pl.col("gpu").is_in(list(jobs))
    span = [pl.col("t").min().alias("first"), pl.col("t").max().alias("last"), pl.len()]
    samples = gpu.select("gpu", "t").filter(of_jobs).group_by("gpu").agg(span)
    ends = [samples.select("gpu", pl.col(name).alias("t")) for name in ("first", "last")]
    listed = pl.concat([process.select("gpu", "t").filter(of_jobs), *ends])
    longest = listed.group_by("gpu").agg(pl.col("t").sort().diff().max().alias("longest"))
    pause = (pl.col("last") - pl.col("first")) / (pl.col("len") - 1).clip(1)
    kept = samples.join(longest, on="gpu").filter(pl.col("longest") <= pl.max_horizontal(pl.lit(AWAY_S), 3 * pause))
    return {jobs[pk] for pk in kept["gpu"].to_list()}


def _read(scope: Scope, span: tuple[int, int], entities: Collection[int], ahead: clock.Ahead) -> pl.DataFrame:
    key, metrics = _READ[scope]
    frame = clock.window(scope, *span, list(entities), metrics, ahead=ahead)
    return frame.rename({"entity": key, "ts": "t"}).with_columns(pl.col(key).cast(pl.Int64), pl.col("t").cast(pl.Float64))


def _reporting(gpu: pl.DataFrame, node_of: Mapping[int, int]) -> set[int]:
    """The GPUs whose newest sample with a value keeps up with their node's newest.

    A driver that hangs leaves rows without any value: they say that the node is there, and nothing about the GPU.
    """
    values = pl.any_horizontal(pl.exclude("gpu", "t", *HELD).is_not_null())  # what is held says nothing of now
    newest = gpu.group_by("gpu").agg(pl.col("t").max(), pl.col("t").filter(values).max().alias("valued"))
    node_newest: dict[int, float] = defaultdict(float)
    for pk, t, _ in newest.iter_rows():
        node_newest[node_of[pk]] = max(node_newest[node_of[pk]], t)
    return {pk for pk, _, valued in newest.iter_rows() if valued is not None and valued >= node_newest[node_of[pk]] - STALE_S}


def _blind(gpus: Mapping[int, Card]) -> frozenset[int]:
    """The GPUs whose list of processes cannot be read now: that none is listed does not mean that nobody holds them."""
    absent = Absence.objects.filter(metric=PROCESSES, until=None, node__in={gpu.node_id for gpu in gpus.values()})
    cells = set(absent.values_list("node_id", "gpu_id"))  # without a GPU: of all the node's
    return frozenset(pk for pk, gpu in gpus.items() if not cells.isdisjoint([(gpu.node_id, pk), (gpu.node_id, None)]))


def _facts(gpu: Card, node: Node, job: str | None) -> dict[str, object]:
    return {
        "gpu": gpu.pk,
        "node": node.pk,
        "job": job,
        "index": gpu.index,
        "name": gpu.model,
        "compute_capability": gpu.compute_capability or None,
        "memory_kind": gpu.memory_kind or None,
        "power_scope": gpu.power_scope or None,
        "mig": bool(gpu.parent_uuid) or gpu.mig_mode,
        **{name: getattr(gpu, name) for name in CONSTANTS},
        "cores": node.cores,
        "host_mem_total_bytes": node.mem_total_bytes,
    }


def _places(reporting: set[int], gpus: Mapping[int, Card], jobs: Mapping[int, str], nodes: set[int]) -> dict[Target, Place]:
    places: dict[Target, Place] = {("node", str(pk)): Place(pk) for pk in nodes}
    members: dict[str, list[int]] = defaultdict(list)
    for pk in sorted(reporting):
        places["gpu", str(pk)] = Place(gpus[pk].node_id, (pk,))
        if pk in jobs:
            members[jobs[pk]].append(pk)
    for job, held in members.items():
        places["job", job] = Place(gpus[held[0]].node_id, tuple(held))
    return places


def facts_of(gpus: Collection[int]) -> pl.DataFrame:
    """`Window.facts` of these GPUs, without jobs; those that the inventory does not have are left out."""
    cards = [Card(*card) for card in Gpu.objects.filter(pk__in=gpus).order_by("pk").values_list(*_CARD)]
    nodes = Node.objects.in_bulk({card.node_id for card in cards})
    return pl.DataFrame([_facts(card, nodes[card.node_id], None) for card in cards], schema=FACTS, strict=False)
