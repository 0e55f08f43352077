"""Findings and their transitions, to read: telemetry and people's moves write them."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from fleet.findings.models import Diagnosis, Finding, Transition


class ReadOnly:
    """No adding, no changing."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never."""
        return False


class TransitionInline(ReadOnly, admin.TabularInline):  # type: ignore[type-arg] # no parameter at run time
    """The finding's history."""

    model = Transition
    extra = 0
    fields = ("at", "axis", "before", "after", "by", "note", "routed_at")


@admin.register(Finding)
class FindingAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg] # no parameter at run time
    """One rule's verdict on one target."""

    list_display = ("rule", "target", "node", "severity", "condition", "advice", "opened_at", "last_seen_at", "resolved_at")
    list_filter = ("condition", "severity", "rule", "advice")
    list_select_related = ("node",)
    search_fields = ("rule", "target", "node__name")
    inlines = (TransitionInline,)


@admin.register(Diagnosis)
class DiagnosisAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg] # no parameter at run time
    """The newest bottleneck of each GPU and job."""

    list_display = ("target", "scope", "node", "bottleneck", "confidence", "window_end")
    list_filter = ("bottleneck", "scope")
    list_select_related = ("node",)
