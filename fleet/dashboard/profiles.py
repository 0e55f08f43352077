"""The profile of a job on the page of its finding: parts of the time, and the heaviest kernels."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from fleet.findings.models import Finding
from fleet.profiles.newest import of_job

_PARTS: Final = (
    ("compute_s", _("compute")),
    ("communication_exposed_s", _("communication alone")),
    ("copies_exposed_s", _("copies alone")),
    ("idle_launching_s", _("idle: the host launches")),
    ("idle_loading_s", _("idle: the program waits for its DataLoader")),
    ("idle_waiting_s", _("idle: the host waits for the GPU")),
    ("idle_queued_s", _("idle: already launched")),
    ("idle_unknown_s", _("idle: cause unknown")),
)
"""They make up the span; of a profile that does not tell a part it is among the unknown."""
VERDICT: Final = {
    "supports": pgettext_lazy("profile", "The profile supports this finding."),
    "speaks against": pgettext_lazy("profile", "The profile speaks against this finding: the job may have changed since, or do other things now."),
    "cannot tell": "",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the span, its share and its seconds."""

    label: str
    share: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel."""

    name: str
    share: float
    total_s: float
    count: int
    mean_s: float


@dataclass(frozen=True, slots=True)
class Block:
    """What the page shows. `verdict`: what the profile says of the finding's rule; empty where it cannot tell."""

    at: datetime
    rank: int | None
    world_size: int | None
    gpus: int
    steps: int
    step_p50_s: float | None
    complete: bool
    verdict: str
    parts: tuple[Part, ...]
    kernels: tuple[Row, ...]


def block(finding: Finding) -> Block | None:
    """The profile that speaks for the finding's job; of one that is over, the one that spoke then. None where there is none."""
    if finding.scope != "job":
        return None
    row = of_job(finding.target, finding.resolved_at or timezone.now())
    if row is None:
        return None
    summary: dict[str, Any] = row.summary
    span_s = summary["span_s"]
    said = {one["rule"]: one["verdict"] for one in summary.get("said", ())}
    return Block(
        at=row.at,
        rank=summary.get("rank"),
        world_size=summary.get("world_size"),
        gpus=summary["gpus"],
        steps=summary.get("steps", 0),
        step_p50_s=summary.get("step_p50_s"),
        complete=summary["complete"],
        verdict=str(VERDICT[said.get(finding.rule, "cannot tell")]),
        parts=tuple(
            Part(str(label), summary[name] / span_s, summary[name]) for name, label in _PARTS if summary.get(name)
        ),
        kernels=tuple(
            Row(one["name"], one["share"], one["total_s"], one["count"], one["total_s"] / one["count"])
            for one in summary.get("top", ())
        ),
    )  # fmt: skip
