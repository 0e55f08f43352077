"""Quantities as engineers write and type them: `80GiB`, `480GB/s`, `989TFLOP/s`, `12ms`, `8.03B` parameters."""

import re
from typing import Final, Literal, TypeAlias

Unit: TypeAlias = Literal[
    "count", "ratio", "bytes", "bytes_per_second", "seconds", "hours", "flop", "flop_per_second", "flop_per_byte", "watts",
    "kilowatt_hours", "kilograms", "kilograms_per_kilowatt_hour", "money", "gpu_hours", "per_second", "flag", "words", "sentences",
]  # fmt: skip
"""What a number is measured in; bytes, seconds and watts are plain, never scaled, so that a name's unit is the number's."""

_THOUSANDS: Final = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY: Final = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_BYTES: Final = {f"{prefix}B": size for prefix, size in (_THOUSANDS | _BINARY).items()}
_FLOP: Final = {f"{prefix}FLOP": size for prefix, size in _THOUSANDS.items()}
_TIMES: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "min": 60.0, "h": 3600.0, "d": 86_400.0}

SUFFIXES: Final[dict[str, dict[str, float]]] = {
    "count": {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12},
    "ratio": {"": 1.0, "%": 0.01},
    "bytes": {"": 1.0, **_BYTES},
    "bytes_per_second": {
        "": 1.0,
        **{f"{name}/s": size for name, size in _BYTES.items()},
        **{f"{prefix}b/s": size / 8 for prefix, size in _THOUSANDS.items()},
    },
    "seconds": {"": 1.0, **_TIMES},
    "hours": {"": 1.0, "h": 1.0, "d": 24.0, "min": 1 / 60},
    "flop": {"": 1.0, **_FLOP},
    "flop_per_second": {
        "": 1.0,
        **{f"{name}/s": size for name, size in _FLOP.items()},
        **{f"{name}S": size for name, size in _FLOP.items()},
    },
    "watts": {"": 1.0, "W": 1.0, "kW": 1e3, "MW": 1e6},
    "kilowatt_hours": {"": 1.0, "kWh": 1.0},
    "kilograms_per_kilowatt_hour": {"": 1.0, "kg/kWh": 1.0, "g/kWh": 1e-3},
    "per_second": {"": 1.0, "/s": 1.0},
}
"""Of each unit: what may follow a number, and how much it stands for."""

_NUMBER: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf))\s*(.*)", re.IGNORECASE | re.DOTALL)


def read(text: str, unit: Unit) -> float:
    """The number that `text` tells in `unit`; raises ValueError with a sentence for what is none."""
    suffixes = SUFFIXES.get(unit, {"": 1.0})
    found = _NUMBER.fullmatch(text.strip())
    size = suffixes.get(found[2].strip()) if found else None
    if found is None or size is None:
        with_unit = ", ".join(suffix for suffix in suffixes if suffix)
        raise ValueError(f"{text!r} is not a number" + (f", alone or with one of {with_unit}." if with_unit else "."))
    value = float(found[1]) * size
    if 0 < abs(value) < 1e15 and abs(round(value) / value - 1) < 1e-14:  # 8.03B is 8030000000 and no hair less
        return float(round(value))
    return value


def written(value: float, unit: Unit) -> str:
    """`value` as an engineer writes it, in the size of unit that suits it."""
    match unit:
        case "flag":
            return "yes" if value else "no"
        case "bytes":
            return _scaled(value, (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("B", 1.0)))
        case "bytes_per_second":
            return _scaled(value, (("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3), ("B/s", 1.0)))
        case "flop":
            return _scaled(value, (("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6), ("FLOP", 1.0)))
        case "flop_per_second":
            return _scaled(value, (("TFLOP/s", 1e12), ("GFLOP/s", 1e9), ("FLOP/s", 1.0)))
        case "seconds":
            if value >= 90:
                return _scaled(value, (("h", 5400.0), ("min", 60.0))) if value < 5400 else f"{_short(value / 3600)} h"
            return _scaled(value, (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)))
        case "count" if abs(value) >= 1e7:
            return f"{value:.4g}".replace("e+0", "e").replace("e+", "e")
        case "ratio":
            return f"{_short(value * 100)} %"
        case "money":
            return f"{value:,.2f}" if abs(value) >= 0.1 or not value else _short(value)  # a token costs less than a hundredth
    return f"{_short(value)}{_SYMBOLS.get(unit, '')}"


_SYMBOLS: Final[dict[str, str]] = {
    "hours": " h",
    "flop_per_byte": " FLOP/B",
    "watts": " W",
    "kilowatt_hours": " kWh",
    "kilograms": " kg",
    "kilograms_per_kilowatt_hour": " kg/kWh",
    "gpu_hours": " GPU-hours",
    "per_second": " /s",
}


def _scaled(value: float, sizes: tuple[tuple[str, float], ...]) -> str:
    symbol, size = next(((symbol, size) for symbol, size in sizes if abs(value) >= size), sizes[-1])
    if not value:
        symbol, size = next((symbol, size) for symbol, size in sizes if size == 1.0)
    return f"{_short(value / size)} {symbol}"


def _short(value: float) -> str:
    """Whole from 1,000 on, else four digits."""
    return f"{value:,.0f}" if abs(value) >= 999.95 else f"{value:.4g}"
