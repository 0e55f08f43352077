"""Commands in the admin: an audit log, so nobody adds, changes or deletes one there."""

from django.contrib import admin
from django.http import HttpRequest

from fleet.commands.models import Command


@admin.register(Command)
class CommandAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # no parameter at run time
    """Who asked what of which agent, and what came of it."""

    list_display = ("asked_at", "node_name", "what", "seconds", "asked_by_name", "reason", "state", "answer")
    list_filter = ("state", "what")
    search_fields = ("node_name", "asked_by_name", "reason")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never here: the node's page and the API ask, and write who did."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Never: what was asked was asked."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Never: nor does it go."""
        return False
