"""Text of strangers, fit to be kept and shown."""

import re
import unicodedata
from typing import Final

CATEGORIES: Final = ("Cc", "Cf", "Cs")
"""Controls, format characters, halves of pairs."""
PLANES: Final = (0x0, 0x1, 0xE)
"""Of Unicode's seventeen, those that have any; every process that starts looks through them, and through all it takes a tenth of a second."""

_CONTROL = re.compile(
    "["
    + "".join(
        chr(n) for plane in PLANES for n in range(plane << 16, (plane + 1) << 16) if unicodedata.category(chr(n)) in CATEGORIES
    )
    + "]"
)


def clean(text: str, limit: int) -> str:
    """The text without control, direction and other format characters, cut to `limit`."""
    return _CONTROL.sub("", text[: limit * 2])[:limit]
