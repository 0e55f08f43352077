"""`evaluate`: rules over features become findings, or "not evaluated" where a rule lacks what it needs.

Conditions run as Polars expressions over whole frames; Python touches only the rows that fire.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import polars as pl

from advisor.features import Frames
from advisor.finding import Change, Confidence, Evidence, Finding, Gain
from advisor.kinds import kind
from advisor.rule import KEYS, PARAM, Comparison, Rule, Show
from advisor.text import Text, UnsafeValueError, Value, fields, quoted

Thresholds: TypeAlias = Mapping[str, Mapping[str, float | pl.Expr]]
"""By rule and name, values of thresholds that are not the default; an expression gives each row of the scope's frame its own."""

_ORDER: Final[tuple[Confidence, ...]] = ("high", "medium", "low")


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


@dataclass(frozen=True, slots=True)
class _Fired:
    rule: Rule
    row: dict[str, Any]
    gpus: frozenset[int]


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
    fired: list[_Fired] = []
    not_evaluated: list[NotEvaluated] = []
    for rule in rules:
        frame = getattr(frames, rule.scope, None)
        if frame is None or frame.is_empty():
            continue
        if rule.thresholds:
            frame = _with_thresholds(rule, frame, thresholds.get(rule.id, {}))
        hits, gaps = _judge(rule, frame, still_open.get((rule.id, rule.scope), []), every_gap)
        fired.extend(hits)
        not_evaluated.extend(gaps)
    findings = [_finding(hit) for hit in _unsilenced(fired, shadow)]
    return Evaluation(sorted(findings, key=Finding.order), not_evaluated)


def _with_thresholds(rule: Rule, frame: pl.DataFrame, values: Mapping[str, float | pl.Expr]) -> pl.DataFrame:
    """`frame` with the value in force of each threshold of `rule`; the default where a row has no other."""
    columns = {}
    for one in rule.thresholds:
        value = values.get(one.name, one.default)
        columns[PARAM + one.name] = value.fill_null(one.default) if isinstance(value, pl.Expr) else pl.lit(value, pl.Float64)
    return frame.with_columns(**columns)


def _judge(rule: Rule, frame: pl.DataFrame, open_targets: list[str], every_gap: bool) -> tuple[list[_Fired], list[NotEvaluated]]:
    """The rows of `frame` on which `rule` fires, and those it cannot judge."""
    key = KEYS[rule.scope]
    frame = _in_larger_units(rule, frame)
    have = set(frame.columns)
    wanted = _columns(rule)
    frame = _typed(frame, wanted | rule.reads())
    is_open = pl.col(key).cast(pl.String).is_in(open_targets) if open_targets else pl.lit(False)
    judged = pl.col("evaluated") if "evaluated" in have else pl.lit(True)
    level: pl.Expr = pl.lit(None, pl.Int32)
    fires: pl.Expr = pl.lit(False)
    for number, need in reversed(list(enumerate(rule.needs))):
        present = pl.all_horizontal([pl.col(name).is_not_null() for name in need.features]) if need.features else pl.lit(True)
        opens = (rule.opens if need.opens is None else need.opens).fill_null(False)
        clears = (rule.clears if need.clears is None else need.clears).fill_null(False)
        fires = pl.when(present).then(pl.when(is_open).then(~clears).otherwise(opens)).otherwise(fires)
        level = pl.when(present).then(pl.lit(number, pl.Int32)).otherwise(level)
    if rule.unless is not None:
        fires = fires & ~rule.unless.fill_null(False)
    verdict = frame.select(
        _fires=judged & fires, _level=level, _judged=judged, _free=pl.col("free") if "free" in have else False, _open=is_open
    )
    lacking = (~pl.col("_judged") | (pl.col("_level").is_null() & ~pl.col("_free"))).fill_null(True)
    if not every_gap:
        lacking = lacking & pl.col("_open")
    gaps = list(_gaps(rule, frame.filter(verdict.select(lacking).to_series()), key))
    on = verdict.get_column("_fires").fill_null(False)
    if not on.any():
        return [], gaps
    rows = frame.filter(on).with_columns(verdict.filter(on).get_column("_level"))
    extra = {"_severity": rule.severity, "_recovers": rule.recovers, "_case": _case(rule)}
    if rule.confirmed is not None:
        extra["_confirmed"] = rule.confirmed.fill_null(False)
    extra |= {f"_step{k}": step.when.fill_null(False) for k, step in enumerate(rule.change) if step.when is not None}
    if rule.gain is not None:
        extra |= {"_low": rule.gain.low, "_high": rule.gain.high}
    rows = rows.select(
        pl.col(key).alias("_key"),
        "_level",
        *(["members"] if "members" in have else []),
        *(["confidence"] if "confidence" in have else []),
        *sorted(wanted),
        **{name: value if isinstance(value, pl.Expr) else pl.lit(value) for name, value in extra.items()},
    )
    return [_Fired(rule, row, _gpus(rule, row)) for row in rows.iter_rows(named=True)], gaps


def _gpus(rule: Rule, row: Mapping[str, Any]) -> frozenset[int]:
    """The GPUs that a target stands for; of a service or a fleet none, where its row names none."""
    return frozenset(row.get("members") or ([] if rule.scope in ("service", "fleet") else [row["_key"]]))


def _typed(frame: pl.DataFrame, names: set[str]) -> pl.DataFrame:
    """`frame` with all of `names`: what it lacks is null, of the type that the feature has where it is known."""
    kinds = {name: kind(name) for name in sorted(names) if frame.schema.get(name, pl.Null()) == pl.Null}
    return frame.with_columns([pl.lit(None, dtype).alias(name) for name, dtype in kinds.items()]) if kinds else frame


def wanted(rules: Sequence[Rule]) -> frozenset[str]:
    """Every feature that the rules read, show or put into words."""
    names = {name for rule in rules for name in _columns(rule) | rule.reads() if not name.startswith(PARAM)}
    return frozenset(names)


def _case(rule: Rule) -> pl.Expr:
    """Which of `rule.cases` holds; null for none."""
    number: pl.Expr = pl.lit(None, pl.Int32)
    for k, case in reversed(list(enumerate(rule.cases))):
        number = pl.when(case.when.fill_null(False)).then(pl.lit(k, pl.Int32)).otherwise(number)
    return number


def _in_larger_units(rule: Rule, frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with what texts of `rule` ask for in larger units: `x_gib` of `x_bytes` (memory), `x_gb_per_s` of `x_bytes_per_s`."""
    units = {"_gib": ("_bytes", 1 << 30), "_gb_per_s": ("_bytes_per_s", 1e9)}
    asked = {
        name: (name.removesuffix(end) + source, size)
        for name in _columns(rule)
        for end, (source, size) in units.items()
        if name.endswith(end)
    }
    return frame.with_columns(
        **{name: pl.col(source) / size for name, (source, size) in asked.items() if source in frame.columns}
    )


def _columns(rule: Rule) -> set[str]:
    """Every feature that a finding of `rule` shows."""
    texts = [rule.title, rule.summary, rule.risk, rule.rollback, rule.verify, *(step.text for step in rule.change)]
    texts += [case.summary for case in rule.cases]
    if rule.gain is not None:
        texts.append(rule.gain.basis)
    return {name for text in texts for name in fields(text)} | {name for show in rule.evidence for name in _named(show)}


def _named(show: Show) -> tuple[str, ...]:
    """The columns that `show` needs: its feature's, and that of the threshold that it names."""
    return (show.feature, PARAM + show.threshold) if isinstance(show.threshold, str) else (show.feature,)


def _gaps(rule: Rule, rows: pl.DataFrame, key: str) -> Iterator[NotEvaluated]:
    """What is missing on each of `rows`, by the best way to evaluate the rule."""
    needed = rule.needs[0].features if rule.needs else ()
    judged = (pl.col("evaluated") if "evaluated" in rows.columns else pl.lit(True)).fill_null(False)
    absent = pl.sum_horizontal(pl.lit(0, pl.Int64), *[pl.col(name).is_null() * (1 << k) for k, name in enumerate(needed)])
    flags = rows.select(pl.col(key).cast(pl.String), pl.when(judged).then(absent).otherwise(-1).alias("_absent"))
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


def _unsilenced(fired: list[_Fired], shadow: Collection[str]) -> list[_Fired]:
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


def _finding(hit: _Fired) -> Finding:
    rule, row = hit.rule, hit.row
    params = {name: value for name, raw in row.items() if (value := _plain(raw)) is not None and not name.startswith("_")}
    target = str(row["_key"])

    def text(source: str) -> Text:
        return Text(source, {name: params[name] for name in fields(source) if name in params})

    gain = None
    if rule.gain is not None and row["_low"] is not None and row["_high"] is not None:
        gain = Gain(round(row["_low"], 2), round(max(row["_low"], row["_high"]), 2), text(rule.gain.basis))
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
        recoverable=round(min(1.0, max(0.0, float(row["_recovers"] or 0.0))), 4),
        risk=text(rule.risk),
        rollback=text(rule.rollback),
        verify=text(rule.verify),
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
