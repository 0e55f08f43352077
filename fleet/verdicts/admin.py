"""Verifications in the admin: to look at and to delete; the advisor writes them."""

from django.contrib import admin
from django.http import HttpRequest

from fleet.verdicts.models import Verification


@admin.register(Verification)
class VerificationAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # no parameter at run time
    """What was applied, and what came of it."""

    list_display = ("rule", "target", "applied_at", "by_advisor", "verdict", "ratio", "ratio_low", "ratio_high", "measured_at")
    list_filter = ("verdict", "by_advisor", "rule")
    search_fields = ("rule", "target", "family")
    exclude = ("before_samples", "after_samples")
    raw_id_fields = ("finding",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never here: what was applied is told on the finding."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Never here: a verdict is measured."""
        return False
