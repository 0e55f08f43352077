"""What lists may be narrowed by; a value that cannot be is answered 400."""

from typing import Any, get_args

import django_filters
from django.core.exceptions import ValidationError as Refusal
from django.db.models import Q, QuerySet
from django.forms.utils import ErrorList
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from rest_framework.exceptions import ValidationError

from advisor.finding import SEVERITIES, Bottleneck
from fleet.api.asked import given_twice
from fleet.api.serializers import STATES
from fleet.findings.models import ADVICE, CONDITIONS, Finding
from fleet.inventory.models import STALE_AFTER, Gpu, Node


def _choices(words: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(word, word) for word in words]


def in_state(state: str, node: str = "") -> Q:
    """Rows whose node, behind the prefix `node`, is in `state`."""
    seen = f"{node}last_seen_at"
    limit = timezone.now() - STALE_AFTER
    if state == "unknown":
        return Q(**{f"{seen}__isnull": True})
    return Q(**{f"{seen}__gte" if state == "ok" else f"{seen}__lt": limit})


def named(node: str, behind: str = "node") -> Q:
    """Rows on the node of this name, in capitals or not, or of this id; it stands `behind` them."""
    by_name = Q(**{f"{behind}__name__iexact": node})
    return by_name | Q(**{behind: int(node)}) if node.isascii() and node.isdigit() and len(node) < 19 else by_name


class Strict(django_filters.FilterSet):  # type: ignore[misc] # the library has no types
    """A set that answers 400 to a parameter that it does not know, and to one whose value it cannot read."""

    def is_valid(self) -> bool:
        """False with `errors` by parameter, each a sentence."""
        valid: bool = super().is_valid()
        known = {*self.filters, "page", "page_size", "format"}
        for name in self.data:
            if name not in known:
                says = gettext("There is no parameter {name}; there are: {known}.")
                self._refuse(name[:40], says.format(name=name[:40], known=", ".join(sorted(known - {"format"}))))
                valid = False
            elif len(self.data.getlist(name)) > 1 and not isinstance(self.filters.get(name), django_filters.MultipleChoiceFilter):
                self._refuse(name, given_twice(name))
                valid = False
        for name, one in self.filters.items():
            text = self.data.get(name, "")
            if isinstance(one, django_filters.BooleanFilter) and text and text.lower() not in ("true", "false"):
                self.form.add_error(name, gettext("{name} takes true or false.").format(name=name))
                valid = False
        return valid

    def _refuse(self, name: str, says: str) -> None:
        """An error at a parameter, which the form may not have; its text is no pattern to fill in."""
        self.form.errors.setdefault(name, ErrorList()).append(Refusal("%(says)s", params={"says": says}))


class Moment(django_filters.IsoDateTimeFilter):  # type: ignore[misc] # the library has no types
    """A time from 1970 to 2100: others have no UTC that the database can hold."""

    refusal = _("opened_after and opened_before take a time between 1970 and 2100.")

    def filter(self, rows: QuerySet[Any], value: Any) -> QuerySet[Any]:
        """The rows on the asked side of the time."""
        if value and not 1970 <= value.year <= 2100:
            raise ValidationError(str(self.refusal))
        narrowed: QuerySet[Any] = super().filter(rows, value)
        return narrowed


class NodeFilter(Strict):
    """Nodes by name, state, and whether they are recordings."""

    name = django_filters.CharFilter(help_text="The exact name.")
    search = django_filters.CharFilter(field_name="name", lookup_expr="icontains", help_text="A part of the name.")
    state = django_filters.ChoiceFilter(choices=_choices(STATES), method="in_state")
    is_recording = django_filters.BooleanFilter(field_name="recording", lookup_expr="exact", exclude=True, method="recorded")

    class Meta:
        model = Node
        fields: list[str] = []

    def in_state(self, rows: QuerySet[Node], name: str, value: str) -> QuerySet[Node]:
        """Nodes that are ok, stale or unknown."""
        return rows.filter(in_state(value))

    def recorded(self, rows: QuerySet[Node], name: str, value: bool) -> QuerySet[Node]:
        """Nodes that play a recording, or those that do not."""
        return rows.exclude(recording="") if value else rows.filter(recording="")


class GpuFilter(Strict):
    """GPUs by node, model, state and bottleneck."""

    node = django_filters.CharFilter(method="on_node", help_text="The node's exact name, or its id.")
    uuid = django_filters.CharFilter()
    model = django_filters.CharFilter(lookup_expr="icontains", help_text="A part of the model's name.")
    present = django_filters.BooleanFilter()
    bottleneck = django_filters.ChoiceFilter(field_name="diagnosis__bottleneck", choices=_choices(get_args(Bottleneck)))
    state = django_filters.ChoiceFilter(choices=_choices(STATES), method="in_state")

    class Meta:
        model = Gpu
        fields: list[str] = []

    def on_node(self, rows: QuerySet[Gpu], name: str, value: str) -> QuerySet[Gpu]:
        """GPUs of the node of that name or id."""
        return rows.filter(named(value))

    def in_state(self, rows: QuerySet[Gpu], name: str, value: str) -> QuerySet[Gpu]:
        """GPUs that are ok, stale or unknown."""
        if value == "unknown":
            return rows.filter(in_state(value, "node__") | Q(present=False))
        return rows.filter(in_state(value, "node__"), present=True)


class FindingFilter(Strict):
    """Findings by what they say and where; `open=true` leaves out what is resolved."""

    open = django_filters.BooleanFilter(field_name="resolved_at", lookup_expr="isnull")
    rule = django_filters.CharFilter()
    severity = django_filters.ChoiceFilter(choices=_choices(SEVERITIES))
    min_severity = django_filters.ChoiceFilter(choices=_choices(SEVERITIES), method="at_least")
    condition = django_filters.MultipleChoiceFilter(choices=_choices(CONDITIONS))
    advice = django_filters.MultipleChoiceFilter(choices=_choices(ADVICE))
    scope = django_filters.ChoiceFilter(choices=_choices(("gpu", "node", "job", "service", "fleet")))
    target = django_filters.CharFilter()
    bottleneck = django_filters.ChoiceFilter(choices=_choices(get_args(Bottleneck)))
    node = django_filters.CharFilter(method="on_node", help_text="The node's exact name, or its id.")
    gpu = django_filters.NumberFilter(field_name="gpus", min_value=1, max_value=(1 << 63) - 1, help_text="A GPU's id.")
    shadow = django_filters.BooleanFilter(help_text="Those of rules in shadow; without it they are left out.")
    opened_after = Moment(field_name="opened_at", lookup_expr="gte")
    opened_before = Moment(field_name="opened_at", lookup_expr="lt")

    class Meta:
        model = Finding
        fields: list[str] = []

    def on_node(self, rows: QuerySet[Finding], name: str, value: str) -> QuerySet[Finding]:
        """Findings on the node of that name or id."""
        return rows.filter(named(value))

    def at_least(self, rows: QuerySet[Finding], name: str, value: Any) -> QuerySet[Finding]:
        """Findings of this severity and above."""
        return rows.filter(severity_rank__gte=SEVERITIES.index(value))
