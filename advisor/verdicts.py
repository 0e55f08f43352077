"""A rule's conditions as expressions over the frame of its scope, and what a row on which it fired has.

They are made once a rule: to make them takes longer than to evaluate them over a small fleet.
"""

from collections.abc import Sequence
from functools import lru_cache

import polars as pl

from advisor.rule import KEYS, PARAM, Rule, Show
from advisor.text import fields

OPEN = "open:"
"""Stands before a rule's id in the column that tells which targets have an open finding of it."""
_UNITS = {"_gib": ("_bytes", 1 << 30), "_gb_per_s": ("_bytes_per_s", 1e9), "_minutes": ("_s", 60)}
_MOST_RULES = 2_000
"""Rules of which expressions are kept: those that are shipped and those of a site."""


@lru_cache(_MOST_RULES)
def shown(rule: Rule) -> frozenset[str]:
    """Every column that a finding of `rule` shows."""
    texts = [rule.title, rule.summary, rule.risk, rule.rollback, rule.verify, *(step.text for step in rule.change)]
    texts += [text for terms in rule.terms for text in (terms.risk, terms.rollback, terms.verify)]
    texts += [case.summary for case in rule.cases]
    if rule.gain is not None:
        texts.append(rule.gain.basis)
    names = {_column(rule, name) for text in texts for name in fields(text)}
    return frozenset(names | {name for show in rule.evidence for name in _named(show)})


@lru_cache(_MOST_RULES)
def used(rule: Rule) -> frozenset[str]:
    """Every column that `rule` reads or shows."""
    return shown(rule) | rule.reads()


def wanted(rules: Sequence[Rule]) -> frozenset[str]:
    """Every feature that the rules read, show or put into words."""
    return frozenset(name for rule in rules for name in used(rule) if not name.startswith(PARAM))


def in_larger_units(names: frozenset[str], frame: pl.DataFrame) -> dict[str, pl.Expr]:
    """Those of `names` that `frame` has in smaller units: `x_gib` of `x_bytes` (memory), `x_gb_per_s` of `x_bytes_per_s`,
    `x_minutes` of `x_s`."""
    asked = {
        name: (name.removesuffix(end) + source, size)
        for name in names
        for end, (source, size) in _UNITS.items()
        if name.endswith(end)
    }
    return {name: pl.col(source) / size for name, (source, size) in sorted(asked.items()) if source in frame.columns}


def possible(rule: Rule, absent: frozenset[str]) -> tuple[int, ...]:
    """The numbers of the needs that some row may meet, where no row has the columns `absent`."""
    return tuple(number for number, need in enumerate(rule.needs) if absent.isdisjoint(need.features))


@lru_cache(2 * _MOST_RULES)
def fires(rule: Rule, needs: tuple[int, ...], *, any_open: bool) -> pl.Expr:
    """Where the rule fires, by those of its needs; a target with an open finding (OPEN) until it clears."""
    made: pl.Expr = pl.lit(False)
    for need in reversed([rule.needs[number] for number in needs]):
        holds = (rule.opens if need.opens is None else need.opens).fill_null(False)
        if any_open:
            clears = (rule.clears if need.clears is None else need.clears).fill_null(False)
            holds = pl.when(pl.col(OPEN + rule.id)).then(~clears).otherwise(holds)
        made = pl.when(_present(need.features)).then(holds).otherwise(made)
    if rule.unless is not None:
        made = made & ~rule.unless.fill_null(False)
    return (pl.col("_evaluated") & made).fill_null(False)


@lru_cache(_MOST_RULES)
def lacking(rule: Rule) -> pl.Expr:
    """Where the rule cannot be judged: the target is not evaluated, or has not what the rule needs and is in use.

    Of the card's own health nothing is known without its readings, whether anybody uses it or not.
    """
    unknown = _level(rule).is_null() if rule.group == "health" else _level(rule).is_null() & ~pl.col("_free")
    return (~pl.col("_evaluated") | unknown).fill_null(True)


@lru_cache(_MOST_RULES)
def missing(rule: Rule) -> pl.Expr:
    """What of the rule's best need is missing, a bit for each feature; -1 where the target is not evaluated."""
    needed = rule.needs[0].features if rule.needs else ()
    absent = pl.sum_horizontal(pl.lit(0, pl.Int64), *[pl.col(name).is_null() * (1 << k) for k, name in enumerate(needed)])
    return pl.when(pl.col("_evaluated").fill_null(False)).then(absent).otherwise(-1)


@lru_cache(_MOST_RULES)
def row_of(rule: Rule) -> tuple[pl.Expr, ...]:
    """What said.py reads of a row on which the rule fired."""
    extra = {"_level": _level(rule), "_severity": rule.severity, "_recovers": rule.recovers}
    extra |= {"_case": _first([case.when for case in rule.cases]), "_terms": _first([terms.when for terms in rule.terms])}
    if rule.confirmed is not None:
        extra["_confirmed"] = rule.confirmed.fill_null(False)
    extra |= {f"_step{k}": step.when.fill_null(False) for k, step in enumerate(rule.change) if step.when is not None}
    if rule.gain is not None:
        extra |= {"_low": rule.gain.low, "_high": rule.gain.high}
    made = [(value if isinstance(value, pl.Expr) else pl.lit(value)).alias(name) for name, value in extra.items()]
    return (pl.col(KEYS[rule.scope]).alias("_key"), *map(pl.col, sorted(shown(rule))), *made)


def _present(features: Sequence[str]) -> pl.Expr:
    return pl.all_horizontal([pl.col(name).is_not_null() for name in features]) if features else pl.lit(True)


def _level(rule: Rule) -> pl.Expr:
    """The number of the best need that a row meets; null for none."""
    level: pl.Expr = pl.lit(None, pl.Int32)
    for number, need in reversed(list(enumerate(rule.needs))):
        level = pl.when(_present(need.features)).then(pl.lit(number, pl.Int32)).otherwise(level)
    return level


def _first(cases: Sequence[pl.Expr]) -> pl.Expr:
    """The number of the first of `cases` that holds; null for none."""
    number: pl.Expr = pl.lit(None, pl.Int32)
    for k, holds in reversed(list(enumerate(cases))):
        number = pl.when(holds.fill_null(False)).then(pl.lit(k, pl.Int32)).otherwise(number)
    return number


def _column(rule: Rule, field: str) -> str:
    """The column that a field of a text needs: its feature's, or that of its threshold."""
    threshold = rule.threshold_of(field)
    return field if threshold is None else PARAM + threshold


def _named(show: Show) -> tuple[str, ...]:
    """The columns that `show` needs: its feature's, and that of the threshold that it names."""
    return (show.feature, PARAM + show.threshold) if isinstance(show.threshold, str) else (show.feature,)
