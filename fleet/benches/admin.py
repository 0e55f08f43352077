"""Bench runs in the admin: reports of nodes, which may be deleted and not changed."""

from typing import ClassVar

from django.contrib import admin
from django.http import HttpRequest

from fleet.benches.models import BenchRun, BenchScore


class Scores(admin.TabularInline):  # type: ignore[type-arg] # no parameter at run time
    """Those of one run."""

    model = BenchScore
    extra = 0
    can_delete = False
    fields = readonly_fields = ("gpu", "name", "value", "unit", "peak_share", "sm_clock_mhz", "power_w", "temperature_c")

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Never: nodes measure."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Never."""
        return False


@admin.register(BenchRun)
class BenchRunAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # no parameter at run time
    """Runs with their scores."""

    list_display = ("at", "node", "protocol", "shared", "interrupted", "seconds")
    list_filter = ("protocol", "shared")
    list_select_related: ClassVar[list[str]] = ["node"]
    search_fields = ("node__name",)
    inlines = (Scores,)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: nodes send them."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Never: what was measured was measured."""
        return False
