"""`Rule`: when it opens and clears, what it needs, what it says; and `load()`, which finds every rule in advisor/rules/.

A rule is one file with one `RULE`, named by its slug with underscores. Its conditions are Polars expressions over the
features of its scope, so one evaluation judges the whole fleet; a missing feature is null and opens nothing.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, TypeAlias

import polars as pl

from advisor import rules
from advisor.finding import Bottleneck, ChangeKind, Confidence, Scope, Severity

Comparison: TypeAlias = Literal[">=", "<=", ">", "<", "="]
Group: TypeAlias = Literal["health", "clocks", "performance", "capacity"]
"""health: the card itself; a critical one silences performance and clocks on its GPUs. capacity: memory and hosts."""

PARAM: Final = "param:"
"""Stands before a threshold's name in the column that holds its value; no feature has a colon in its name."""

KEYS: Final[dict[str, str]] = {"gpu": "gpu", "job": "job", "node": "node", "service": "service", "fleet": "fleet"}
"""The key column of each scope's frame."""


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """One way to evaluate a rule: the features that must be there, and the confidence that they give.

    A proxy may bring conditions of its own; None: those of the rule.
    """

    features: tuple[str, ...]
    confidence: Confidence = "high"
    opens: pl.Expr | None = None
    clears: pl.Expr | None = None


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number of a rule's conditions that a site may set otherwise, from `low` to `high`; `param(name)` stands for it there.

    `x_opens` and `x_clears` are a pair: whatever is set, the two keep their order (`crossed`).
    """

    name: str
    default: float
    unit: str
    low: float
    high: float


def param(name: str) -> pl.Expr:
    """The value in force of the rule's threshold `name`, in a condition."""
    return pl.col(PARAM + name)


@dataclass(frozen=True, slots=True)
class Show:
    """One line of evidence: a feature, its unit, and the threshold that it passed: a number, or the name of a `Threshold`."""

    feature: str
    unit: str
    comparison: Comparison | None = None
    threshold: float | str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step of the change, said where `when` holds (None: always), such as one launcher's flag.

    `{feature}` fields are filled in, shell-quoted; write `{{` for a brace.
    """

    kind: ChangeKind
    text: str
    when: pl.Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Says:
    """A summary for the case that `when` holds."""

    when: pl.Expr
    summary: str


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """Risk, rollback and verification for the case that `when` holds: of the steps that are said then."""

    when: pl.Expr
    risk: str
    rollback: str
    verify: str


@dataclass(frozen=True, slots=True, eq=False)
class Expect:
    """The speed to expect as a ratio to today's, each bound a number or an expression, and what it rests on.

    What could be won back follows from it (`cost.recoverable`); with `wins_time_back` False nothing: answers come sooner, and the GPUs
    are held as long as before.
    """

    low: float | pl.Expr
    high: float | pl.Expr
    basis: str
    wins_time_back: bool = True


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Rule:
    """One rule. Texts are English sources with `{feature:format}` or `{threshold:format}` fields, marked with `text._`."""

    id: str
    scope: Scope
    severity: Severity | pl.Expr
    bottleneck: Bottleneck | None
    group: Group = "performance"
    needs: tuple[Need, ...]  # the best signal first
    thresholds: tuple[Threshold, ...] = ()
    opens: pl.Expr
    clears: pl.Expr
    unless: pl.Expr | None = None
    confirmed: pl.Expr | None = None  # where it holds, a profile of the job says the same: the confidence is high
    stops_work: bool = False  # while it is critical nothing is said of the speed of its GPUs: they do not work at all
    yields_to: tuple[str, ...] = ()  # ids that take precedence on the same GPUs
    title: str
    summary: str
    cases: tuple[Says, ...] = ()  # the first that holds is said instead of `summary`
    evidence: tuple[Show, ...]
    change: tuple[Step, ...]
    gain: Expect | None = None
    recovers: float | pl.Expr = (
        0.0  # share of the target's time to win back, 0 to 1; only without a gain, which says it otherwise
    )
    risk: str
    rollback: str
    verify: str
    terms: tuple[Terms, ...] = ()  # the first that holds is said instead of `risk`, `rollback` and `verify`
    measure: str | None = None  # a verified change's own, of verification/measure.py, or "none"; None: its bottleneck's
    sources: tuple[str, ...]

    def threshold_of(self, field: str) -> str | None:
        """The threshold that a field of a text names, `x_gib` for one in bytes; None where the field is a feature's."""
        names = {one.name for one in self.thresholds}
        return next((name for name in (field, field.removesuffix("_gib") + "_bytes") if name in names), None)

    def reads(self) -> frozenset[str]:
        """Every column that its conditions read: features, and thresholds as `param:name`."""
        parts = [
            self.opens,
            self.clears,
            self.unless,
            self.confirmed,
            self.severity,
            self.recovers,
            *(case.when for case in self.cases),
            *(terms.when for terms in self.terms),
        ]
        parts += [step.when for step in self.change]
        parts += [self.gain.low, self.gain.high] if self.gain else []
        for need in self.needs:
            parts += [need.opens, need.clears]
        roots = {name for part in parts if isinstance(part, pl.Expr) for name in part.meta.root_names()}
        return frozenset(roots | {name for need in self.needs for name in need.features})


def crossed(rule: Rule, values: Mapping[str, float]) -> tuple[str, str] | None:
    """The pair `x_opens`, `x_clears` of `rule` that `values` bring out of the order of its defaults, or make equal; None where none."""
    defaults = {one.name: one.default for one in rule.thresholds}
    for name, default in defaults.items():
        other = name.replace("_opens", "_clears")
        if other != name and other in defaults:
            gap = values.get(name, default) - values.get(other, defaults[other])
            if gap * (default - defaults[other]) <= 0:
                return name, other
    return None


@cache
def load() -> tuple[Rule, ...]:
    """Every rule, by id."""
    found = []
    for module in pkgutil.iter_modules(rules.__path__):
        rule = importlib.import_module(f"{rules.__name__}.{module.name}").RULE
        if rule.id.replace("-", "_") != module.name:
            raise ValueError(f"advisor/rules/{module.name}.py holds the rule {rule.id}; its file must bear its name.")
        if rule.gain is not None and (isinstance(rule.recovers, pl.Expr) or rule.recovers):
            raise ValueError(f"advisor/rules/{module.name}.py: what it recovers follows from its gain; leave `recovers` out.")
        named = {name.removeprefix(PARAM) for name in rule.reads() if name.startswith(PARAM)}
        named |= {show.threshold for show in rule.evidence if isinstance(show.threshold, str)}
        if strange := sorted(named ^ {threshold.name for threshold in rule.thresholds}):
            raise ValueError(
                f"advisor/rules/{module.name}.py: {', '.join(strange)}; what conditions and evidence name by param is what `thresholds` lists."
            )
        found.append(rule)
    return tuple(sorted(found, key=lambda rule: str(rule.id)))
