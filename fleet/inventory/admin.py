"""The inventory in the admin; agents and ingest write it, people read it."""

from typing import ClassVar

from django.contrib import admin
from django.http import HttpRequest

from fleet.inventory.models import Absence, Engine, Event, Gpu, Node, Process, Refusal


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg] # no parameter at run time
    """What agents report is not for people to change; a node that is gone may be deleted."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: rows appear when agents speak."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Never: the next hello would undo it."""
        return False


@admin.register(Node)
class NodeAdmin(ReadOnly):
    """Nodes with their agents."""

    list_display = ("name", "agent_version", "driver_version", "recording", "last_seen_at", "clock_skew_s")
    search_fields = ("name",)


@admin.register(Gpu)
class GpuAdmin(ReadOnly):
    """GPUs."""

    list_display = ("node", "index", "model", "uuid", "present")
    list_filter = ("model", "present")
    list_select_related: ClassVar[list[str]] = ["node"]
    search_fields = ("uuid", "node__name")


@admin.register(Engine)
class EngineAdmin(ReadOnly):
    """Serving engines."""

    list_display = ("node", "name", "kind", "model", "pid", "last_seen_at")
    list_filter = ("kind",)
    list_select_related: ClassVar[list[str]] = ["node"]
    search_fields = ("name", "model", "node__name")


@admin.register(Process)
class ProcessAdmin(ReadOnly):
    """Processes of which something was told in words."""

    list_display = ("node", "pid", "name", "first_seen_at", "last_seen_at")
    list_select_related: ClassVar[list[str]] = ["node"]
    search_fields = ("name", "node__name")


@admin.register(Absence)
class AbsenceAdmin(ReadOnly):
    """Which metrics had no value, when and why."""

    list_display = ("node", "gpu", "metric", "reason", "since", "until")
    list_filter = ("reason",)
    list_select_related: ClassVar[list[str]] = ["node", "gpu__node"]


@admin.register(Refusal)
class RefusalAdmin(ReadOnly):
    """Frames that ingest refused."""

    list_display = ("node_name", "code", "total", "last_at", "last_detail")
    list_filter = ("code",)


@admin.register(Event)
class EventAdmin(ReadOnly):
    """XIDs, ECC errors, lost GPUs."""

    list_display = ("observed_at", "node", "gpu", "kind", "code", "text", "handled_at")
    list_filter = ("kind",)
    list_select_related: ClassVar[list[str]] = ["node", "gpu__node"]
