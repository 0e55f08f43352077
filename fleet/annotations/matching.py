"""Which annotation counts for a target: the one that names it, else that of the most exact pattern, else the newest."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from advisor.annotations import BY_KEY, Value, fits
from fleet.annotations.models import Annotation

WILD: Final = re.compile(r"[*?]")
PATTERNED: Final = ("job", "node", "service")
"""Scopes whose targets may be patterns; `?` and `*` are signs like others elsewhere."""


@dataclass(frozen=True, slots=True)
class _Told:
    exactness: tuple[int, int, datetime]
    key: str
    value: Value


def is_pattern(target: str) -> bool:
    """True for a target that stands for several."""
    return bool(WILD.search(target))


def noted(
    scope: str, targets: Mapping[Any, Iterable[str]], at: datetime, keys: Collection[str] | None = None
) -> dict[Any, dict[str, Value]]:
    """The values by key that count for each target at a time; targets without any are left out. `targets` has each one's names.

    `keys`: those wanted; None is all.

    What began later than `at`, has ended, has a key that is not known any more or a value that no longer fits does not count.
    """
    exact: dict[str, list[_Told]] = defaultdict(list)
    wild: dict[str, list[_Told]] = defaultdict(list)
    rows = Annotation.objects.filter(scope=scope, at__lte=at).exclude(until__lte=at)
    if keys is not None:
        rows = rows.filter(key__in=keys)
    for target, key, value, since in rows.order_by().values_list("target", "key", "value", "at"):
        note = BY_KEY.get(key)
        if note is None or scope not in note.scopes or not fits(note, value):
            continue
        if note.kind == "age":
            value = float(value) + (at - since).total_seconds()
        many = scope in PATTERNED and is_pattern(target)
        exactness = (0 if many else 1, len(WILD.sub("", target)), since)
        (wild if many else exact)[target].append(_Told(exactness, key, value))
    if not exact and not wild:
        return {}
    expressions = [(_expression(pattern), told) for pattern, told in wild.items()]
    found: dict[Any, dict[str, Value]] = {}
    for target, names in targets.items():
        said: list[_Told] = []
        for name in names:
            said += exact.get(name, ())
            for expression, told in expressions:
                if expression.fullmatch(name):
                    said += told
        if said:
            found[target] = {one.key: one.value for one in sorted(said, key=lambda one: one.exactness)}
    return found


def _expression(pattern: str) -> re.Pattern[str]:
    """The pattern as an expression that never goes back over what it has passed: a hostile one costs no more than its length."""
    first, *parts = [".".join(map(re.escape, part.split("?"))) for part in pattern.split("*")]
    if not parts:
        return re.compile(first, re.DOTALL)
    *middle, last = parts
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle if part) + ".*" + last, re.DOTALL)
