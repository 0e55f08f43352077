"""The tree that Polars makes of an expression, walked: what it names, what it compares with which number, what it needs."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from advisor.rule import Comparison

_OF_ABSENCE: Final = frozenset({"Boolean.IsNull", "Boolean.IsNotNull", "Coalesce", "MaxHorizontal", "MinHorizontal"})
_SIGNS: Final[Mapping[str, Comparison]] = {"Eq": "=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}


def tree_of(expression: pl.Expr) -> Any:
    """The expression's tree, as Polars writes it."""
    return json.loads(expression.meta.serialize(format="json"))


def nodes(tree: Any) -> Iterator[tuple[str, Any]]:
    """Every node of the expression's tree, as its kind and what is in it."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or len(node) != 1:
            yield "?", node
            continue
        ((kind, body),) = node.items()
        yield kind, body
        if kind == "BinaryExpr":
            waiting += [body["left"], body["right"]]
        elif kind == "Function":
            waiting += body["input"]
        elif kind == "Ternary":
            waiting += [body["predicate"], body["truthy"], body["falsy"]]
        elif kind == "Cast":
            waiting.append(body["expr"])


def path(function: Any) -> str:
    """The name of a function in the tree, from the outside in: `Sql.Binary.GtEq`."""
    names = []
    while isinstance(function, dict) and len(function) == 1:
        ((name, function),) = function.items()
        names.append(name)
    return ".".join([*names, function] if isinstance(function, str) else names)


def needed(expression: pl.Expr) -> tuple[str, ...]:
    """The features without which the condition says nothing, in order: all that it names but where it says what absence means.

    Those are the operands of IS NULL, COALESCE, GREATEST and LEAST.
    """
    bears, needs = set(), []
    for kind, body in nodes(tree_of(expression)):
        if kind == "Function" and path(body["function"]) in _OF_ABSENCE:
            bears |= {one["Column"] for one in body["input"] if isinstance(one, dict) and "Column" in one}
        if kind == "Column":
            needs.append(body)
    return tuple(sorted(set(needs) - bears))


def compared(expression: pl.Expr) -> Mapping[str, tuple[Comparison, float]]:
    """By feature, the first number that the condition compares it with, where it does so plainly: `busy < 0.2`."""
    found: dict[str, tuple[Comparison, float]] = {}
    for kind, body in nodes(tree_of(expression)):
        if kind == "BinaryExpr":
            operation, sides = body["op"], [body["left"], body["right"]]
        elif kind == "Function" and path(body["function"]).startswith("Sql.Binary"):
            operation, sides = path(body["function"]).rpartition(".")[2], body["input"]
        else:
            continue
        sign, name, number = _SIGNS.get(operation), sides[0].get("Column"), _number(sides[1].get("Literal"))
        if sign is not None and name is not None and number is not None:
            found.setdefault(name, (sign, number))
    return found


def _number(literal: Any) -> float | None:
    """The number of a literal in the tree, None where it is none."""
    if not isinstance(literal, dict):
        return None
    ((kind, body),) = literal.items()
    if kind in ("Scalar", "Dyn"):
        return _number(body)
    if kind == "Decimal":  # digits, how many, and how many of them after the point
        return float(body[0] / 10 ** body[2])
    return float(body) if isinstance(body, int | float) and not isinstance(body, bool) else None
