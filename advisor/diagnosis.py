"""`diagnose(frames)`: the label of every GPU and job."""

from dataclasses import dataclass

import polars as pl

from advisor.bottleneck import SHARES
from advisor.features import Frames
from advisor.finding import Bottleneck, Confidence, Scope


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The label of one GPU or job. `bottleneck` is None when too little was measured; shares then are empty."""

    scope: Scope
    target: str
    bottleneck: Bottleneck | None
    shares: dict[str, float]
    confidence: Confidence


def diagnose(frames: Frames) -> list[Diagnosis]:
    """The label of every GPU and job, GPUs first."""
    found: list[Diagnosis] = []
    scopes: tuple[tuple[Scope, pl.DataFrame], ...] = (("gpu", frames.gpu), ("job", frames.job))
    for scope, frame in scopes:
        columns = [pl.col(scope, "bottleneck", "confidence", "evaluated"), *[pl.col(f"share_{name}").round(4) for name in SHARES]]
        for row in frame.select(columns).iter_rows():
            known = bool(row[3]) and row[1] is not None
            found.append(
                Diagnosis(
                    scope=scope,
                    target=str(row[0]),
                    bottleneck=row[1] if known else None,
                    shares={name: share for name, share in zip(SHARES, row[4:], strict=True) if share is not None}
                    if known
                    else {},
                    confidence=row[2] or "low",
                )
            )
    return found
