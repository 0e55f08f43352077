"""What a finding costs: the GPU time that could be won back in a day, and its price where the site told one.

A price that nobody told makes the cost unknown, never nothing; the caller writes numbers the way its reader expects.
"""

import math
from collections.abc import Callable
from typing import Final

from advisor.text import Text, _

HOURS_A_DAY: Final = 24
WITHOUT_PRICE: Final = _("{hours} GPU-hours a day")
WITH_PRICE: Final = _("{hours} GPU-hours a day, {money} at {price} a GPU-hour")


def recoverable(low: float, high: float) -> float:
    """The share of a target's time that a gain of `low` to `high` times the speed wins back, 0 to 1.

    At the geometric middle of the range, where ratios have theirs: the same work is done in 1 / gain of the time. Nothing where it
    becomes slower.
    """
    return round(1 - 1 / math.sqrt(max(1.0, low * high)), 4)


def gpu_hours_a_day(recoverable: float, gpus: int | None) -> float | None:
    """GPU-hours a day that `recoverable` (a share of their time) of `gpus` GPUs is; None where it is not known how many there are."""
    if recoverable <= 0:
        return 0.0
    return None if gpus is None else round(recoverable * gpus * HOURS_A_DAY, 3)


def cost_a_day(gpu_hours: float | None, price: float | None) -> float | None:
    """Money a day, in the currency of `price` (of a GPU-hour); None where either is not known."""
    return None if gpu_hours is None or price is None else gpu_hours * price


def digits(value: float, *, money: bool = False) -> int:
    """Decimals to write `value` with: three digits that say something; money in cents below a hundred, whole from there on."""
    size = abs(value)
    if money:
        return 0 if size >= 99.5 or value == 0 else 2 if size >= 0.1 else 4
    return 0 if size >= 99.95 or value == 0 else 1 if size >= 0.95 else 2


def _plain(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}"


def said(
    gpu_hours: float | None, price: float | None, currency: str, number: Callable[[float, int], str] = _plain, space: str = " "
) -> Text | None:
    """The cost in a sentence; None where there is nothing to win back, or nobody knows how much.

    `number` writes a value with its decimals; `space` stands between a sum and its currency.
    """
    if not gpu_hours:
        return None
    hours = number(gpu_hours, digits(gpu_hours))
    money = cost_a_day(gpu_hours, price)
    if money is None or price is None:
        return Text(WITHOUT_PRICE, {"hours": hours})
    total = f"{number(money, digits(money, money=True))}{space}{currency}"
    each = f"{number(price, 2 if price == 0 or price >= 0.1 else 4)}{space}{currency}"
    return Text(WITH_PRICE, {"hours": hours, "money": total, "price": each})
