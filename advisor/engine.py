"""`evaluate`: rules over features become findings, or "not evaluated" where a rule lacks what it needs.

Conditions run as Polars expressions over whole frames; Python touches only the rows that fire.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import polars as pl

from advisor.features import Frames
from advisor.finding import Finding
from advisor.kinds import kind
from advisor.rule import KEYS, PARAM, Rule
from advisor.said import Fired, finding
from advisor.verdicts import OPEN, fires, in_larger_units, lacking, missing, possible, row_of, used, wanted

Thresholds: TypeAlias = Mapping[str, Mapping[str, float | pl.Expr]]
"""By rule and name, values of thresholds that are not the default; an expression gives each row of the scope's frame its own."""

__all__ = ["Evaluation", "NotEvaluated", "Thresholds", "evaluate", "is_of_speed", "silences_speed", "wanted"]


class NotEvaluated(NamedTuple):
    """A rule said nothing on a target because of `missing`: features, or "samples" where too few arrived."""

    rule: str
    target: str
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the rules found, strongest first, and what they could not judge."""

    findings: list[Finding]
    not_evaluated: list[NotEvaluated]


def evaluate(
    rules: Sequence[Rule],
    frames: Frames,
    open_fingerprints: Collection[str] = frozenset(),
    thresholds: Thresholds = MappingProxyType({}),
    shadow: Collection[str] = frozenset(),
    *,
    every_gap: bool = True,
) -> Evaluation:
    """Every finding of `rules` over `frames`. What is in `open_fingerprints` stays until its rule clears.

    `thresholds`: the values in force where they are not the rules' defaults. Rules in `shadow` take precedence over none. Without
    `every_gap` only the targets in `open_fingerprints` are told as not evaluated: of a large fleet most rules lack something on most targets.
    """
    still_open: dict[tuple[str, str], list[str]] = {}
    for fingerprint in open_fingerprints:
        rule_id, scope, target = fingerprint.split(":", 2)
        still_open.setdefault((rule_id, scope), []).append(target)
    fired: list[Fired] = []
    not_evaluated: list[NotEvaluated] = []
    for scope in KEYS:
        frame = getattr(frames, scope, None)
        mine = [rule for rule in rules if rule.scope == scope]
        if frame is None or frame.is_empty() or not mine:
            continue
        frame = _with_open(_with_columns(frame, mine), mine, still_open)
        absent = frozenset(
            name for name, nulls in zip(frame.columns, frame.null_count().row(0), strict=True) if nulls == frame.height
        )
        for together, values in _together(mine, thresholds):
            hits, gaps = _judge(together, frame.with_columns(**values), absent, every_gap)
            fired.extend(hits)
            not_evaluated.extend(gaps)
    findings = [finding(hit) for hit in _unsilenced(fired, shadow)]
    return Evaluation(sorted(findings, key=Finding.order), not_evaluated)


def _with_columns(frame: pl.DataFrame, rules: Sequence[Rule]) -> pl.DataFrame:
    """`frame` with all that the rules name: what it lacks is null, of the type that the feature has where it is known."""
    names = frozenset(name for rule in rules for name in used(rule) if not name.startswith(PARAM))
    frame = frame.with_columns(**in_larger_units(names, frame))
    schema = frame.schema
    lacks = [pl.lit(None, kind(name)).alias(name) for name in sorted(names) if schema.get(name, pl.Null()) == pl.Null]
    usual = [
        (pl.col(name) if name in schema else pl.lit(value)).alias(f"_{name}")
        for name, value in (("evaluated", True), ("free", False))
    ]
    return frame.with_columns(*lacks, *usual)


def _with_open(frame: pl.DataFrame, rules: Sequence[Rule], still_open: Mapping[tuple[str, str], list[str]]) -> pl.DataFrame:
    """`frame` with a column for each of the rules that has open findings of its targets: which."""
    asked = {rule.id: still_open[rule.id, rule.scope] for rule in rules if (rule.id, rule.scope) in still_open}
    if not asked:
        return frame
    rows = {target: row for row, target in enumerate(frame.get_column(KEYS[rules[0].scope]).cast(pl.String))}
    columns = []
    for rule_id, targets in asked.items():
        is_open = [False] * frame.height
        for target in targets:
            if target in rows:
                is_open[rows[target]] = True
        columns.append(pl.Series(OPEN + rule_id, is_open, pl.Boolean))
    return frame.with_columns(columns)


def _together(rules: Sequence[Rule], thresholds: Thresholds) -> list[tuple[list[Rule], dict[str, pl.Expr]]]:
    """The rules in groups that one frame can serve, each with its thresholds: rules may call different values by one name."""
    groups: list[tuple[list[Rule], dict[str, float | pl.Expr], dict[str, pl.Expr]]] = []
    for rule in rules:
        given = thresholds.get(rule.id, {})
        asked = {PARAM + one.name: given.get(one.name, one.default) for one in rule.thresholds}
        group = next((one for one in groups if all(_same(one[1].get(name, value), value) for name, value in asked.items())), None)
        if group is None:
            group = ([], {}, {})
            groups.append(group)
        group[0].append(rule)
        group[1].update(asked)
        for one in rule.thresholds:
            value = asked[PARAM + one.name]
            group[2][PARAM + one.name] = value.fill_null(one.default) if isinstance(value, pl.Expr) else pl.lit(value, pl.Float64)
    return [(together, columns) for together, _, columns in groups]


def _same(one: float | pl.Expr, other: float | pl.Expr) -> bool:
    """True for equal numbers; expressions differ, as their rules' defaults may."""
    return not isinstance(one, pl.Expr) and not isinstance(other, pl.Expr) and one == other


def _judge(
    rules: Sequence[Rule], frame: pl.DataFrame, absent: frozenset[str], every_gap: bool
) -> tuple[list[Fired], list[NotEvaluated]]:
    """The rows of `frame` on which the rules fire, and those that they cannot judge."""
    have = set(frame.columns)
    asked = {}
    for number, rule in enumerate(rules):
        any_open = OPEN + rule.id in have
        if needs := possible(rule, absent):
            asked[f"{number}"] = fires(rule, needs, any_open=any_open)
        if every_gap:
            asked[f"{number}-"] = lacking(rule)
        elif any_open:
            asked[f"{number}-"] = lacking(rule) & pl.col(OPEN + rule.id)
    if not asked:
        return [], []
    verdict = frame.lazy().select(**asked).collect()
    hold = {name for name, count in zip(verdict.columns, verdict.sum().row(0), strict=True) if count}
    beside = [name for name in ("members", "confidence") if name in have]
    hits: list[Fired] = []
    gaps: list[NotEvaluated] = []
    for number, rule in enumerate(rules):
        if f"{number}-" in hold:
            gaps.extend(_gaps(rule, frame.lazy().filter(verdict.get_column(f"{number}-"))))
        if f"{number}" in hold:
            rows = frame.lazy().filter(verdict.get_column(f"{number}")).select(*beside, *row_of(rule)).collect()
            hits.extend(Fired(rule, row, _gpus(rule, row)) for row in rows.iter_rows(named=True))
    return hits, gaps


def _gpus(rule: Rule, row: Mapping[str, Any]) -> frozenset[int]:
    """The GPUs that a target stands for; of a service or a fleet none, where its row names none."""
    return frozenset(row.get("members") or ([] if rule.scope in ("service", "fleet") else [row["_key"]]))


def _gaps(rule: Rule, rows: pl.LazyFrame) -> Iterator[NotEvaluated]:
    """What is missing on each of `rows`, by the best way to evaluate the rule."""
    needed = rule.needs[0].features if rule.needs else ()
    flags = rows.select(pl.col(KEYS[rule.scope]).cast(pl.String), missing(rule).alias("_absent")).collect()
    named = {
        bits: ("samples",) if bits < 0 else tuple(name for k, name in enumerate(needed) if bits >> k & 1)
        for bits in flags["_absent"].unique()
    }
    for target, bits in flags.iter_rows():
        yield NotEvaluated(rule.id, target, named[bits])


def silences_speed(rule: Rule, severity: str) -> bool:
    """True where a finding of `rule` leaves nothing to say of how fast its GPUs work."""
    return severity == "critical" and (rule.group == "health" or rule.stops_work)


def is_of_speed(rule: Rule) -> bool:
    """True for a rule that is silent on GPUs that are broken, or that stand still."""
    return rule.group in ("performance", "clocks") and not rule.stops_work


def _unsilenced(fired: list[Fired], shadow: Collection[str]) -> list[Fired]:
    """`fired` without those that another, not in `shadow`, takes precedence over on any of their GPUs."""
    on: dict[str, set[int]] = {}
    sick: set[int] = set()
    for hit in fired:
        if hit.rule.id in shadow:
            continue
        on.setdefault(hit.rule.id, set()).update(hit.gpus)
        if silences_speed(hit.rule, hit.row["_severity"]):
            sick |= hit.gpus
    kept = []
    for hit in fired:
        if is_of_speed(hit.rule) and hit.gpus & sick:
            continue
        if any(hit.gpus & on[other] for other in hit.rule.yields_to if other in on):
            continue
        kept.append(hit)
    return kept
