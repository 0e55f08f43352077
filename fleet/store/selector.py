"""Lists of matchers, as PromQL has them, and what in one surely is wrong.

Servers compile regular expressions by RE2's rules, which nothing here knows. So Python's compiler is asked, and believed where the
two agree: over brackets that are not closed, say, and not over `\\pL`, which RE2 knows and Python does not.
"""

import re
import warnings
from collections.abc import Iterator
from typing import Final

_MATCHER: Final = re.compile(r'\s*[A-Za-z_]\w*\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"\\": "\\", '"': '"', "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_SURE: Final = (
    "missing ), unterminated subpattern",
    "unbalanced parenthesis",
    "unterminated character set",
    "bad escape (end of pattern)",
    "multiple repeat",
    "min repeat greater than max repeat",
)
"""What Python says of expressions that RE2 refuses too."""
_OTHER: Final = ("[:", "{,")
"""Classes, and plain text, that Python reads otherwise."""


def mistake(selector: str) -> str | None:
    """What is wrong with a list of matchers, as the end of a sentence; None where nothing surely is."""
    matchers: list[tuple[str, str]] = []
    at = 0
    while selector[at:].strip():
        found = _MATCHER.match(selector, at)
        if found is None:
            return 'is no list of matchers; write them as job="dcgm",cluster=~"a|b"'
        matchers.append((found[1], found[2]))
        at = found.end()
    for reason in _broken(matchers):
        return reason
    return None


def _broken(matchers: list[tuple[str, str]]) -> Iterator[str]:
    for how, quoted in matchers:
        if how in ("=~", "!~") and (text := _unquoted(quoted)) is not None and (why := _refused(text)):
            yield f"has {text!r}, which is no regular expression: {why}"


def _unquoted(quoted: str) -> str | None:
    """The text of a string; None where it has escapes that not all servers read alike."""
    if any(escape not in _ESCAPES for escape in _ESCAPE.findall(quoted)):
        return None
    return _ESCAPE.sub(lambda found: _ESCAPES[found[1]], quoted)


def _refused(text: str) -> str | None:
    """Why RE2 refuses an expression, None where it may take it; older servers compile it with brackets around."""
    if any(other in text for other in _OTHER):
        return None
    alone = _error(text)
    if alone is None or _error(f"^(?:{text})$") is None:
        return None
    before = text[: alone.pos or 0]
    nothing = alone.msg == "nothing to repeat" and (not before or before[-1] in "(|")  # RE2 repeats ^ and its like
    return str(alone) if nothing or alone.msg.startswith(_SURE) else None


def _error(text: str) -> re.error | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what RE2 reads otherwise
        try:
            re.compile(text)
        except re.error as error:
            return error
        except (RecursionError, OverflowError):  # limits of Python's own
            return None
    return None
