"""Routes are made here. A stored URL is never shown again: it is typed anew or left as it is."""

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from advisor.finding import SEVERITIES
from fleet.accounts.plain_text import plain_text
from fleet.notify import deliver
from fleet.notify.models import Delivery, Route
from fleet.notify.trial import trial


def _second(at: datetime | None) -> str:
    """The time to the second, in UTC; a dash for none."""
    return "–" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


class RouteForm(forms.ModelForm):  # type: ignore[type-arg] # no parameter at run time
    """A route; its URL goes in and does not come out."""

    url = forms.CharField(
        max_length=2000,
        required=True,
        strip=True,
        error_messages={"required": _("A route needs a URL.")},
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "off", "size": 80}),
        help_text=_("An Apprise URL. It is a secret: a stored one is not shown, leave the field empty to keep it."),
    )
    min_severity = forms.ChoiceField(choices=[(name, name) for name in SEVERITIES], initial="warn")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["url"].required = self.instance.pk is None  # a stored one may stay

    class Meta:
        model = Route
        fields = ("name", "url", "min_severity", "enabled")

    def clean_name(self) -> str:
        """The name; messages about the route bear it."""
        name = str(self.cleaned_data["name"])
        plain_text(name)
        return name

    def clean_url(self) -> str:
        """The new URL, or the stored one when none was typed; an error when Apprise cannot use it."""
        url = str(self.cleaned_data["url"])
        if not url:
            return str(self.instance.url)
        if problem := deliver.problem(url):
            raise forms.ValidationError(problem)
        return url


@admin.register(Route)
class RouteAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # no parameter at run time
    """Where findings are announced."""

    form = RouteForm
    list_display = ("name", "service", "min_severity", "enabled")
    actions = ("send_test",)

    @admin.display(description=_("service"))
    def service(self, route: Route) -> str:
        """The URL's scheme, the one part that is no secret."""
        return deliver.service(route.url)

    @admin.action(description=_("Send a test message"), permissions=["change"])
    def send_test(self, request: HttpRequest, routes: QuerySet[Route]) -> None:
        """Send one message through each chosen route and show what became of it."""
        for route in routes:
            outcome = trial(route)
            if outcome.sent:
                self.message_user(request, gettext("Sent through {name}.").format(name=route.name), messages.SUCCESS)
            else:
                self.message_user(
                    request,
                    gettext("Not sent through {name}: {reason}").format(name=route.name, reason=outcome.error),
                    messages.ERROR,
                )


@admin.register(Delivery)
class DeliveryAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # no parameter at run time
    """The delivery log, to read."""

    list_display = ("made", "route", "node", "news", "state", "error", "attempts", "next_try", "sent")
    list_filter = ("state", "route")
    list_select_related = ("route", "transition__finding__node")
    search_fields = ("transition__finding__node__name", "transition__finding__rule", "error")
    date_hierarchy = "created_at"

    @admin.display(description=_("made"), ordering="created_at")
    def made(self, delivery: Delivery) -> str:
        """When it was made, to the second."""
        return _second(delivery.created_at)

    @admin.display(description=_("node"), ordering="transition__finding__node__name")
    def node(self, delivery: Delivery) -> str:
        """The node that it is about; the target where that is no single node."""
        finding = delivery.transition.finding
        return finding.node.name if finding.node else finding.target

    @admin.display(description=_("news"))
    def news(self, delivery: Delivery) -> str:
        """The rule and what became of its finding."""
        return str(delivery.transition)

    @admin.display(description=_("next try"), ordering="next_try_at")
    def next_try(self, delivery: Delivery) -> str:
        """When it is tried next; nothing for what is sent or given up."""
        return _second(delivery.next_try_at) if delivery.state in ("pending", "failed") else "–"

    @admin.display(description=_("sent"), ordering="sent_at")
    def sent(self, delivery: Delivery) -> str:
        """When it was sent, to the second."""
        return _second(delivery.sent_at)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: deliveries are made from transitions."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never: a log is not edited."""
        return False
