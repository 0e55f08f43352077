"""What a link carries where the card does not say: figures published of its generation, in bytes/s one way.

An architecture has one NVLink generation, except where bridges of another speed are sold (8.6): those are not listed, and the
traffic of a card that is not listed is compared with no peak.
"""

from typing import Final

NVLINK_BYTES_PER_S: Final = {"6.0": 20e9, "7.0": 25e9, "8.0": 25e9, "9.0": 25e9, "10.0": 50e9, "10.3": 50e9}
"""Of one link, by compute capability: NVLink 1 to 5 (https://www.nvidia.com/en-us/data-center/nvlink/: 40, 50, 50, 50 and 100 GB/s
both ways)."""


def nvlink_rate(capability: str | None, told: float | None) -> float | None:
    """Bytes/s one way of one NVLink: what the card told, else its generation's; None where neither is known."""
    return told if told is not None else NVLINK_BYTES_PER_S.get(capability or "")
