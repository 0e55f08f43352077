"""Makes what others named safe to say in a chat, and a message's text fit for targets that draw Markdown.

Names of nodes, jobs and programs come from machines. In a message such a name stays what it is to the eye, and neither
calls people (`@everyone`, `<!channel>`), nor makes a link or a line, nor turns the direction of writing.
"""

import re
import unicodedata
from itertools import groupby
from typing import Final

LONGEST: Final = 400
"""Characters of one value; a longer one says that it goes on."""
INDENT: Final = "    "
"""What begins a line of code: a step to take, to be copied as it is."""

_GAP: Final = "\u200b"  # seen by nobody, and no chat reads over it
_CALLS: Final = re.compile(r"(?<=@)(?=\w)|(?<=<)(?=[@!#&])|(?<=\])(?=\()|(?<=:)(?=//)|(?<=`)(?=`)")
_CALLS_IN_CODE: Final = re.compile(r"(?<=@)(?=(?:everyone|here|channel|all|room|team)\b)|(?<=<)(?=@)", re.IGNORECASE)
_DRAWN: Final = re.compile(r"[\\`*\[\]<>~|#{}]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])|^[-+=](?=\s|[-=])|(?<=^\d)[.)](?=\s)")
_SHOWN: Final = {"Cc": " ", "Zl": " ", "Zp": " ", "Cf": "", "Cs": ""}
_LINK: Final = re.compile(r"https?://[^\s<>]+")


def named(text: object) -> str:
    """A value on one line that calls nobody and makes no link."""
    line = " ".join(_visible(str(text), "").split())
    return _CALLS.sub(_GAP, line if len(line) <= LONGEST else f"{line[:LONGEST]}…")


def code(text: str) -> list[str]:
    """The lines of a step to take, as they are; only what calls everybody is broken."""
    return [_CALLS_IN_CODE.sub(_GAP, line).rstrip() for line in _visible(text, "\n\t").strip("\n").split("\n")]


def _visible(text: str, kept: str) -> str:
    """The text without characters that steer how others are shown; a space for line ends and other controls, but for those `kept`."""
    return "".join(one if one in kept else _SHOWN.get(unicodedata.category(one), one) for one in text.replace("\r\n", "\n"))


def markdown(title: str, body: str) -> str:
    """Title, if any, and body as Markdown that shows what they say: only lines of code and links that stand alone are drawn."""
    drawn = [f"**{_literal(title)}**", ""] if title else []
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`+", body))])
    for is_code, group in groupby(body.split("\n"), key=lambda line: line.startswith(INDENT)):
        lines = list(group)
        drawn += [fence, *(line.removeprefix(INDENT) for line in lines), fence] if is_code else map(_prose, lines)
    return "\n".join(drawn)


def _prose(line: str) -> str:
    """One line outside code; two spaces end it, so that the next one does not run on."""
    if not line:
        return ""
    return f"<{line}>" if _LINK.fullmatch(line) else f"{_literal(line)}  "


def _literal(text: str) -> str:
    """The text with a backslash before whatever Markdown would draw; an underscore inside a word draws nothing."""
    return _DRAWN.sub(r"\\\g<0>", text)
