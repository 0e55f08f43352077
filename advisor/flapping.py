"""Conditions of which a finding would flap: a row on which both the opening and the clearing one hold, looked for before they are kept.

Values are tried that lie at, between and beyond the numbers of the two texts: where they only compare features, some of these rows shows
every way in which they can hold together. Of conditions that compute with features a miss proves nothing; a trial sees real rows.
"""

import itertools
import re
from collections.abc import Mapping
from typing import Final, TypeAlias

import polars as pl

from advisor.conditions import columns
from advisor.finding import Scope

Value: TypeAlias = float | bool | str | None

MOST_FEATURES: Final = 3
MOST_ROWS: Final = 50_000
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
    if len(names) > MOST_FEATURES or not (named <= others or others <= named):
        return None
    known = columns(scope)
    text = f"{opens} {clears}"
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
    frame = pl.DataFrame(
        {
            name: pl.Series([row[place] for row in rows], dtype=pl.Float64 if known[name].is_numeric() else known[name])
            for place, name in enumerate(names)
        }
    )
    found = frame.filter(opening.fill_null(False) & clearing.fill_null(False))
    return None if found.is_empty() else found.row(0, named=True)


def _between(numbers: list[float]) -> list[Value]:
    """Values between the numbers, at them and beyond them, those first that a reader sees through; absent last."""
    known = sorted({0.0, *numbers})
    middles = [round((one + other) / 2, 12) for one, other in itertools.pairwise(known)]
    most = known[-1]
    beyond = [(most + 1.0) / 2 if most < 1.0 else 2 * most, known[0] - max(1.0, abs(known[0]))]  # of a share no more than 1
    return [*middles, *known, *beyond, None]
