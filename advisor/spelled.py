"""`spelled(expression)`: a condition as people read it, in the SQL that a site's own conditions are written in."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import polars as pl

from advisor.expression_tree import path, tree_of
from advisor.rule import PARAM

_BINARY: Final[Mapping[str, tuple[str, int]]] = {
    "Or": ("OR", 1), "LogicalOr": ("OR", 1), "And": ("AND", 2), "LogicalAnd": ("AND", 2),
    "Eq": ("=", 4), "NotEq": ("<>", 4), "Lt": ("<", 4), "LtEq": ("<=", 4), "Gt": (">", 4), "GtEq": (">=", 4),
    "EqValidity": ("IS NOT DISTINCT FROM", 4), "NotEqValidity": ("IS DISTINCT FROM", 4),
    "Plus": ("+", 5), "Add": ("+", 5), "Minus": ("-", 5), "Sub": ("-", 5), "Multiply": ("*", 6), "Mul": ("*", 6),
    "Divide": ("/", 6), "TrueDivide": ("/", 6), "Div": ("/", 6), "FloorDivide": ("/", 6), "Modulus": ("%", 6), "Rem": ("%", 6),
}  # fmt: skip
"""By the tree's operator: how it is written, and how strongly it binds."""
_ATOM: Final = 9
_NOT: Final = 3
_CALLS: Final[Mapping[str, str]] = {
    "Abs": "ABS", "Coalesce": "COALESCE", "FillNull": "COALESCE", "MaxHorizontal": "GREATEST", "MinHorizontal": "LEAST",
    "StringExpr.StartsWith": "STARTS_WITH", "StringExpr.EndsWith": "ENDS_WITH",
    "StringExpr.Lowercase": "LOWER", "StringExpr.Uppercase": "UPPER", "StringExpr.LenChars": "LENGTH",
}  # fmt: skip


def spelled(expression: pl.Expr, values: Mapping[str, str] = MappingProxyType({})) -> str:
    """The expression as SQL; a threshold as its value in `values`, or by its name. What SQL has no word for stands as a call."""
    return _of(tree_of(expression), values)[0]


def _of(node: Any, values: Mapping[str, str]) -> tuple[str, int]:
    """A node's text and how strongly its outermost operator binds."""
    if not isinstance(node, dict) or len(node) != 1:
        return "…", _ATOM
    ((kind, body),) = node.items()
    if kind == "Column":
        name = str(body).removeprefix(PARAM)
        return (values.get(name, name) if str(body).startswith(PARAM) else name), _ATOM
    if kind == "Literal":
        return _literal(body), _ATOM
    if kind == "BinaryExpr":
        return _binary(body["op"], [body["left"], body["right"]], values)
    if kind == "Ternary":
        when, then, otherwise = (_of(body[part], values)[0] for part in ("predicate", "truthy", "falsy"))
        return f"IF({when}, {then}, {otherwise})", _ATOM
    if kind in ("Cast", "Alias"):
        inner = body["expr"] if kind == "Cast" else body[0]
        return _of(inner, values)
    if kind == "Function":
        return _call(path(body["function"]), body, values)
    return "…", _ATOM


def _binary(operation: str, sides: list[Any], values: Mapping[str, str]) -> tuple[str, int]:
    sign, strength = _BINARY.get(operation, (operation, 4))
    parts = []
    for place, side in enumerate(sides):
        text, binds = _of(side, values)
        loose = binds < strength or (binds == strength and (place == 1 or strength == 4) and strength > 2)
        parts.append(f"({text})" if loose else text)
    return f" {sign} ".join(parts), strength


def _call(name: str, body: Any, values: Mapping[str, str]) -> tuple[str, int]:
    inputs = body["input"]
    if name.startswith("Sql.Binary."):
        return _binary(name.rpartition(".")[2], inputs, values)
    texts = [_of(one, values) for one in inputs]
    if name == "Boolean.Not":
        text, binds = texts[0]
        return f"NOT ({text})" if binds < _ATOM else f"NOT {text}", _NOT
    if name in ("Boolean.IsNull", "Boolean.IsNotNull"):
        text, binds = texts[0]
        ending = "IS NULL" if name == "Boolean.IsNull" else "IS NOT NULL"
        return f"{f'({text})' if binds < _ATOM else text} {ending}", 4
    if "IsIn" in name and len(texts) == 2:
        return f"{texts[0][0]} IN {texts[1][0]}", 4
    if name.startswith("StringExpr.ToInteger"):
        return f"CAST({texts[0][0]} AS BIGINT)", _ATOM
    word = _CALLS.get(name) or name.rpartition(".")[2].upper() or "…"
    return f"{word}({', '.join(text for text, _binds in texts)})", _ATOM


def _literal(body: Any) -> str:
    if not isinstance(body, dict):
        return str(body)
    ((kind, value),) = body.items()
    if kind in ("Scalar", "Dyn"):
        return _literal(value) if isinstance(value, dict) else str(value).upper()
    if kind == "Decimal":
        return f"{value[0] / 10 ** value[2]:.12g}"
    if kind == "Null":
        return "NULL"
    if kind in ("List", "Series"):
        return _list(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return f"{value:.12g}" if isinstance(value, float) else str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "…"


def _list(written: Any) -> str:
    """The values of a list in the tree, which Polars writes as an Arrow stream of one column."""
    try:
        values = pl.read_ipc_stream(bytes(written)).to_series().to_list()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError, ValueError, OSError):
        return "(…)"
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    return f"({', '.join(_literal({'': value}) for value in values)})"
