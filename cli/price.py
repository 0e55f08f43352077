"""What an hour of a GPU costs, as the verbs that say what findings cost take it."""

import argparse

from cli.language import _

CURRENCY = "USD"
MAX_CURRENCY = 12
LEAST_PRICE = 1e-4
"""Less an hour of a GPU costs nowhere: it was meant in another unit."""
MOST_PRICE = 1e6


def price_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what an hour of a GPU costs, for every verb that says what findings cost."""
    parser.add_argument(
        "--price", metavar="PRICE", type=_price, help=_("what an hour of one GPU costs: findings say what they cost a day")
    )
    parser.add_argument(
        "--currency",
        metavar="WORD",
        type=_currency,
        default=CURRENCY,
        help=_("the price's currency (default {currency})").format(currency=CURRENCY),
    )


def _price(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value and not LEAST_PRICE <= value <= MOST_PRICE:
        raise argparse.ArgumentTypeError(
            _("{text} is not a price of 0, or from {least:g} to {most:,.0f} an hour").format(
                text=repr(text[:40]), least=LEAST_PRICE, most=MOST_PRICE
            )
        )
    return value


def _currency(text: str) -> str:
    if not 1 <= len(text.strip()) <= MAX_CURRENCY or not text.isprintable():
        raise argparse.ArgumentTypeError(
            _("{text} is not a currency: write 1 to {most} characters, such as USD or €").format(
                text=repr(text[:40]), most=MAX_CURRENCY
            )
        )
    return text.strip()
