"""What a site says of XIDs, in the admin; every change is written by `set_xid`, with its line in the audit trail."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from advisor.finding import SEVERITIES
from fleet.accounts.models import User
from fleet.tuning.changes import MAY, TuneError
from fleet.tuning.models import XidOverride
from fleet.tuning.xid_changes import WantedXid, check, set_xid
from fleet.tuning.xids import KINDS, MATCHERS, RULES


class XidOverrideForm(forms.ModelForm):  # type: ignore[type-arg] # no parameter at run time
    """What cannot be set so is said at the form."""

    kind = forms.ChoiceField(choices=[(kind, kind.upper()) for kind in KINDS], label=_("Kind"))
    matcher = forms.ChoiceField(choices=[(name, name) for name in MATCHERS], label=_("Holds for"))
    rule = forms.ChoiceField(choices=[("", "–"), *((name, name) for name in RULES)], required=False, label=_("Rule"))
    severity = forms.ChoiceField(choices=[("", "–"), *((name, name) for name in SEVERITIES)], required=False, label=_("Severity"))

    class Meta:
        model = XidOverride
        fields = ("kind", "code", "matcher", "pattern", "rule", "severity", "ignored", "comment")

    def clean(self) -> dict[str, Any]:
        """As `set_xid` checks it."""
        said: dict[str, Any] = super().clean() or {}
        if not self.errors:
            try:
                check(said["kind"], _wanted(said))
            except TuneError as error:
                raise forms.ValidationError(str(error)) from None
        return said


def _wanted(said: dict[str, Any]) -> WantedXid:
    return WantedXid(said["matcher"], said["pattern"], said["rule"], said["severity"], said["ignored"])


@admin.register(XidOverride)
class XidOverrideAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # no parameter at run time
    """Who may set rules may say what a code means."""

    form = XidOverrideForm
    list_display = ("kind", "code", "matcher", "pattern", "rule", "severity", "ignored", "by_name", "at")
    list_filter = ("kind", "matcher", "ignored")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """As for rules."""
        return request.user.has_perm(MAY)

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """An override is taken away and made anew: what it holds for is what it is."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """As for rules."""
        return request.user.has_perm(MAY)

    def save_model(self, request: HttpRequest, obj: XidOverride, form: forms.ModelForm, change: bool) -> None:  # type: ignore[type-arg]
        """Write it with its line in the audit trail."""
        assert isinstance(request.user, User)  # noqa: S101 - the admin's
        said = form.cleaned_data
        set_xid(said["kind"], said["code"], [_wanted(said)], request.user, said["comment"])
        obj.pk = XidOverride.objects.get(**{name: said[name] for name in ("kind", "code", "matcher", "pattern")}).pk

    def delete_model(self, request: HttpRequest, obj: XidOverride) -> None:
        """Take it away, with its line in the audit trail."""
        assert isinstance(request.user, User)  # noqa: S101 - the admin's
        set_xid(obj.kind, obj.code, [WantedXid(obj.matcher, obj.pattern, removed=True)], request.user)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """Each of them so."""
        for one in queryset:
            self.delete_model(request, one)
