"""What is wrong with a report, for people: msgspec's sentence, and beside a field that is not known those that are."""

import re
from typing import Any, Final

import msgspec

_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>.*?)`(?: - at `\$(?P<path>[^`]*)`)?\Z", re.DOTALL)


def unfit(error: msgspec.ValidationError, kind: Any) -> str:
    """The sentence without its first words' capital; `kind` is the Struct that was read."""
    found = _UNKNOWN.match(str(error))
    if found is None:
        return f"it does not fit: {error}"
    path = found["path"] or ""
    known = ", ".join(field.encode_name for field in _at(msgspec.inspect.type_info(kind), path).fields)
    return f"there is no field {found['name'][:40]} - at `${path}`; there are: {known}"


def _at(of: Any, path: str) -> Any:
    """The type at a path of msgspec's, such as `.scores[...]`; lists are passed through."""
    for name in re.findall(r"\.([A-Za-z_0-9]+)", path):
        of = next(field.type for field in of.fields if field.encode_name == name)
        while hasattr(of, "item_type"):
            of = of.item_type
    return of
