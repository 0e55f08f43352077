"""What held a job back, bin by bin: the advisor's judgement of each stretch of its time.

A job has at most MOST_BINS bins, of BIN_S times a power of two. Short bins are judged whole, of longer ones SPOTS stretches; of a job on more than
GPUS_JUDGED GPUs those of some nodes. So a month of 512 GPUs costs as much as some hours of 64. Bins that were judged before are taken
over, and joined in pairs as the job grows: what is judged while its telemetry is there stays when it has aged out.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypedDict

import polars as pl
from django.db.models import Q

from advisor import bottleneck
from advisor.bottleneck import SHARES
from advisor.features import features_of
from advisor.frames import Window
from advisor.measured import HOST_METRICS, measured
from advisor.samples import GPU_METRICS, PROCESS_METRICS
from fleet.findings.windows import facts_of
from fleet.inventory.models import Absence, Gpu
from fleet.reports.spans import Held, Span
from fleet.store import clock
from wire.messages import PROCESSES
from wire.metrics import Scope

BIN_S: Final = 30
MOST_BINS: Final = 60
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
_RANKS: Final = ("high", "medium", "low")


class Bin(TypedDict):
    """One stretch: `at` (UTC seconds) and `seconds` long, of which `judged_s` were judged on `gpus` GPUs. Empty label: not judged."""

    at: int
    seconds: int
    judged_s: float
    gpus: int
    bottleneck: str
    confidence: str
    shares: dict[str, float]
    busy: dict[str, float]


@dataclass(frozen=True, slots=True)
class _Spot:
    bin: int
    start: int
    end: int


def bin_s(held: Held) -> int:
    """Seconds of a bin: the shortest that make MOST_BINS at most."""
    length = BIN_S
    while length * MOST_BINS < held.end - held.start:
        length *= 2
    return length


def timeline(held: Held, known: Sequence[Bin] = (), judged_to: int = 0) -> list[Bin]:
    """The bins in order; those of `known`, which were judged at `judged_to`, are not judged again. StoreError when the store cannot be read."""
    length = bin_s(held)
    before = {one["at"]: one for one in joined(known, held.start, length) if one["at"] + one["seconds"] <= judged_to - LATE_S}
    starts = range(held.start, held.end, length)
    missing = [at for at in starts if at not in before or not before[at]["bottleneck"]]
    found: dict[int, Bin] = {}
    for part in _pieces([spot for at in missing for spot in _spots(at, min(at + length, held.end))]):
        for at, rows in _judged(held, part).items():
            found[at] = together([*([found[at]] if at in found else []), *rows], at, min(length, held.end - at))
    return [found.get(at) or before.get(at) or together([], at, min(length, held.end - at)) for at in starts]


def joined(bins: Sequence[Bin], start: int, length: int) -> list[Bin]:
    """The bins as bins of `length`, which theirs divides."""
    groups: dict[int, list[Bin]] = defaultdict(list)
    for one in bins:
        groups[start + (one["at"] - start) // length * length].append(one)
    return [together(group, at, sum(one["seconds"] for one in group)) for at, group in sorted(groups.items())]


def together(bins: Sequence[Bin], at: int, seconds: int) -> Bin:
    """The bins as one: shares by the time judged, the label that the advisor gives them."""
    known = [one for one in bins if one["judged_s"] > 0 and one["shares"]]
    total = sum(one["judged_s"] for one in known)
    if not known:
        return Bin(at=at, seconds=seconds, judged_s=0.0, gpus=0, bottleneck="", confidence="", shares={}, busy={})
    shares = {name: sum(one["shares"].get(name, 0.0) * one["judged_s"] for one in known) / total for name in SHARES}
    busy = {
        key: round(sum(one["busy"][key] * one["judged_s"] for one in known) / total, 4) for key in known[0]["busy"]
        if all(key in one["busy"] for one in known)
    }  # fmt: skip
    frame = pl.DataFrame({f"share_{name}": [share] for name, share in shares.items()})
    return Bin(
        at=at,
        seconds=seconds,
        judged_s=round(total, 1),
        gpus=max(one["gpus"] for one in known),
        bottleneck=str(frame.select(bottleneck.label()).item()),
        confidence=max((one["confidence"] for one in known), key=_rank),
        shares={name: round(share, 4) for name, share in shares.items() if share >= 0.0005},
        busy=busy,
    )


def _rank(confidence: str) -> int:
    return _RANKS.index(confidence) if confidence in _RANKS else len(_RANKS) - 1


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
    read = {scope: _read(scope, start, end, nodes if scope == "host" else gpus, cuts) for scope in _READ}
    at_all = read["gpu"].select("gpu", "spot").unique().join(cuts, on="spot")
    mine = at_all.join(own, on="gpu").filter((pl.col("held_from") < pl.col("to")) & (pl.col("held_to") > pl.col("from")))
    told = facts.join(at_all, on="gpu").join(
        mine.select("gpu", "spot").unique().with_columns(mine=True), on=["gpu", "spot"], how="left"
    )
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


def summed(bins: Sequence[Bin]) -> Mapping[str, Any]:
    """`bottleneck`, `confidence` and `shares` of all the bins, by the time that each is long; empty where none was judged."""
    weighted = [Bin(**{**one, "judged_s": float(one["seconds"])}) for one in bins if one["bottleneck"]]
    whole = together(weighted, 0, 0)
    return {"bottleneck": whole["bottleneck"], "confidence": whole["confidence"], "shares": whole["shares"]}
