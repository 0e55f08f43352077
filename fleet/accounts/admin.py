"""People and tokens in the admin. A token's text is shown once, by whoever issued it; never here."""

from typing import Final

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from fleet.accounts.models import AgentToken, ApiToken, EnrolmentCode, User

# All of a token: one that could be pointed elsewhere or revived would outlive its revocation.
FIXED: Final = ("digest", "created_at", "last_used_at", "revoked_at")

admin.site.site_header = admin.site.site_title = _("Fettle administration")
admin.site.index_title = _("What people may look up and change")
admin.site.register(User, UserAdmin)


@admin.action(description=_("Revoke the chosen tokens"), permissions=["change"])
def revoke(modeladmin: "TokenAdmin", request: HttpRequest, queryset: QuerySet[AgentToken]) -> None:
    """Set `revoked_at` now, where it is not set yet."""
    queryset.filter(revoked_at=None).update(revoked_at=timezone.now())


class TokenAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # no parameter at run time
    """Lists and revokes; issuing is `manage.py agent_token` or the API, which can show the token."""

    actions = (revoke,)
    list_filter = ("revoked_at",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: a form could not show the token."""
        return False


@admin.register(AgentToken)
class AgentTokenAdmin(TokenAdmin):
    """Agents' tokens."""

    readonly_fields = ("node_name", *FIXED)
    list_display = ("node_name", "created_at", "last_used_at", "revoked_at")
    search_fields = ("node_name",)


@admin.register(ApiToken)
class ApiTokenAdmin(TokenAdmin):
    """API tokens."""

    readonly_fields = ("user", "name", "may_write", "scopes", "expires_at", *FIXED)
    list_display = ("name", "user", "may_write", "scopes", "created_at", "last_used_at", "expires_at", "revoked_at")
    search_fields = ("name", "user__username")


@admin.register(EnrolmentCode)
class EnrolmentCodeAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # no parameter at run time
    """Codes and what became of them; deleting one that was not used withdraws it."""

    readonly_fields = ("digest", "node_name", "created_at", "expires_at", "used_at", "used_by")
    list_display = ("__str__", "created_at", "expires_at", "used_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: a form could not show the code."""
        return False
