"""The number of alerts that wait for somebody, for the head of every page."""

from typing import Final

from django import template

from fleet.dashboard.alerts import unacknowledged

register = template.Library()
MOST: Final = 999


@register.simple_tag
def alerts_waiting() -> str:
    """How many critical and warning alerts nobody has acknowledged; empty for none."""
    total = unacknowledged()
    return "" if not total else f"{MOST}+" if total > MOST else str(total)
