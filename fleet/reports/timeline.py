"""What held a job back, bin by bin: the advisor's judgement of each stretch of its time.

A job has at most MOST_BINS bins, of BIN_S times a power of two. Short bins are judged whole, of longer ones SPOTS stretches; of a job on more than
GPUS_JUDGED GPUs those of some nodes. So a month of 512 GPUs costs as much as some hours of 64. Bins that were judged before are taken
over, and joined in pairs as the job grows: what is judged while its telemetry is there stays when it has aged out.

Of a GPU that others held too only the time in which it was the job's own is read; how much of a bin was its own and how much was shared, each
says, and a bin whose own time turns out to be another is judged anew.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import polars as pl
from django.db.models import Q

from advisor.bottleneck import SHARES
from advisor.features import features_of
from advisor.frames import Window
from advisor.measured import HOST_METRICS, measured
from advisor.samples import GPU_METRICS, PROCESS_METRICS
from fleet.findings.windows import facts_of
from fleet.inventory.models import Absence, Gpu
from fleet.reports.bins import UNKNOWN, Bin, bin_s, joined, together
from fleet.reports.spans import Held, Span, seconds_by
from fleet.store import clock
from wire.messages import PROCESSES
from wire.metrics import Scope

WHOLE_S: Final = 480
SPOTS: Final = 2
SPOT_S: Final = 240
GPUS_JUDGED: Final = 64
ROWS_AT_ONCE: Final = 100_000
MIN_SAMPLES: Final = 10
"""Agents that read every ten seconds make two dozen in a spot; the advisor takes a step off its confidence below twenty."""
PATIENCE_S: Final = 2.0
LATE_S: Final = 30
"""A bin that ended so long ago is judged for good."""
_READ: Final[dict[Scope, tuple[str, tuple[str, ...]]]] = {
    "gpu": ("gpu", GPU_METRICS),
    "host": ("node", HOST_METRICS),
    "process": ("gpu", (*PROCESS_METRICS, "user")),
}


@dataclass(frozen=True, slots=True)
class _Spot:
    bin: int
    start: int
    end: int


def timeline(held: Held, known: Sequence[Bin] = (), judged_to: int = 0) -> list[Bin]:
    """The bins in order; those of `known`, which were judged at `judged_to`, are not judged again. StoreError when the store cannot be read."""
    length = bin_s(held)
    cuts = [(at, min(at + length, held.end)) for at in range(held.start, held.end, length)]
    own = dict(zip((at for at, _ in cuts), seconds_by(held.spans, cuts), strict=True))
    shared = dict(zip(own, seconds_by(held.taken, cuts), strict=True))
    kept = [Bin(**{"own_s": UNKNOWN, "shared_s": 0, **one}) for one in known]
    before = {one["at"]: one for one in joined(kept, held.start, length) if one["at"] + one["seconds"] <= judged_to - LATE_S}
    same = {at for at, one in before.items() if one["bottleneck"] and one["own_s"] in (UNKNOWN, own.get(at))}
    missing = [(at, end) for at, end in cuts if at not in same and own[at]]
    found: dict[int, Bin] = {}
    for part in _pieces([spot for at, end in missing for spot in _spots(at, end)]):
        for at, rows in _judged(held, part).items():
            found[at] = together([*([found[at]] if at in found else []), *rows], at, min(length, held.end - at))
    told = ((at, found.get(at) or (before.get(at) if own[at] else None) or together([], at, end - at)) for at, end in cuts)
    return [Bin(**{**one, "own_s": own[at], "shared_s": shared[at]}) for at, one in told]


def _spots(start: int, end: int) -> list[_Spot]:
    if end - start <= WHOLE_S:
        return [_Spot(start, start, end)]
    gap = (end - start - SPOTS * SPOT_S) // (SPOTS + 1)
    firsts = [start + gap * (number + 1) + SPOT_S * number for number in range(SPOTS)]
    return [_Spot(start, first, first + SPOT_S) for first in firsts]


def _pieces(spots: Sequence[_Spot]) -> Iterator[list[_Spot]]:
    """The spots in groups that follow each other, of a bounded length."""
    group: list[_Spot] = []
    for spot in spots:
        long = group and (spot.end - group[0].start) * GPUS_JUDGED > ROWS_AT_ONCE
        if group and (long or spot.start != group[-1].end):
            yield group
            group = []
        group.append(spot)
    if group:
        yield group


def _chosen(spans: Sequence[Span]) -> list[Span]:
    """The spans of GPUS_JUDGED GPUs at most, on nodes that lie evenly among all of them."""
    of_node: dict[int, set[int]] = defaultdict(set)
    for span in spans:
        of_node[span.node].add(span.gpu)
    nodes = sorted(of_node)
    total = sum(len(gpus) for gpus in of_node.values())
    every = max(1, -(-total // GPUS_JUDGED))
    kept = set(nodes[::every])
    return [span for span in spans if span.node in kept]


def _judged(held: Held, spots: Sequence[_Spot]) -> dict[int, list[Bin]]:
    """By bin the judgement of each of its spots; nothing where too little was measured.

    Each GPU at each spot is a GPU of its own to the advisor, and each spot a job, so that one call judges them all.
    """
    start, end = spots[0].start, spots[-1].end
    spans = _chosen([span for span in held.spans if span.start < end and span.end > start])
    nodes = sorted({span.node for span in spans})
    if not nodes:
        return {}
    gpus = list(Gpu.objects.filter(node__in=nodes).order_by("pk").values_list("pk", flat=True))
    facts = facts_of(gpus)
    cuts = pl.DataFrame(
        [(number, spot.start, spot.end) for number, spot in enumerate(spots)],
        schema={"spot": pl.Int64, "from": pl.Int64, "to": pl.Int64},
        orient="row",
    )
    own = pl.DataFrame(
        [(span.gpu, span.start, span.end) for span in spans],
        schema={"gpu": pl.Int64, "held_from": pl.Int64, "held_to": pl.Int64},
        orient="row",
    )
    blind = _blind(nodes, start, end)
    held_then = (
        own.join_where(cuts, pl.col("held_from") < pl.col("to"), pl.col("held_to") > pl.col("from"))
        .select("gpu", "spot")
        .unique()
    )
    read = {scope: _read(scope, start, end, nodes if scope == "host" else gpus, cuts) for scope in _READ}
    read |= {scope: _of_own_time(read[scope], held_then, own) for scope, (key, _) in _READ.items() if key == "gpu"}
    at_all = read["gpu"].select("gpu", "spot").unique()
    mine = at_all.join(held_then, on=["gpu", "spot"])
    told = facts.join(at_all, on="gpu").join(mine.with_columns(mine=True), on=["gpu", "spot"], how="left")
    told = told.with_columns(job=pl.when(pl.col("mine")).then(pl.col("spot").cast(pl.String)))
    count = len(spots)
    keyed = {scope: _keyed(read[scope], key, count).drop("spot") for scope, (key, _) in _READ.items()}
    window = Window(
        keyed["gpu"],
        keyed["host"],
        keyed["process"],
        _keyed(_keyed(told, "node", count), "gpu", count).select(facts.columns),
        frozenset(gpu * count + number for gpu in blind for number in range(count)),
    )
    if window.facts.is_empty() or mine.is_empty():
        return {}
    frames = features_of([measured(window, PATIENCE_S)], min_samples=MIN_SAMPLES)
    busy = frames.gpu.filter(pl.col("job").is_not_null() & pl.col("evaluated")).group_by("job").agg(
        pl.len().alias("judged"), *[pl.col("busy").quantile(one / 100, "linear").alias(f"p{one}") for one in (5, 50, 95)],
        pl.col("window_s").median().alias("judged_s"),
    )  # fmt: skip
    found: dict[int, list[Bin]] = defaultdict(list)
    for row in frames.job.join(busy, on="job").sort("job").iter_rows(named=True):
        spot = spots[int(row["job"])]
        shares: dict[str, float] = {name: row[f"share_{name}"] for name in SHARES if row[f"share_{name}"] is not None}
        found[spot.bin].append(
            Bin(
                at=spot.bin,
                seconds=spot.end - spot.start,
                own_s=UNKNOWN,
                shared_s=0,
                judged_s=row["judged_s"],
                gpus=row["judged"],
                bottleneck=row["bottleneck"] or "",
                confidence=row["confidence"] or "",
                shares=shares,
                busy={name: row[name] for name in ("p5", "p50", "p95") if row[name] is not None},
            )
        )
    return found


def _read(scope: Scope, start: int, end: int, entities: Sequence[int], cuts: pl.DataFrame) -> pl.DataFrame:
    key, metrics = _READ[scope]
    frame = clock.window(scope, start, end, entities, metrics).rename({"entity": key, "ts": "t"})
    frame = frame.with_columns(pl.col(key).cast(pl.Int64), pl.col("t").cast(pl.Int64))
    at = cuts.select("spot", t="from").sort("t")
    frame = frame.sort("t").join_asof(at, on="t").filter(pl.col("spot").is_not_null())
    return frame.with_columns(pl.col("t").cast(pl.Float64))


def _of_own_time(frame: pl.DataFrame, held_then: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Of GPUs that the job held at a spot the rows of its own time alone; of the others on its nodes all."""
    others = frame.join(held_then, on=["gpu", "spot"], how="anti")
    mine = frame.join(held_then, on=["gpu", "spot"]).join(own, on="gpu")
    mine = mine.filter((pl.col("t") >= pl.col("held_from")) & (pl.col("t") < pl.col("held_to")))
    return pl.concat([others, mine.select(frame.columns)])


def _keyed(frame: pl.DataFrame, key: str, count: int) -> pl.DataFrame:
    """The frame with keys that tell spots apart, in their order."""
    order = [name for name in ("pid", "t") if name in frame.columns]
    return frame.with_columns((pl.col(key) * count + pl.col("spot")).alias(key)).sort(key, *order)


def _blind(nodes: Sequence[int], start: int, end: int) -> frozenset[int]:
    """The GPUs whose list of processes could not be read then."""
    first, last = (datetime.fromtimestamp(at, UTC) for at in (start, end))
    then = Q(until=None) | Q(until__gt=first)
    over = list(Absence.objects.filter(then, metric=PROCESSES, node__in=nodes, since__lt=last).values_list("node_id", "gpu_id"))
    whole = {node for node, gpu in over if gpu is None}
    named = {gpu for _, gpu in over if gpu is not None}
    if whole:
        named |= set(Gpu.objects.filter(node__in=whole).values_list("pk", flat=True))
    return frozenset(named)
