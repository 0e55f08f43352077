"""Text of strangers, fit to be kept and shown."""

import re
import unicodedata

_CONTROL = re.compile(
    "[" + "".join(chr(n) for n in range(0x110000) if unicodedata.category(chr(n)) in ("Cc", "Cf", "Cs")).replace("]", "") + "]"
)


def clean(text: str, limit: int) -> str:
    """The text without control, direction and other format characters, cut to `limit`."""
    return _CONTROL.sub("", text[: limit * 2])[:limit]
