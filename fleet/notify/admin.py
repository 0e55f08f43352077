"""The delivery log in the admin, to read. Routes are made on their page, `/alerts/routes/`, and nowhere else: their URLs are secrets."""

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from fleet.notify.models import Delivery


def _second(at: datetime | None) -> str:
    """The time to the second, in UTC; a dash for none."""
    return "–" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@admin.register(Delivery)
class DeliveryAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # no parameter at run time
    """The delivery log, to read."""

    list_display = ("made", "route", "node", "news", "state", "error", "attempts", "next_try", "sent")
    list_filter = ("state", "route")
    list_select_related = ("route", "transition__finding__node")
    search_fields = ("transition__finding__node__name", "transition__finding__rule", "error")
    date_hierarchy = "created_at"

    @admin.display(description=_("made"), ordering="created_at")
    def made(self, delivery: Delivery) -> str:
        """When it was made, to the second."""
        return _second(delivery.created_at)

    @admin.display(description=_("node"), ordering="transition__finding__node__name")
    def node(self, delivery: Delivery) -> str:
        """The node that it is about; the target where that is no single node."""
        finding = delivery.transition.finding
        return finding.node.name if finding.node else finding.target

    @admin.display(description=_("news"))
    def news(self, delivery: Delivery) -> str:
        """The rule and what became of its finding."""
        return str(delivery.transition)

    @admin.display(description=_("next try"), ordering="next_try_at")
    def next_try(self, delivery: Delivery) -> str:
        """When it is tried next; nothing for what is sent or given up."""
        return _second(delivery.next_try_at) if delivery.state in ("pending", "failed") else "–"

    @admin.display(description=_("sent"), ordering="sent_at")
    def sent(self, delivery: Delivery) -> str:
        """When it was sent, to the second."""
        return _second(delivery.sent_at)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: deliveries are made from transitions."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never: a log is not edited."""
        return False
