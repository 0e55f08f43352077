"""Filters that write a value with its unit. Values arrive in the registry's units; absent is a dash, never a zero.

`static/js/units.js` writes the live values the same way; the browser test compares the two.
"""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TypeAlias

from django import template
from django.utils.translation import gettext

register = template.Library()

ABSENT: Final = "–"
SPACE: Final = "\u00a0"  # value and unit stay on one line
Readable: TypeAlias = int | float | None


def _number(value: object) -> float | None:
    """The value as a finite float, or None where there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _digits(value: float) -> str:
    """Three significant digits or whole, with thousands separated: 9.87, 45.2, 312, 1,755."""
    size = abs(value)
    places = 0 if size >= 99.95 or value == 0 else 1 if size >= 9.995 else 2
    return f"{value:,.{places}f}"


def _scaled(value: float, base: int, names: tuple[str, ...]) -> str:
    step = 0
    while abs(value) >= base * 0.9995 and step < len(names) - 1:
        value /= base
        step += 1
    return f"{_digits(value) if step else f'{value:,.0f}'}{SPACE}{names[step]}"


@register.filter
def memory(value: Readable) -> str:
    """Bytes of memory in binary units: `131 GiB`."""
    number = _number(value)
    return ABSENT if number is None else _scaled(number, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


@register.filter
def rate(value: Readable) -> str:
    """Bytes a second in decimal units, as link speeds are given: `18.5 GB/s`."""
    number = _number(value)
    return ABSENT if number is None else _scaled(number, 1000, ("B/s", "kB/s", "MB/s", "GB/s", "TB/s"))


@register.filter
def flop_rate(value: Readable) -> str:
    """Operations a second: `788 TFLOP/s`."""
    number = _number(value)
    return ABSENT if number is None else _scaled(number, 1000, ("FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s"))


@register.filter
def watts(value: Readable) -> str:
    """Watts, kilowatts from 10 kW on: `639 W`, `45.2 kW`."""
    number = _number(value)
    if number is None:
        return ABSENT
    return f"{number:,.0f}{SPACE}W" if abs(number) < 9999.5 else f"{_digits(number / 1000)}{SPACE}kW"


@register.filter
def percent(value: Readable) -> str:
    """A value from 0 to 100: `87 %`; under ten with one decimal, `4.2 %`."""
    number = _number(value)
    if number is None:
        return ABSENT
    if 0 < number < 0.05:  # little is not nothing
        return f"< 0.1{SPACE}%"
    places = 1 if 0 < abs(number) < 9.95 else 0
    return f"{number:.{places}f}{SPACE}%"


@register.filter
def ratio(value: Readable) -> str:
    """A value from 0 to 1 as a percentage."""
    number = _number(value)
    return ABSENT if number is None else percent(number * 100)


@register.filter
def energy(value: Readable) -> str:
    """Joules as people pay for them: `589 Wh`, `12.4 kWh`."""
    number = _number(value)
    if number is None:
        return ABSENT
    if 0 < number < 1800:  # little is not nothing
        return f"{_digits(number / 3600)}{SPACE}Wh" if number >= 36 else f"< 0.01{SPACE}Wh"
    return _scaled(number / 3600, 1000, ("Wh", "kWh", "MWh", "GWh"))


@register.filter
def gpu_hours(value: Readable) -> str:
    """GPU-hours, three digits that say something: `0.17`, `12.5`, `1,024`."""
    number = _number(value)
    return ABSENT if number is None else "< 0.01" if 0 < number < 0.005 else _digits(number)


@register.filter
def megahertz(value: Readable) -> str:
    """`1,755 MHz`."""
    number = _number(value)
    return ABSENT if number is None else f"{number:,.0f}{SPACE}MHz"


@register.filter
def celsius(value: Readable) -> str:
    """`64 °C`."""
    number = _number(value)
    return ABSENT if number is None else f"{number:.0f}{SPACE}°C"


@register.filter
def count(value: Readable) -> str:
    """A plain number with thousands separated; fractions with one decimal, under one with two."""
    number = _number(value)
    if number is None:
        return ABSENT
    return f"{number:,.0f}" if number.is_integer() else f"{number:,.{1 if abs(number) >= 1 else 2}f}"


@register.filter
def duration(value: Readable) -> str:
    """Seconds in the two largest units: `45 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`."""
    number = _number(value)
    if number is None:
        return ABSENT
    whole = round(abs(number))
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [(days, gettext("d")), (hours, gettext("h")), (minutes, gettext("min")), (seconds, gettext("s"))]
    first = next((index for index, (amount, _) in enumerate(parts) if amount), 3)
    shown = [f"{amount}{SPACE}{name}" for amount, name in parts[first : first + 2] if amount] or [f"0{SPACE}{parts[3][1]}"]
    return ("-" if number < 0 and whole else "") + SPACE.join(shown)


@register.filter
def seconds(value: Readable) -> str:
    """A time that may be short: `12.5 µs`, `153 ms`, `1.24 s`, `12.3 s`; whole seconds and a minute or more as `duration`."""
    number = _number(value)
    if number is None or number < 0 or number >= 59.5 or number.is_integer():
        return duration(number)
    if number < 0.0009995:
        shown, unit = number * 1e6, gettext("µs")
    else:
        shown, unit = (number, gettext("s")) if number >= 0.9995 else (number * 1000, gettext("ms"))
    return f"{_digits(shown)}{SPACE}{unit}"


@register.filter
def factor(value: Readable) -> str:
    """A ratio to today's speed as the finding keeps it and the command line and REST say it: `1.05`, `8`, `58`."""
    number = _number(value)
    return ABSENT if number is None else f"{number:,.10g}"


@register.filter
def plain(value: Readable) -> str:
    """A number without a unit, three significant digits."""
    number = _number(value)
    return ABSENT if number is None else _digits(number)


BY_UNIT: Final[dict[str, Callable[[Readable], str]]] = {
    "percent": percent,
    "ratio": ratio,
    "bytes": memory,
    "bytes_per_second": rate,
    "watts": watts,
    "megahertz": megahertz,
    "celsius": celsius,
    "seconds": seconds,
    "": plain,
}


@register.filter
def reading(value: Readable, unit: str) -> str:
    """The value in the form of its registry unit; units without one (counts, codes) as plain numbers."""
    return BY_UNIT.get(unit, count)(value)


@register.filter
def utc(value: datetime | int | float | None) -> str:
    """A time of day with its date, in UTC and saying so: `2026-11-30 02:34:10 UTC`."""
    if isinstance(value, int | float):
        value = datetime.fromtimestamp(value, UTC)
    return ABSENT if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@register.filter
def iso(value: datetime | None) -> str:
    """The time for a `<time datetime>` attribute; empty when absent."""
    return "" if value is None else value.astimezone(UTC).isoformat(timespec="seconds")


@register.filter
def entry(mapping: object, key: object) -> object:
    """The mapping's value at `key`; None when it has none."""
    return mapping.get(key) if isinstance(mapping, dict) else None


@register.filter
def css(value: Readable) -> str:
    """A number as CSS wants it in any language: a point, no grouping; 0 when absent, for widths alone."""
    number = _number(value)
    return "0" if number is None else f"{number:.4f}"
