"""Which XIDs follow from which fault of the same GPU within a minute: pure data. Together they are one alert, that of the stronger fault.

A memory error is told as 48 with 94 or 95, 63 or 64 and 45 beside it, a hung firmware as 119 or 120 until the card falls off the bus (79).
After NVIDIA's XID catalogue (https://docs.nvidia.com/deploy/xid-errors/), which names what "may follow" a code.
"""

from typing import Final

SPAN_S: Final = 60.0
"""How near to the stronger fault, before or after it."""

_LOST: Final = "xid-fallen-off-bus"
_LINK: Final = "nvlink-fault"
_FAILED: Final = "row-remap-failed"
_ECC: Final = "uncorrectable-ecc"
_RESET: Final = "gpu-reset-required"
_PENDING: Final = "row-remap-pending"
_RATE: Final = "correctable-ecc-rate"

STRENGTH: Final = (_LOST, _FAILED, _ECC, _LINK, _RESET, _PENDING, _RATE, "app-fault-xid")
"""Rules of events, the strongest first: what is nearest to the cause and asks for most."""

_FOLLOWS: Final[tuple[tuple[frozenset[int], tuple[str, ...]], ...]] = (
    (frozenset({43, 45}), (_LOST, _FAILED, _ECC, _LINK, _RESET)),
    (frozenset({13, 31, 32, 69, 80}), (_LOST, _LINK)),
    (frozenset({63, 92}), (_LOST, _FAILED, _ECC)),
    (frozenset({48, 94, 95, 140, 171, 172}), (_LOST, _FAILED)),
    (frozenset({46, 62, 109, 110, 119, 120, 143, 158}), (_LOST,)),
    (frozenset({154}), (_LOST, _FAILED, _ECC, _LINK)),
    (frozenset({74, 136, 137, 144, 145, 146, 147, 148, 149, 150, 155}), (_LOST,)),
)


def stronger(code: int | None) -> tuple[str, ...]:
    """The rules whose finding on the same GPU an XID of this code belongs to, the strongest first; none for a code that stands alone."""
    return next((rules for codes, rules in _FOLLOWS if code in codes), ())


def strength(rule: str) -> int:
    """The rule's place: 0 is the strongest; of one that is not here the last."""
    return STRENGTH.index(rule) if rule in STRENGTH else len(STRENGTH)
