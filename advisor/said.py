"""`finding(hit)`: what a rule says on a row on which it fired."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from advisor import cost
from advisor.finding import Change, Confidence, Evidence, Finding, Gain
from advisor.rule import PARAM, Comparison, Rule, Show
from advisor.text import Text, UnsafeValueError, Value, fields, quoted

_ORDER: Final[tuple[Confidence, ...]] = ("high", "medium", "low")


@dataclass(frozen=True, slots=True)
class Fired:
    """A row on which a rule fired, as verdicts.row_of makes it, and the GPUs that its target stands for."""

    rule: Rule
    row: Mapping[str, Any]
    gpus: frozenset[int]


def finding(hit: Fired) -> Finding:
    """The finding with the row's values in its texts."""
    rule, row = hit.rule, hit.row
    params = {name: value for name, raw in row.items() if (value := _plain(raw)) is not None and not name.startswith("_")}
    for column in [name for name in params if name.startswith(PARAM)]:
        params |= _in_force(column.removeprefix(PARAM), row[column])
    target = str(row["_key"])

    def text(source: str) -> Text:
        return Text(source, {name: params[name] for name in fields(source) if name in params})

    gain = None
    if rule.gain is not None and row["_low"] is not None and row["_high"] is not None:
        gain = Gain(round(row["_low"], 2), round(max(row["_low"], row["_high"]), 2), text(rule.gain.basis))
    recovers = min(1.0, max(0.0, float(row["_recovers"] or 0.0)))
    if gain is not None and rule.gain is not None and rule.gain.wins_time_back:
        recovers = cost.recoverable(gain.low, gain.high)
    terms = rule if row["_terms"] is None else rule.terms[row["_terms"]]
    evidence = tuple(
        Evidence(show.feature, _number(row.get(show.feature)), show.unit, *_passed(show, row))
        for show in rule.evidence
        if _number(row.get(show.feature)) is not None
    )
    return Finding(
        rule=rule.id,
        severity=row["_severity"],
        scope=rule.scope,
        target=target,
        bottleneck=rule.bottleneck,
        confidence="high" if row.get("_confirmed") else _lower(rule.needs[row["_level"]].confidence, row.get("confidence")),
        title=text(rule.title),
        summary=text(_said(rule, row["_case"], params)),
        evidence=evidence,
        change=tuple(_changes(rule, row, params)),
        expected_gain=gain,
        recoverable=round(recovers, 4),
        risk=text(terms.risk),
        rollback=text(terms.rollback),
        verify=text(terms.verify),
        sources=rule.sources,
        gpus=len(hit.gpus) or None,
    )


def _passed(show: Show, row: Mapping[str, Any]) -> tuple[float | None, Comparison | None]:
    """The threshold to show and its comparison: the value in force on `row` of the one that `show` names, or its number.

    Where a profile speaks too, only what is passed: telemetry or the profile alone may have opened the finding.
    """
    limit = _number(row.get(PARAM + show.threshold)) if isinstance(show.threshold, str) else show.threshold
    value = _number(row.get(show.feature))
    if limit is None or value is None or not (row.get("_confirmed") or show.feature.startswith("profile_")):
        return limit, show.comparison
    holds = {">=": value >= limit, "<=": value <= limit, ">": value > limit, "<": value < limit, "=": value == limit}
    return (limit, show.comparison) if show.comparison and holds[show.comparison] else (None, None)


def _said(rule: Rule, case: int | None, params: Mapping[str, Value]) -> str:
    """The summary of `case`; the title, which needs no value, where one that the summary names is not known."""
    summary = rule.summary if case is None else rule.cases[case].summary
    return summary if all(name in params for name in fields(summary)) else rule.title


def _changes(rule: Rule, row: Mapping[str, Any], params: dict[str, Value]) -> Iterator[Change]:
    """The steps that are meant for this row, with values that are known and safe."""
    for k, step in enumerate(rule.change):
        if not row.get(f"_step{k}", True):
            continue
        try:
            text = quoted(step.text, params, fields(step.text))
        except UnsafeValueError:
            continue
        if text is not None:
            yield Change(step.kind, text)


def _in_force(name: str, value: float) -> dict[str, Value]:
    """A threshold as texts name it; one in bytes in GiB too."""
    return {name: value, name.removesuffix("_bytes") + "_gib": value / (1 << 30)} if name.endswith("_bytes") else {name: value}


def _lower(one: Confidence, other: str | None) -> Confidence:
    ranks = [_ORDER.index(one)] + [_ORDER.index(level) for level in _ORDER if level == other]
    return _ORDER[max(ranks)]


def _plain(value: object) -> Value | None:
    """`value` as a parameter: text or a finite number, lists joined; None for what is absent."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int) else None


def _number(value: object) -> float | None:
    plain = _plain(value)
    return None if plain is None or isinstance(plain, str) else float(f"{plain:.6g}")
