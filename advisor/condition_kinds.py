"""`mixed(tree, rows)`: where a condition takes text for a number or for true and false, in our own words, before Polars would say so in its."""

import io
import json
from typing import Any, Final

import polars as pl

from advisor.expression_tree import nodes, path
from advisor.text import Text, _

_COMPARES: Final = frozenset({"Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq"})
_JOINS: Final = frozenset({"And", "Or", "LogicalAnd", "LogicalOr"})


def mixed(tree: Any, rows: pl.DataFrame) -> Text | None:
    """What is wrong with the first pair of text and number that is compared or computed with, as a sentence; None where nothing is."""
    for kind, body in nodes(tree):
        operation, sides = _sides(kind, body)
        texts = [side for side in sides if _dtype(side, rows) == pl.String]
        others = [side for side in sides if _dtype(side, rows) not in (pl.String, pl.Null, None)]
        if not texts or (operation in _COMPARES | {"IsIn"} and not others):
            continue
        name = _shown(texts[0])
        if operation in _COMPARES | {"IsIn"}:
            return Text(
                _(
                    "{text} is text, and {number} is none: the two cannot be compared. Write text in quotes, as in name = 'H200', and numbers without."
                ),
                {"text": name, "number": _shown(others[0])},
            )
        if operation in _JOINS | {"Not"}:
            return Text(_("{text} is text, neither true nor false: compare it with a text in quotes."), {"text": name})
        return Text(_("{text} is text: nothing can be computed with it."), {"text": name})
    return None


def _sides(kind: str, body: Any) -> tuple[str, list[Any]]:
    """What a node does, and with what."""
    if kind == "BinaryExpr":
        return body["op"], [body["left"], body["right"]]
    if kind == "Cast":
        return "Not", [body["expr"]]
    if kind == "Function":
        name = path(body["function"])
        if name.startswith(("Sql.IsIn", "Boolean.IsIn")):
            return "IsIn", body["input"]
        if name.startswith("Sql.Binary"):
            return name.rpartition(".")[2], body["input"]
    return "", []


def _dtype(side: Any, rows: pl.DataFrame) -> Any:
    """The type of a part of the condition; None where it has none by itself."""
    try:
        made = rows.select(_is=pl.Expr.deserialize(io.BytesIO(json.dumps(side).encode()), format="json")).schema["_is"]
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError):
        return None
    return made.inner if isinstance(made, pl.List) else made  # of IN


def _shown(side: Any) -> str:
    """A feature by its name, a literal as it was written."""
    ((kind, body),) = side.items()
    if kind == "Column":
        return str(body)
    while isinstance(body, dict) and len(body) == 1:
        ((kind, body),) = body.items()
    return f"'{body}'" if kind == "String" else str(body) if isinstance(body, int | float) else "(…)"
