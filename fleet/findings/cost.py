"""What findings cost, in the reader's language: GPU-hours a day, and money where the site told a price (FETTLE_GPU_HOUR_PRICE)."""

from django.conf import settings
from django.utils.formats import number_format
from django.utils.translation import gettext, gettext_noop

from advisor import cost

SPACE = "\u00a0"  # a sum and its currency stay on one line
NOTHING = gettext_noop("no GPU time by itself")
UNKNOWN = gettext_noop("unknown: how many GPUs it stands for was not told")


def sentence(gpu_hours: float | None) -> str:
    """`38 GPU-hours a day, 95 USD at 2.50 USD a GPU-hour`; "" where there is nothing to win back, or nobody knows how much."""
    text = cost.said(gpu_hours, settings.FETTLE_GPU_HOUR_PRICE, settings.FETTLE_CURRENCY, _number, SPACE)
    return gettext(text.id).format_map(text.params) if text else ""


def total(gpu_hours: float | None) -> str:
    """`38 GPU-hours, 95 USD`; "" where it is not known. Less than nothing was lost."""
    if gpu_hours is None:
        return ""
    hours = _number(gpu_hours, cost.digits(gpu_hours))
    money = cost.cost_a_day(gpu_hours, settings.FETTLE_GPU_HOUR_PRICE)
    if money is None:
        return gettext("{hours} GPU-hours").format(hours=hours)
    price = f"{_number(money, cost.digits(money, money=True))}{SPACE}{settings.FETTLE_CURRENCY}"
    return gettext("{hours} GPU-hours, {money}").format(hours=hours, money=price)


def answer(gpu_hours: float | None) -> str:
    """As `sentence`, where something has to stand: why there is none, too."""
    return sentence(gpu_hours) or gettext(UNKNOWN if gpu_hours is None else NOTHING)


def a_day(gpu_hours: float | None) -> float | None:
    """Money a day in the site's currency; None where the price or the GPU-hours are not known."""
    money = cost.cost_a_day(gpu_hours, settings.FETTLE_GPU_HOUR_PRICE)
    return None if money is None else round(money, 4)


def currency() -> str | None:
    """The currency of the site's price; None where it told no price."""
    return None if settings.FETTLE_GPU_HOUR_PRICE is None else settings.FETTLE_CURRENCY


def _number(value: float, decimals: int) -> str:
    return number_format(value, decimals, use_l10n=True, force_grouping=True)
