"""Which series stand behind a finding's evidence, and over what span they are worth seeing."""

from typing import Final

import polars as pl

from fleet.findings.content import Rendered
from fleet.findings.models import Finding
from fleet.store import clock
from fleet.store.series import StoreError, rounded
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
_MADE_OF: Final[dict[str, tuple[Scope, str]]] = {
    "busy": ("gpu", "gr_engine_active"),
    "copy_rate_share": ("gpu", "pcie_rx_bytes_per_s"),
    "held_bytes": ("gpu", "mem_used_bytes"),
    "host_mem_share": ("host", "mem_used_bytes"),
    "host_mem_used_bytes": ("host", "mem_used_bytes"),
    "hw_slowdown_share": ("gpu", "sm_clock_mhz"),
    "iowait_cores": ("host", "cpu_iowait_pct"),
    "free_cores": ("host", "cpu_busy_cores"),
    "loaded_power_w": ("gpu", "power_w"),
    "mem_growth_bytes_per_s": ("gpu", "mem_used_bytes"),
    "mem_used_max_bytes": ("gpu", "mem_used_bytes"),
    "mem_used_share": ("gpu", "mem_used_bytes"),
    "mem_used_share_max": ("gpu", "mem_used_bytes"),
    "nvlink_bytes_per_s": ("gpu", "nvlink_rx_bytes_per_s"),
    "nvlink_share": ("gpu", "nvlink_rx_bytes_per_s"),
    "power_cap_share": ("gpu", "power_w"),
    "power_share": ("gpu", "power_w"),
    "share_launch": ("gpu", "gr_engine_active"),
    "share_data": ("gpu", "gr_engine_active"),
    "share_idle": ("gpu", "gr_engine_active"),
    "share_checkpoint": ("gpu", "gr_engine_active"),
    "sm_clock_p95_mhz": ("gpu", "sm_clock_mhz"),
    "sm_clock_p95_ratio": ("gpu", "sm_clock_mhz"),
    "sm_clock_ratio": ("gpu", "sm_clock_mhz"),
    "thermal_slowdown_share": ("gpu", "temperature_c"),
    "warmer_than_peers_c": ("gpu", "temperature_c"),
}
"""The metric behind a feature, where the feature's name does not begin with it."""


def charted(text: Rendered) -> list[tuple[Scope, str]]:
    """The metrics that the evidence's features are made of, in its order; SM activity where none is named."""
    found: list[tuple[Scope, str]] = []
    for row in text.evidence:
        metric = _MADE_OF.get(row.name) or next((pair for pair in _CHARTED if row.name.startswith(pair[1])), None)
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
    return start, end, rounded((end - start) // BUCKETS)


def lines_of(finding: Finding, scope: Scope, metric: str, span: tuple[int, int, int]) -> list[tuple[str, pl.DataFrame]]:
    """The series of one metric for each thing that the finding is about, with its name."""
    start, end, step_s = span
    if scope == "host":
        things = [(finding.node.name, finding.node.pk)] if finding.node else []
    else:
        gpus = list(finding.gpus.all()[:LINES]) or (list(finding.node.gpus.all()[:LINES]) if finding.node else [])
        things = [(f"GPU {gpu.index}", gpu.pk) for gpu in gpus]
    try:
        ahead = clock.ahead(scope, [entity for _, entity in things])
        return [(name, clock.series(scope, entity, [metric], start, end, step_s, ahead=ahead)) for name, entity in things]
    except StoreError:
        return []
