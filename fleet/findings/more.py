"""What the advisor knows beside the samples of a look: the rarer metrics, what processes are told to be, serving engines, profiles."""

from collections.abc import Collection
from datetime import datetime
from typing import Final

import polars as pl

from advisor.beside import More
from advisor.features import Frames
from fleet.benches.peers import bench_features
from fleet.findings import minutes, told
from fleet.findings.lifecycle import Place, Target
from fleet.findings.windows import Look
from fleet.profiles import newest
from fleet.slow import frames as slow

_NOW_S: Final = 15.0
"""Who held a GPU in the last seconds of the window holds it now."""


def more(at: datetime, seen: Look, span_s: int, wanted: Collection[str]) -> More:
    """What is known at `at` beside `seen`; `wanted`: the features that rules read. StoreError when the store cannot be read."""
    words = told.WORDS.frame(at, wanted)
    process = seen.window.process.filter(pl.col("t") >= at.timestamp() - _NOW_S)
    cards = seen.window.facts.select("gpu", "node", "job")
    holders = process.join(cards.select("gpu", "node"), on="gpu")
    engines, serves = told.engines(at, holders, told.WORDS.serving())
    engines = engines.filter(pl.col("node").is_in(list(seen.fresh_nodes)))
    seldom = slow.frames(at)
    for frame in (bench_features(at), told.allocations(at)):
        seldom["gpu"] = seldom["gpu"].join(frame, on="gpu", how="full", coalesce=True)
    newest.assign(at, seen.window.process, cards)
    seldom["job"] = seldom["job"].join(newest.profile_features(at), on="job", how="full", coalesce=True)
    return More(
        partial=minutes.last(at, span_s, serves),
        words=words,
        engines=engines,
        serves=serves,
        slow=seldom,
        constants=slow.constants(),
    )


def places(frames: Frames) -> dict[Target, Place]:
    """Where the services of `frames` live, and the fleet."""
    found: dict[Target, Place] = {}
    if not frames.service.is_empty():
        for service, node, gpus in frames.service.select("service", "node", "members").iter_rows():
            found["service", str(service)] = Place(node, tuple(gpus))
    for (fleet,) in frames.fleet.select("fleet").iter_rows() if not frames.fleet.is_empty() else ():
        found["fleet", fleet] = Place(None)
    return found
