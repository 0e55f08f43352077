"""A site's own conditions: SQL expressions over the features of a scope, checked before they reach Polars and again after.

Polars parses the whole of its SQL, and a subquery that names a file makes it open the file while it parses. So a text is first
read as words, numbers, strings and operators, each of which must be known here: features, the few functions of FUNCTIONS, the
words of LOGIC. Only then is it parsed. Of the expression that comes of it every node must be known here too, and it is tried on
rows with every kind of value, absent ones among them: what would fail on the fleet's frames fails here.
"""

import difflib
import json
import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

import polars as pl

from advisor import described, slow_columns
from advisor.beside import of_window, with_more
from advisor.condition_kinds import mixed
from advisor.expression_tree import nodes, path, tree_of
from advisor.features import features
from advisor.finding import Scope
from advisor.frames import FACTS, Window
from advisor.text import Text, _

LONGEST: Final = 2_000
"""Characters of one condition."""
MOST_WORDS: Final = 300
DEEPEST: Final = 20
"""Parentheses within each other, and the depth of NOT and of signs."""
LONGEST_STRING: Final = 200

SCOPES: Final[tuple[Scope, ...]] = ("gpu", "job", "node", "service")
LOGIC: Final = frozenset(
    ["AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "TRUE", "FALSE"]
)
FUNCTIONS: Final = (
    "ABS", "CEIL", "COALESCE", "ENDS_WITH", "FLOOR", "GREATEST", "IF", "LEAST", "LENGTH", "LOWER", "NULLIF", "ROUND",
    "STARTS_WITH", "UPPER",
)  # fmt: skip

_DEEPER: Final = {"(": 1, ")": -1, "CASE": 1, "END": -1}
_INTERNAL: Final = frozenset({"gpu", "node", "service", "from_t", "until_t", "evaluated", "blind", "turns"})
"""Keys and times of the advisor's own: a condition on them would mean another thing tomorrow."""

_TOKEN: Final = re.compile(
    r"(?P<space> +)|(?P<string>'(?:[^']|'')*')|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![A-Za-z_0-9.]))"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign><=|>=|<>|!=|[=<>+*/%(),-])"
)
_FUNCTIONS_OF_POLARS: Final = (
    "Abs", "Ceil", "Coalesce", "Floor", "MaxHorizontal", "MinHorizontal", "Mod", "Boolean.IsNull", "Boolean.IsNotNull",
    "Boolean.Not", "Boolean.IsIn", "Boolean.IsBetween", "Pow.Sqrt", "Round", "Sql.Binary", "Sql.IsIn", "Sql.Round",
    "Sql.ToFloat", "Sql.Floor", "Sql.Ceil", "StringExpr.Contains", "StringExpr.EndsWith", "StringExpr.LenChars",
    "StringExpr.Lowercase", "StringExpr.StartsWith", "StringExpr.Uppercase",
)  # fmt: skip
_OPERATORS: Final = frozenset(
    [
        "Eq",
        "NotEq",
        "Lt",
        "LtEq",
        "Gt",
        "GtEq",
        "And",
        "LogicalAnd",
        "Or",
        "LogicalOr",
        "Plus",
        "Minus",
        "Multiply",
        "Divide",
        "TrueDivide",
        "FloorDivide",
        "Modulus",
    ]
)
_DIVIDES: Final = frozenset({"Divide", "TrueDivide", "FloorDivide", "Modulus", "Div", "Mod", "Rem"})


class ConditionError(ValueError):
    """A condition that cannot be one; `text` says what is wrong and where, for people."""

    def __init__(self, text: Text) -> None:
        super().__init__(text.english())
        self.text = text


@cache
def columns(scope: Scope) -> Mapping[str, pl.DataType]:
    """The features that conditions of `scope` may name, in order, with their types."""
    frame = getattr(_empty(), scope)
    return {
        name: kind
        for name, kind in sorted(frame.schema.items())
        if name not in _INTERNAL and (kind.is_numeric() or kind in (pl.Boolean, pl.String))
    }


def condition(sql: str, scope: Scope) -> pl.Expr:
    """`sql` as an expression that is true, false or null on each row of the scope's frame; ConditionError where it is none."""
    known = columns(scope)
    _check_words(sql, known)
    try:
        expression = pl.sql_expr(sql)
        tree = tree_of(expression)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, RecursionError) as error:
        raise _wrong(_("This is not an SQL expression: {why}"), why=_first_line(error)) from None
    for node in nodes(tree):
        _check_node(node, known)
    named = expression.meta.root_names()
    if not named:
        raise _wrong(_("It names no feature, so it would say the same of everything."))
    rows = _rows({name: known[name] for name in named})
    if (says := mixed(tree, rows)) is not None:
        raise ConditionError(says)
    try:
        result = rows.select(_held=expression).to_series()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _wrong(_("It cannot be computed: {why}"), why=_first_line(error)) from None
    if result.dtype != pl.Boolean:
        raise _wrong(_("It gives {kind}; a condition is true or false. Compare it with something."), kind=_kind(result.dtype))
    if len(result) != rows.height:
        raise _wrong(_("It says one thing of all rows together; a condition speaks of each."))
    return expression


def _check_words(sql: str, known: Collection[str]) -> None:
    """ConditionError unless every word, number and sign of `sql` is one that may be here."""
    if not sql.strip():
        raise _wrong(_("The condition is empty."))
    if len(sql) > LONGEST:
        raise _wrong(_("It has {length} characters; up to {most} are read."), length=len(sql), most=LONGEST)
    place, count, depth, lead = 0, 0, 0, 0
    while place < len(sql):
        found = _TOKEN.match(sql, place)
        if found is None or sql.startswith(("--", "/*"), place):
            raise _wrong(_("“{token}” at character {place} cannot stand here."), token=_token(sql, place), place=place + 1)
        kind, word = str(found.lastgroup), found[0]
        if kind != "space":
            count += 1
            depth += _DEEPER.get(word.upper(), 0)
            lead = lead + 1 if word.upper() in ("NOT", "+", "-") else 0
            if count > MOST_WORDS:
                raise _wrong(_("It has more than {most} words and signs."), most=MOST_WORDS)
            if depth > DEEPEST or lead > DEEPEST:
                raise _wrong(_("At character {place} it is nested more than {most} deep."), place=place + 1, most=DEEPEST)
        if kind == "word":
            _check_word(word, sql[found.end() :].lstrip(" ").startswith("("), place, known)
        if kind == "string":
            _check_string(word[1:-1], place)
        place = found.end()


def _check_word(word: str, called: bool, place: int, known: Collection[str]) -> None:
    if word.upper() in LOGIC:
        return
    if called:
        if word.upper() not in FUNCTIONS:
            says = _("There is no function {name} here (character {place}). There are: {known}.")
            raise _wrong(says, name=word[:60], place=place + 1, known=", ".join(FUNCTIONS))
    elif word not in known:
        near = difflib.get_close_matches(word[:60], list(known), n=3, cutoff=0.5)
        if near:
            says = _("There is no feature {name} (character {place}). Do you mean {near}?")
            raise _wrong(says, name=word[:60], place=place + 1, near=", ".join(near))
        raise _wrong(_("There is no feature {name} (character {place})."), name=word[:60], place=place + 1)


def _check_string(text: str, place: int) -> None:
    if len(text) > LONGEST_STRING:
        raise _wrong(_("The string at character {place} is longer than {most} characters."), place=place + 1, most=LONGEST_STRING)
    if any(unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") for one in text):
        raise _wrong(_("The string at character {place} holds control characters."), place=place + 1)


def _check_node(node: tuple[str, Any], known: Collection[str]) -> None:
    """ConditionError unless the node is one of the few that a condition is made of."""
    kind, body = node
    if kind == "Column" and body in known:
        return
    if kind == "Literal":
        return
    if kind == "Ternary":
        return
    if kind == "Cast" and body["dtype"] == {"Literal": "Boolean"}:  # what NOT makes of its operand
        return
    if kind == "BinaryExpr" and body["op"] in _OPERATORS:
        _check_divisor(body["op"], body["right"])
        return
    if kind == "Function":
        name = path(body["function"])
        if name.startswith(_FUNCTIONS_OF_POLARS):
            _check_divisor(name.rpartition(".")[2], body["input"][-1])
            return
        kind = name
    raise _wrong(_("It makes use of {name}, which has no place in a condition."), name=str(kind)[:60])


def _check_divisor(operation: str, divisor: Any) -> None:
    """A quotient by 0 is infinite or no number, and either compares as large: the divisor must say that it cannot be 0."""
    if operation not in _DIVIDES:
        return
    (kind, body), *_rest = nodes(divisor)
    if kind == "Ternary" and "Null" in json.dumps(body["truthy"]):
        return
    if kind == "Literal" and re.search(r"[1-9]", json.dumps(body)):
        return
    raise _wrong(_("It divides by what may be 0: write NULLIF(…, 0) around the divisor, and the quotient is absent there."))


@cache
def of_now(scope: Scope) -> frozenset[str]:
    """The features of `scope` that are known of now alone, or as they were told last: no window of the past has its own of them."""
    measured = getattr(_empty(with_slow=False), scope).columns
    names = columns(scope).keys() - slow_columns.CONSTANTS.keys()
    return frozenset(name for name in names if name not in measured or name == "partition" or name.startswith("told_"))


@cache
def _empty(*, with_slow: bool = True) -> Any:
    """The frames of no GPU at all with all that there could be beside it, for their columns."""
    key = {"gpu": pl.Int64, "t": pl.Float64}
    nothing = Window(
        pl.DataFrame(schema=key),
        pl.DataFrame(schema={"node": pl.Int64, "t": pl.Float64}),
        pl.DataFrame(schema={**key, "pid": pl.Int64, "gpu_mem_bytes": pl.Int64}),
        pl.DataFrame(schema=FACTS),
    )
    frames = features(nothing)
    words = described.described((), described.told_and_flags())
    return with_more(frames, replace(of_window(nothing, frames), words=words, slow=slow_columns.nothing() if with_slow else {}))


def _rows(known: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """A few rows of every column, with values of every kind that occurs."""

    def values(kind: pl.DataType) -> list[Any]:
        if kind == pl.String:
            return [None, "", "NVIDIA H200", "%'\"", "7.5", "true"]
        if kind == pl.Boolean:
            return [None, True, False, None, True, False]
        whole = [None, 0, 1, 7, 100, (1 << 31) - 1]
        return whole if kind.is_integer() else [None, 0.0, 0.5, -1.5, 1e15, 100.0]

    return pl.DataFrame({name: pl.Series(values(kind), dtype=kind) for name, kind in known.items()})


def _kind(dtype: pl.DataType) -> str:
    return "text" if dtype == pl.String else "a number" if dtype.is_numeric() else str(dtype).lower()


def _token(sql: str, place: int) -> str:
    """What begins at `place`, short and fit to be shown: characters that steer by their number."""
    shown = re.split(r"[\s(),]", sql[place : place + 20])[0] or sql[place : place + 1]
    return "".join(one if one.isprintable() else f"U+{ord(one):04X}" for one in shown)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200]


def _wrong(says: str, **params: str | int) -> ConditionError:
    return ConditionError(Text(says, params))
