"""Words of strangers on a terminal: a program may call itself anything, escape sequences too."""

import json
import unicodedata


def printable(text: str) -> str:
    """The text in one line that moves no cursor: what is neither printable nor a space is written as JSON writes it, `\\u001b`."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or unicodedata.category(one) == "Zs" else json.dumps(one)[1:-1] for one in text)
