"""What a finding says: stored as message ids with parameters, rendered in the reader's language.

`as_content` turns the advisor's Finding into the JSON of `Finding.content`; `render` turns that JSON into
sentences. Rendering never raises: a parameter that is missing or of the wrong kind reads as "?".
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypedDict

from django.utils.translation import gettext

from advisor import prose
from advisor.finding import Evidence, Gain
from advisor.finding import Finding as Found
from advisor.text import Text
from fleet.findings import words
from fleet.findings.models import Finding


class StoredText(TypedDict):
    """A sentence's id and parameters."""

    id: str
    params: dict[str, str | int | float]


class Content(TypedDict):
    """The JSON of `Finding.content`."""

    title: StoredText
    summary: StoredText
    evidence: list[dict[str, Any]]
    change: list[dict[str, str]]
    expected_gain: dict[str, Any] | None
    risk: StoredText
    rollback: StoredText
    verify: StoredText
    sources: list[str]


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """One measured number beside the threshold that it passed; templates write it with the `reading` filter."""

    name: str
    value: float | None
    unit: str
    threshold: float | None
    comparison: str

    @property
    def label(self) -> str:
        """What was measured, in plain words of the active language."""
        return words.evidence(self.name)

    @property
    def sign(self) -> str:
        """How the value compares with its threshold, as it is written: ≥ or ≤."""
        return words.SIGNS.get(self.comparison, self.comparison)


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """One step to take; `kind` is diff, flag, env, command or config."""

    kind: str
    text: str

    @property
    def placeholders(self) -> tuple[str, ...]:
        """What in it stands for the reader's own, such as `train.py`; none in a sentence."""
        return () if self.kind == "step" else prose.placeholders(self.text)


@dataclass(frozen=True, slots=True)
class GainLine:
    """The speed to expect as a ratio to today's."""

    low: float
    high: float
    basis: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """A finding in the active language; every text is plain, nothing of it is safe HTML."""

    title: str
    summary: str
    evidence: tuple[EvidenceLine, ...]
    change: tuple[ChangeLine, ...]
    expected_gain: GainLine | None
    risk: str
    rollback: str
    verify: str
    sources: tuple[str, ...]


def as_content(found: Found) -> Content:
    """The JSON to store of an advisor's finding."""
    return {
        "title": _stored(found.title),
        "summary": _stored(found.summary),
        "evidence": [_evidence(line) for line in found.evidence],
        "change": [{"kind": change.kind, "text": change.text} for change in found.change],
        "expected_gain": _gain(found.expected_gain),
        "risk": _stored(found.risk),
        "rollback": _stored(found.rollback),
        "verify": _stored(found.verify),
        "sources": list(found.sources),
    }


def render(finding: Finding) -> Rendered:
    """The finding's texts in the active language; empty where the stored content lacks a part."""
    content: dict[str, Any] = finding.content if isinstance(finding.content, dict) else {}
    gain = content.get("expected_gain")
    return Rendered(
        title=sentence(content.get("title")) or finding.rule,
        summary=sentence(content.get("summary")),
        evidence=tuple(_line(raw) for raw in content.get("evidence") or ()),
        change=tuple(step(raw.get("kind", ""), raw.get("text", "")) for raw in content.get("change") or ()),
        expected_gain=GainLine(gain["low"], gain["high"], sentence(gain.get("basis"))) if gain else None,
        risk=sentence(content.get("risk")),
        rollback=sentence(content.get("rollback")),
        verify=sentence(content.get("verify")),
        sources=tuple(content.get("sources") or ()),
    )


def step(kind: str, text: str) -> ChangeLine:
    """One step with the comments of its code in the active language."""
    return ChangeLine(kind, prose.with_comments(text, gettext))


def to_fill(change: Iterable[ChangeLine]) -> list[str]:
    """Sentences that say what in the steps is the reader's to fill in; none where they can be taken as they are."""
    steps = list(change)
    names = dict.fromkeys(name for one in steps for name in one.placeholders)
    says = [gettext("Placeholders, put your own in their place: {names}.").format(names=", ".join(names))] if names else []
    if any(one.kind == "diff" for one in steps):
        says.append(gettext("A code change shows the pattern: model, loader or ds are called otherwise in your script."))
    return says


def sentence(stored: Any) -> str:
    """One stored text in the active language; "" for none."""
    if not isinstance(stored, dict) or not stored.get("id"):
        return ""
    message = str(stored["id"])
    params = _Params(stored.get("params") or {})
    for text in (gettext(message), message):  # a translation with a broken field falls back to the English
        try:
            return text.format_map(params)
        except (ValueError, TypeError, IndexError, AttributeError):
            continue
    return message


class _Unknown:
    """Stands for a missing parameter, whatever format is asked of it."""

    def __format__(self, spec: str) -> str:
        return "?"


class _Params(dict[str, Any]):
    def __getitem__(self, key: str) -> Any:
        value = self.get(key)
        if key == "meaning" and isinstance(value, str):  # of an XID: a marked text, and no name that somebody gave
            return gettext(value)
        return _Unknown() if value is None else value


def _stored(text: Text) -> StoredText:
    return {"id": text.id, "params": dict(text.params)}


def _evidence(line: Evidence) -> dict[str, Any]:
    return {
        "name": line.name,
        "value": line.value,
        "unit": line.unit,
        "threshold": line.threshold,
        "comparison": line.comparison,
    }


def _gain(gain: Gain | None) -> dict[str, Any] | None:
    return None if gain is None else {"low": gain.low, "high": gain.high, "basis": _stored(gain.basis)}


def _line(raw: dict[str, Any]) -> EvidenceLine:
    return EvidenceLine(
        name=raw.get("name") or "",
        value=raw.get("value"),
        unit=raw.get("unit") or "",
        threshold=raw.get("threshold"),
        comparison=raw.get("comparison") or "",
    )
