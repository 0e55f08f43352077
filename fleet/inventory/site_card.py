"""What a site knows of a card better than the card table: the memory that the drivers of its own cards tell."""

from dataclasses import replace

from django.db.models import Min

from advisor.planners.cards import INVENTORY, Card, named
from advisor.planners.inputs import InputError
from advisor.planners.planner import CardOf, Planner
from fleet.inventory.models import Gpu


def card_of(planner: Planner) -> CardOf:
    """Who tells of a card what the planner asks: the site's own cards, where it asks for memory, else the card table."""
    return site_card if any(one.of_card == "memory_bytes" for one in planner.parameters) else named


def site_card(name: str) -> Card:
    """The card of that name with the least memory that a whole, present GPU of it has, where the site has one; InputError as `named`."""
    card = named(name)
    whole = Gpu.objects.filter(present=True, parent_uuid="", mem_total_bytes__gt=0).exclude(memory_kind="unified")
    totals = [
        total for model, total in whole.order_by().values_list("model").annotate(Min("mem_total_bytes")) if _is(card, model)
    ]
    return replace(card, memory_total_bytes=float(min(totals)), memory_total_source=INVENTORY) if totals else card


def _is(card: Card, model: str) -> bool:
    try:
        return named(model).name == card.name
    except InputError:
        return False
