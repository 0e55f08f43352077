"""Which series stand behind a finding's evidence, and over what span they are worth seeing."""

from typing import Final

import polars as pl

from fleet.findings.content import Rendered
from fleet.findings.models import Finding
from fleet.store.series import StoreError, store
from wire.metrics import Scope, of

AROUND_S: Final = 600
LONGEST_S: Final = 6 * 3600
BUCKETS: Final = 300
CHARTS: Final = 4
LINES: Final = 8
PLAIN: Final[tuple[tuple[Scope, str], ...]] = (("gpu", "sm_active"), ("gpu", "gpu_util_pct"))
_CHARTED: Final[tuple[tuple[Scope, str], ...]] = tuple(
    (scope, metric.name)
    for scope in ("gpu", "host")
    for metric in sorted(of(scope), key=lambda metric: -len(metric.name))
    if metric.kind in ("gauge", "mean") and metric.kept
)


def charted(text: Rendered) -> list[tuple[Scope, str]]:
    """The metrics that the evidence's features are made of, in its order; SM activity where none is named."""
    found: list[tuple[Scope, str]] = []
    for row in text.evidence:
        metric = next((pair for pair in _CHARTED if row.name == pair[1] or row.name.startswith(f"{pair[1]}_")), None)
        if metric is None:  # a feature may leave the unit off: `power` of power_w
            stem = row.name.split("_share")[0].split("_mean")[0]
            metric = next((pair for pair in _CHARTED if pair[1].startswith(stem)), None) if len(stem) > 4 else None
        if metric is not None and metric not in found:
            found.append(metric)
    return found[:CHARTS] or list(PLAIN)


def span_of(finding: Finding, now: int) -> tuple[int, int, int]:
    """(start, end, step) in seconds: from before it opened until a little after it ended, at most LONGEST_S."""
    opened = int(finding.opened_at.timestamp())
    ended = now if finding.resolved_at is None else min(now, int(finding.resolved_at.timestamp()) + AROUND_S)
    start = opened - AROUND_S
    end = max(start + 60, ended)
    if end - start > LONGEST_S:  # the beginning says more than the long run of the same
        end = start + LONGEST_S
    return start, end, max(1, (end - start) // BUCKETS)


def lines_of(finding: Finding, scope: Scope, metric: str, span: tuple[int, int, int]) -> list[tuple[str, pl.DataFrame]]:
    """The series of one metric for each thing that the finding is about, with its name."""
    start, end, step_s = span
    if scope == "host":
        things = [(finding.node.name, finding.node.pk)] if finding.node else []
    else:
        gpus = list(finding.gpus.all()[:LINES]) or (list(finding.node.gpus.all()[:LINES]) if finding.node else [])
        things = [(f"GPU {gpu.index}", gpu.pk) for gpu in gpus]
    try:
        return [(name, store().series(scope, entity, [metric], start, end, step_s)) for name, entity in things]
    except StoreError:
        return []
