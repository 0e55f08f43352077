"""Conditions of which a finding would flap: a row on which both the opening and the clearing one hold, looked for before they are kept.

Values are tried that lie at, between and beyond the numbers of the two texts: where they only compare features, some of these rows shows
every way in which they can hold together. Of conditions that compute with features a miss proves nothing; a trial sees real rows.
"""

import itertools
import re
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeAlias

import polars as pl

from advisor.conditions import columns
from advisor.expression_tree import nodes, path, tree_of
from advisor.finding import Scope

Value: TypeAlias = float | bool | str | None

MOST_FEATURES: Final = 3
MOST_ROWS: Final = 50_000
MOST_SHARE: Final = 1.5
"""Measured shares pass 1 by a little (power over its limit, a link over its peak); none reaches this."""
_COMPARES: Final = frozenset({"Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq"})
_NUMBER: Final = re.compile(r"(?<![A-Za-z_0-9.])-? ?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_STRING: Final = re.compile(r"'((?:[^']|'')*)'")


def both_hold(opens: str, clears: str, scope: Scope) -> Mapping[str, Value] | None:
    """Values of the features with which both conditions are true; None where none were found, or it is not known.

    It is only looked for where one of the conditions names no feature that the other does not: features that are told apart may never
    have such values together.
    """
    opening, clearing = pl.sql_expr(opens), pl.sql_expr(clears)
    named, others = frozenset(opening.meta.root_names()), frozenset(clearing.meta.root_names())
    names = sorted(named | others)
    if not (named <= others or others <= named):
        return None
    frame = _rows(f"{opens} {clears}", names, scope)
    if frame is None:
        return None
    found = frame.filter(opening.fill_null(False) & clearing.fill_null(False))
    return None if found.is_empty() else found.row(0, named=True)


def never_holds(opens: str, scope: Scope, shares: Collection[str]) -> bool:
    """True where no values of its features make the condition true, `shares` lying between 0 and MOST_SHARE; False too where it is not known.

    It is known of conditions that only compare features with numbers and texts.
    """
    opening = pl.sql_expr(opens)
    for kind, body in nodes(tree_of(opening)):
        plain = kind in ("Column", "Literal", "Cast")
        plain |= kind == "BinaryExpr" and body["op"] in _COMPARES and not _columns(body["left"]) & _columns(body["right"])
        plain |= kind == "BinaryExpr" and body["op"] in ("And", "Or", "LogicalAnd", "LogicalOr")
        plain |= kind == "Function" and path(body["function"]).startswith(("Boolean.", "Sql.IsIn"))
        if not plain or (kind == "BinaryExpr" and body["op"] in _COMPARES and _columns(body["left"]) and _columns(body["right"])):
            return False
    names = sorted(frozenset(opening.meta.root_names()))
    frame = _rows(opens, names, scope)
    if frame is None:
        return False
    within = [pl.col(name).is_between(0, MOST_SHARE).fill_null(True) for name in names if name in shares]
    within += [pl.col(name).is_finite().fill_null(True) for name in names if frame.schema[name] == pl.Float64]
    return frame.filter(opening.fill_null(False), *within).is_empty()


def _columns(tree: Any) -> frozenset[str]:
    return frozenset(body for kind, body in nodes(tree) if kind == "Column")


def _rows(text: str, names: list[str], scope: Scope) -> pl.DataFrame | None:
    """Values of the features `names` at, between and beyond the numbers and texts of `text`, each with each; None where they are too many."""
    if len(names) > MOST_FEATURES:
        return None
    known = columns(scope)
    bare = _STRING.sub(" ", text)
    numbers = _between([float(one.replace(" ", "")) for one in _NUMBER.findall(bare)])
    words: list[Value] = ["another", *(one.replace("''", "'") for one in _STRING.findall(text)), None]
    values = {
        name: words if known[name] == pl.String else [True, False, None] if known[name] == pl.Boolean else numbers
        for name in names
    }
    rows = list(itertools.islice(itertools.product(*values.values()), MOST_ROWS + 1))
    if len(rows) > MOST_ROWS:
        return None
    return pl.DataFrame(
        {
            name: pl.Series([row[place] for row in rows], dtype=pl.Float64 if known[name].is_numeric() else known[name])
            for place, name in enumerate(names)
        }
    )


def _between(numbers: list[float]) -> list[Value]:
    """Values between the numbers, at them and beyond them, those first that a reader sees through; absent last."""
    known = sorted({0.0, *numbers})
    middles = [round((one + other) / 2, 12) for one, other in itertools.pairwise(known)]
    most = known[-1]
    beyond = [(most + 1.0) / 2 if most < 1.0 else 2 * most, known[0] - max(1.0, abs(known[0]))]  # of a share no more than 1
    return [*middles, *known, *beyond, None]
