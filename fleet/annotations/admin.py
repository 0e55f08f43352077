"""Annotations in the admin: to look at and to delete; the API writes them, and notes who did."""

from django.contrib import admin
from django.http import HttpRequest

from fleet.annotations.models import Annotation


@admin.register(Annotation)
class AnnotationAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # no parameter at run time
    """What was told of which target, by whom, until when."""

    list_display = ("scope", "target", "key", "value", "at", "until", "by_name")
    list_filter = ("scope", "key")
    search_fields = ("target", "by_name")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never here: the API checks a value against its key."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Never here, for the same reason."""
        return False
