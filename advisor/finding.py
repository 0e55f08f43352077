"""What a rule found: the condition, its evidence, the exact change, the gain to expect, how to verify."""

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from advisor import cost
from advisor.text import Text

Severity: TypeAlias = Literal["info", "advice", "warn", "critical"]
SEVERITIES: Final[tuple[Severity, ...]] = ("info", "advice", "warn", "critical")
Scope: TypeAlias = Literal["gpu", "node", "job", "service", "fleet"]
Bottleneck: TypeAlias = Literal[
    "idle", "data", "copy", "launch", "underfilled", "compute",
    "memory_bandwidth", "communication", "checkpoint", "contention", "clocks",
]  # fmt: skip
ChangeKind: TypeAlias = Literal["diff", "flag", "env", "command", "config", "step"]
Confidence: TypeAlias = Literal["high", "medium", "low"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One measured number beside the threshold that it passed. `unit` is the registry's."""

    name: str  # the feature, e.g. sm_active
    value: float | None
    unit: str
    threshold: float | None = None
    comparison: Literal[">=", "<=", ">", "<", "="] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One step to take. Every value that was put into a command is shell-quoted; nothing is run by itself."""

    kind: ChangeKind
    text: str


@dataclass(frozen=True, slots=True)
class Gain:
    """The speed to expect as a ratio to today's, and what the range rests on."""

    low: float
    high: float
    basis: Text


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule's verdict on one target. `fingerprint` is the same as long as it is the same trouble."""

    rule: str
    severity: Severity
    scope: Scope
    target: str  # the key of the frame's row: a GPU's, a node's or a job's
    bottleneck: Bottleneck | None
    confidence: Confidence
    title: Text
    summary: Text
    evidence: tuple[Evidence, ...]
    change: tuple[Change, ...]
    expected_gain: Gain | None
    recoverable: float  # share of the target's time that could be won back, 0 to 1: 1 - 1/gain where a gain is promised
    risk: Text
    rollback: Text
    verify: Text
    sources: tuple[str, ...]
    gpus: int | None = None  # how many GPUs the target stands for; None: not known

    @property
    def gpu_hours_a_day(self) -> float | None:
        """GPU-hours a day that could be won back: 0 where nothing could, None where it is not known how many GPUs it is about."""
        return cost.gpu_hours_a_day(self.recoverable, self.gpus)

    @property
    def fingerprint(self) -> str:
        """`rule:scope:target`."""
        return f"{self.rule}:{self.scope}:{self.target}"

    def order(self) -> tuple[bool, float, int, str, str]:
        """Sort key: critical first, then by the GPU-hours to win back, then by severity and rule. What is not known counts as least."""
        hours = self.gpu_hours_a_day
        return (
            self.severity != "critical",
            -(-1.0 if hours is None else hours),
            -SEVERITIES.index(self.severity),
            self.rule,
            self.target,
        )


def as_json(finding: Finding) -> dict[str, Any]:
    """The finding as `fettle advise --json` prints it: English text, plain values."""
    gain = finding.expected_gain
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "scope": finding.scope,
        "target": finding.target,
        "bottleneck": finding.bottleneck,
        "confidence": finding.confidence,
        "title": finding.title.english(),
        "summary": finding.summary.english(),
        "evidence": [
            {"name": e.name, "value": e.value, "unit": e.unit, "threshold": e.threshold, "comparison": e.comparison}
            for e in finding.evidence
        ],
        "change": [{"kind": change.kind, "text": change.text} for change in finding.change],
        "expected_gain": gain and {"low": gain.low, "high": gain.high, "basis": gain.basis.english()},
        "recoverable": finding.recoverable,
        "gpus": finding.gpus,
        "gpu_hours_a_day": finding.gpu_hours_a_day,
        "risk": finding.risk.english(),
        "rollback": finding.rollback.english(),
        "verify": finding.verify.english(),
        "sources": list(finding.sources),
    }
