"""Profiles in the admin: what was sent may be deleted and not changed."""

from typing import ClassVar

from django.contrib import admin
from django.http import HttpRequest

from fleet.profiles.models import JobProfile


@admin.register(JobProfile)
class JobProfileAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # no parameter at run time
    """Summaries, the newest first."""

    list_display = ("at", "job", "node", "pid", "received_at")
    list_select_related: ClassVar[list[str]] = ["node"]
    search_fields = ("job", "node__name")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: `fettle profile --send` adds them."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Never: what was measured was measured."""
        return False
