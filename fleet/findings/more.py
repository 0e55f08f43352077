"""What the advisor knows beside the samples of a look: the rarer metrics, what processes are told to be, serving engines, profiles."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

import polars as pl

from advisor.beside import More
from advisor.features import Frames
from fleet.benches.peers import bench_features
from fleet.findings import allocated, minutes, told
from fleet.findings.judged import Place, Target
from fleet.findings.windows import Look
from fleet.profiles import newest
from fleet.slow import frames as slow

_NOW_S: Final = 15.0
"""Who held a GPU in the last seconds of the window holds it now."""


def more(at: datetime, seen: Look, span_s: int, wanted: Collection[str]) -> More:
    """What is known at `at` beside `seen`; `wanted`: the features that rules read. StoreError when the store cannot be read."""
    words = told.WORDS.frame(at, wanted)
    engines, serves = _engines(at, seen, told.WORDS.serving())
    newest.assign(at, seen.window.process, seen.window.facts.select("gpu", "node", "job"))
    return More(
        partial=minutes.last(at, span_s, serves),
        words=words,
        engines=engines,
        serves=serves,
        slow=_slow(at, at, seen),
        constants=slow.constants(),
    )


def more_of_past(at: datetime, now: datetime, seen: Look, span_s: int, wanted: Collection[str]) -> More:
    """As `more`, of a window of the past that nobody keeps: samples, engines and processes as they were then, by what their agents told
    of them last. What advisor.conditions.of_now lists is known as it is `now` alone, and stands for then."""
    words, serving = told.then(at, wanted)
    engines, serves = _engines(at, seen, serving)
    return More(
        partial=minutes.once(at, span_s, serves),
        words=words,
        engines=engines,
        serves=serves,
        slow=_slow(now, at, seen),
        constants=slow.constants(),
    )


def _engines(at: datetime, seen: Look, serving: Mapping[tuple[int, int], str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    process = seen.window.process.filter(pl.col("t") >= at.timestamp() - _NOW_S)
    holders = process.join(seen.window.facts.select("gpu", "node"), on="gpu")
    engines, serves = told.engines(at, holders, serving)
    return engines.filter(pl.col("node").is_in(list(seen.fresh_nodes))), serves


def _slow(now: datetime, at: datetime, seen: Look) -> dict[str, pl.DataFrame]:
    """The slow features as they are `now`, and what was allocated `at` the end of the look."""
    seldom = slow.frames(now)
    for frame in (bench_features(now), allocated.of_gpus(at, seen)):
        seldom["gpu"] = seldom["gpu"].join(frame, on="gpu", how="full", coalesce=True)
    for frame in (newest.profile_features(now), allocated.of_jobs(at, seen)):
        seldom["job"] = seldom["job"].join(frame, on="job", how="full", coalesce=True)
    return seldom


def places(frames: Frames) -> dict[Target, Place]:
    """Where the services of `frames` live, and the fleet."""
    found: dict[Target, Place] = {}
    if not frames.service.is_empty():
        for service, node, gpus in frames.service.select("service", "node", "members").iter_rows():
            found["service", str(service)] = Place(node, tuple(gpus))
    for (fleet,) in frames.fleet.select("fleet").iter_rows() if not frames.fleet.is_empty() else ():
        found["fleet", fleet] = Place(None)
    return found
