"""Whether a window without a trouble shows that it is over: only where it holds nothing but steady work does it.

No evidence is a window in which samples are lacking, in which a job started, or warms up. A program that starts again first
loads, compiles and fills caches, and does then none of what its finding is about.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import polars as pl

from advisor.finding import Finding as Found
from advisor.rule import Rule
from fleet.findings.windows import AWAY_S, STALE_S, Look
from fleet.inventory.models import Node
from fleet.store import clock

LOST_STEPS: Final = 1.5
"""Of an agent that said hello within the window, a step between two samples that is so many times the usual one is a gap:
a new boot forgets what it had not sent. One that was merely connected again sends everything."""


def unsteady(
    rules: Iterable[Rule],
    found: Iterable[Found],
    still_open: Iterable[str],
    seen: Look,
    at: datetime,
    span_s: int,
    patience_s: float,
) -> set[tuple[str, str]]:
    """Rule and target of the open findings of which this window shows nothing, and that is no evidence that they are over.

    StoreError when the store cannot be read.
    """
    by_id = {one.id: one for one in rules}
    shown = {one.fingerprint for one in found}
    gpus_of: dict[int | None, list[int]] = defaultdict(list)
    for (scope, _), place in seen.places.items():
        if scope == "gpu":
            gpus_of[place.node] += place.gpus
    asked: dict[tuple[str, str], Collection[int]] = {}
    for fingerprint in still_open:
        rule_id, scope, target = fingerprint.split(":", 2)
        home = seen.places.get((scope, target))
        if fingerprint not in shown and rule_id in by_id and home is not None:
            asked[rule_id, target] = gpus_of[home.node] if scope == "node" else home.gpus
    gpus = sorted({gpu for held in asked.values() for gpu in held})
    if not gpus:
        return set()
    end = int(at.timestamp())
    gaps = _with_gap(gpus, seen, end - span_s)
    young = _young(gpus, seen, end - span_s, patience_s)
    return {
        (rule_id, target)
        for (rule_id, target), held in asked.items()
        if not gaps.isdisjoint(held) or (by_id[rule_id].group in ("performance", "capacity") and not young.isdisjoint(held))
    }


def _with_gap(gpus: Collection[int], seen: Look, start: int) -> set[int]:
    """Those of the GPUs of which samples are lacking since `start`."""
    node_of = {place.gpus[0]: place.node for (scope, _), place in seen.places.items() if scope == "gpu"}
    began = datetime.fromtimestamp(start, UTC)
    hellos = Node.objects.filter(pk__in={node_of[gpu] for gpu in gpus}, connected_at__gt=began)
    greeted = set(hellos.values_list("pk", flat=True))
    times = seen.window.gpu.select("gpu", "t").filter(pl.col("gpu").is_in(list(gpus))).sort("gpu", "t")
    steps = times.group_by("gpu").agg(
        pl.col("t").diff().max().alias("longest"), pl.col("t").diff().median().alias("usual"), pl.col("t").first().alias("first")
    )
    complete = set()
    for gpu, longest, usual, first in steps.iter_rows():
        if longest is None:
            continue
        most = LOST_STEPS * usual if node_of[gpu] in greeted else max(AWAY_S, 3 * usual)
        if longest <= most and first - start <= max(AWAY_S, 3 * usual):
            complete.add(gpu)
    return set(gpus) - complete


def _young(gpus: Collection[int], seen: Look, start: int, patience_s: float) -> set[int]:
    """Those of the GPUs whose main holder was not there yet `patience_s` before `start`, or left since.

    The main holder has the most memory: loader processes that touched the GPU come and go with each epoch.
    """
    now = seen.window.process.filter(pl.col("gpu").is_in(list(gpus)))
    if now.is_empty():
        return set()
    ends: Mapping[int, float] = dict(seen.window.gpu.group_by("gpu").agg(pl.col("t").max()).iter_rows())
    before = clock.window("process", int(start - patience_s), start, list(gpus), ["cpu_pct"])
    early = before.group_by(gpu=pl.col("entity").cast(pl.Int64), pid=pl.col("pid").cast(pl.Int64)).agg(
        early=pl.col("ts").min().cast(pl.Float64)
    )
    holders = (
        now.group_by("gpu", pl.col("pid").cast(pl.Int64))
        .agg(pl.col("t").min().alias("first"), pl.col("t").max().alias("last"), pl.col("gpu_mem_bytes").last().alias("size"))
        .join(early, on=["gpu", "pid"], how="left")
        .with_columns(
            began=pl.coalesce("early", "first"),
            here=pl.col("last") >= pl.col("gpu").replace_strict(ends, return_dtype=pl.Float64) - STALE_S / 2,
            size=pl.col("size").fill_null(0),
        )
        .sort("gpu", "here", "size", "began", descending=[False, True, True, False])
        .unique("gpu", keep="first", maintain_order=True)
    )
    latest = start - patience_s + AWAY_S
    return {gpu for gpu, began, here in holders.select("gpu", "began", "here").iter_rows() if not here or began > latest}
