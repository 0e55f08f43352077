"""PCI addresses, which every source writes in another way."""

import re
from typing import Final

_ADDRESS: Final = re.compile(r"(?:(?:PCI:)?([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-7])?", re.IGNORECASE)


def address(text: str | None) -> str | None:
    """`0000:19:00` (domain, bus, device) of 00000000:19:00.0, PCI:0000:19:00 or 19:00.0; None where it is no address."""
    found = _ADDRESS.fullmatch(text.strip()) if text else None
    if found is None:
        return None
    return f"{int(found[1] or '0', 16):04x}:{found[2]}:{found[3]}".lower()
