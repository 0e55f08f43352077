"""Which value of a threshold is in force where: from overrides to an expression over a scope's frame, and what may be set beside what."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from typing import Final, TypeAlias

import polars as pl

from advisor.engine import Thresholds
from advisor.features import Frames
from advisor.job_family import job_family
from advisor.partitions import SEPARATOR
from advisor.rule import KEYS, Rule
from fleet.tuning.models import MATCHERS

Reach: TypeAlias = tuple[str, str]
"""A matcher and its pattern: what an override holds for."""
SITE: Final[Reach] = ("site", "")


@dataclass(frozen=True, slots=True)
class Setting:
    """One override, without who and when."""

    threshold: str
    matcher: str
    pattern: str
    value: float

    @property
    def reach(self) -> Reach:
        """What it holds for."""
        return self.matcher, self.pattern


def narrowness(reach: Reach) -> tuple[int, int, str]:
    """Sort key: of two that match, the greater is in force: what MATCHERS has later, of one matcher the longer pattern."""
    matcher, pattern = reach
    return MATCHERS.index(matcher), len(pattern), pattern


def thresholds(
    settings: Mapping[str, Collection[Setting]], rules: Iterable[Rule], frames: Frames, node_names: Mapping[int, str]
) -> Thresholds:
    """The values in force of each rule with settings, for the engine: a number, or an expression where rows differ.

    A job or a node on several models takes what is set for any of them, the narrowest of all that match; so does a node in several
    partitions. `node_names`: needed where a setting is for nodes or for a family of jobs.
    """
    scopes = {rule.id: rule.scope for rule in rules}
    names = [name for name in ("gpu", "node", "job", "name", "job_family") if name in frames.gpu.columns]
    cards = frames.gpu.select(names) if settings else pl.DataFrame()
    return {
        rule: _of_rule(ours, getattr(frames, scopes[rule]), scopes[rule], cards, node_names)
        for rule, ours in settings.items()
        if rule in scopes
    }


def _of_rule(
    settings: Collection[Setting], frame: pl.DataFrame, scope: str, cards: pl.DataFrame, node_names: Mapping[int, str]
) -> Mapping[str, float | pl.Expr]:
    found: dict[str, float | pl.Expr] = {}
    for one in sorted(settings, key=lambda one: narrowness(one.reach)):
        if one.matcher == "site":
            found[one.threshold] = one.value
            continue
        rows = _matched(one, frame, scope, cards, node_names)
        wider = found.get(one.threshold)
        otherwise = wider if isinstance(wider, pl.Expr) else pl.lit(wider, pl.Float64)
        found[one.threshold] = pl.when(rows).then(pl.lit(one.value)).otherwise(otherwise)
    return found


def _matched(one: Setting, frame: pl.DataFrame, scope: str, cards: pl.DataFrame, node_names: Mapping[int, str]) -> pl.Expr:
    """True on the rows of the scope's frame that the setting holds for."""
    match one.matcher:
        case "gpu_model":
            return _having(_fits("name", cards, one.pattern), frame, scope, cards)
        case "partition" if "partition" in frame.columns:
            known = frame.get_column("partition").unique().drop_nulls()
            fitting = [each for each in known if any(fnmatchcase(part, one.pattern) for part in each.split(SEPARATOR))]
            return pl.col("partition").is_in(fitting).fill_null(False)
        case "node" if "node" in frame.columns:
            return pl.col("node").is_in([key for key, name in node_names.items() if fnmatchcase(name, one.pattern)])
        case "job" if scope != "node":
            return _having(_fits("job", cards, one.pattern), frame, scope, cards)
        case "job_family" if scope != "node":
            told = pl.col("job_family") if "job_family" in cards.columns else pl.lit(None, pl.String)
            fitting = [
                job
                for job, node, family in cards.select("job", "node", told.alias("family")).unique().drop_nulls("job").iter_rows()
                if fnmatchcase(family or job_family(job, node_names.get(node)), one.pattern)
            ]
            return _having(pl.col("job").is_in(fitting), frame, scope, cards)
    return pl.lit(False)


def _fits(name: str, cards: pl.DataFrame, pattern: str) -> pl.Expr:
    """True on the GPUs of which the column has a text that the pattern matches."""
    return pl.col(name).is_in([text for text in cards[name].unique() if text is not None and fnmatchcase(text, pattern)])


def _having(fits: pl.Expr, frame: pl.DataFrame, scope: str, cards: pl.DataFrame) -> pl.Expr:
    """True on the rows of the scope's frame that have such a GPU; a service those that it works on, the whole fleet none."""
    having = cards.filter(fits)
    if (key := KEYS[scope]) in cards.columns:
        return pl.col(key).is_in(having.get_column(key).drop_nulls().unique().to_list()).fill_null(False)
    if "members" not in frame.columns:
        return pl.lit(False)
    many = pl.List(pl.Int64)
    own = pl.lit(pl.Series([having.get_column("gpu").to_list()], dtype=many))
    return pl.col("members").cast(many).list.set_intersection(own).list.len() > 0


@dataclass(frozen=True, slots=True)
class Crossing:
    """Two values that would be in force together and let a finding flap; `where` is the narrower of what they hold for."""

    opens: str
    clears: str
    opens_at: float
    clears_at: float
    where: Reach


def crossing(rule: Rule, settings: Iterable[Setting]) -> Crossing | None:
    """The first pair of thresholds that these settings could bring out of order on some target; None where there is none.

    The narrower of two overrides decides for what it sets; for what it does not, a wider one, or the default.
    """
    defaults = {one.name: one.default for one in rule.thresholds}
    by_name: dict[str, dict[Reach, float]] = {name: {("", ""): value} for name, value in defaults.items()}
    for one in settings:
        if one.threshold in by_name:
            by_name[one.threshold][one.reach] = one.value
    for opens in defaults:
        clears = opens.replace("_opens", "_clears")
        if clears == opens or clears not in defaults:
            continue
        order = defaults[opens] - defaults[clears]
        for (here, opens_at), (there, clears_at) in product(by_name[opens].items(), by_name[clears].items()):
            if not _together(here, there, by_name[opens], by_name[clears]):
                continue
            if (opens_at - clears_at) * order <= 0:
                return Crossing(opens, clears, opens_at, clears_at, max(here, there, key=_place))
    return None


def _place(reach: Reach) -> tuple[int, int, str]:
    return narrowness(reach) if reach[0] else (-1, 0, "")


def _together(here: Reach, there: Reach, opens: Collection[Reach], clears: Collection[Reach]) -> bool:
    """Whether one target may have its opening from `here` and its clearing from `there`."""
    if here == there:
        return True
    narrow, others = (here, clears) if _place(here) > _place(there) else (there, opens)
    if narrow in others:  # the narrower one sets both, so the wider one's half is not in force with it
        return False
    if here[0] != there[0]:
        wide = there if narrow == here else here
        return bool(wide[0]) or SITE not in others  # the default is in force nowhere where the site has a value
    return _overlap(here[1], there[1])


def _overlap(one: str, other: str) -> bool:
    """Whether something may match both patterns; True where that is not known."""
    special = set("*?[")
    if not special & set(one):
        return fnmatchcase(one, other)
    if not special & set(other):
        return fnmatchcase(other, one)
    return True
