"""Jobs in the admin: to look at and to delete; schedulers tell of them over the API."""

from django.contrib import admin
from django.http import HttpRequest

from fleet.jobs.models import Allocation, Job


class AllocationInline(admin.TabularInline):  # type: ignore[type-arg] # no parameter at run time
    """What the job held."""

    model = Allocation
    extra = 0
    can_delete = False
    raw_id_fields = ("node", "gpu")

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Never here: a scheduler tells."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Never here, for the same reason."""
        return False


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # no parameter at run time
    """Which job ran when, and what its scheduler said of it."""

    list_display = ("target", "user", "name", "state", "started_at", "ended_at", "gpus_total", "source")
    list_filter = ("source", "state", "cluster")
    search_fields = ("job_id", "array_job_id", "name", "user")
    inlines = (AllocationInline,)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never here: a scheduler tells."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Never here, for the same reason."""
        return False
