"""The rules: their catalogue, their states and thresholds, and who changed what of them."""

from typing import Any, Final, get_args

import django_filters
from django.db import transaction
from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ReadOnlyModelViewSet, ViewSet

from advisor.finding import SEVERITIES, Bottleneck
from fleet.accounts.models import User
from fleet.accounts.plain_text import plain_text
from fleet.api.asked import AskedSerializer, Query, StrictQuery
from fleet.api.filters import Strict
from fleet.api.permissions import MayTune
from fleet.api.problems import problem
from fleet.findings import catalogue
from fleet.findings.catalogue import KINDS, Entry
from fleet.tuning import durations
from fleet.tuning.changes import Wanted, set_overrides, set_state
from fleet.tuning.models import MATCHERS, STATES, Override, RuleChange
from fleet.tuning.own_rules import GROUPS

SCOPES: Final = ("gpu", "job", "node", "service", "fleet")


class ThresholdSerializer(serializers.Serializer[Any]):
    """A number of a rule's conditions that a site may set, from `low` to `high`."""

    name = serializers.CharField()
    unit = serializers.CharField()
    default = serializers.FloatField()
    low = serializers.FloatField()
    high = serializers.FloatField()


class OverrideSerializer(serializers.ModelSerializer[Override]):
    """Another value of a threshold, and for what it holds."""

    matcher = serializers.ChoiceField(choices=MATCHERS, read_only=True)

    class Meta:
        model = Override
        fields = ("threshold", "matcher", "pattern", "value", "by_name", "at", "comment")
        read_only_fields = fields


class RuleSerializer(serializers.Serializer[Any]):
    """One rule. `opens`, `clears` and `unless` are its conditions in SQL, with the values in force on the whole site."""

    id = serializers.CharField()
    kind = serializers.ChoiceField(choices=KINDS, help_text="shipped; event: reported by events alone; own: of this site.")
    state = serializers.ChoiceField(choices=STATES)
    scope = serializers.ChoiceField(choices=SCOPES)
    group = serializers.ChoiceField(choices=GROUPS)
    severity = serializers.ChoiceField(choices=SEVERITIES, allow_blank=True, help_text="Empty where the evidence decides.")
    bottleneck = serializers.ChoiceField(choices=get_args(Bottleneck), allow_blank=True)
    title = serializers.CharField()
    summary = serializers.CharField(help_text="With `{feature}` fields, as it is filled in for a finding.")
    findings_open = serializers.IntegerField(help_text="Findings that fire now and are told.")
    shadow_open = serializers.IntegerField(help_text="Findings that fire now in shadow.")
    opened_total = serializers.IntegerField()
    thresholds = serializers.SerializerMethodField()
    overrides = serializers.SerializerMethodField()
    conditions = serializers.SerializerMethodField()
    sources = serializers.SerializerMethodField()

    @staticmethod
    def _rows(entry: Entry) -> list[Override]:
        return list(Override.objects.filter(rule=entry.id)) if entry.overrides_total else []

    @extend_schema_field(ThresholdSerializer(many=True))
    def get_thresholds(self, entry: Entry) -> list[Any]:
        """Those that may be set, with how long what is seen must last before it fires; none for rules of events and of the site's own."""
        return list(ThresholdSerializer(durations.settable(entry.rule) if entry.rule else (), many=True).data)

    @extend_schema_field(OverrideSerializer(many=True))
    def get_overrides(self, entry: Entry) -> list[Any]:
        """Those that are set."""
        return list(OverrideSerializer(self._rows(entry), many=True).data)

    @extend_schema_field(serializers.DictField(child=serializers.CharField()))
    def get_conditions(self, entry: Entry) -> dict[str, str]:
        """By `opens`, `clears` and `unless`."""
        site = {row.threshold: row.value for row in self._rows(entry) if row.matcher == "site"}
        return catalogue.when(entry, site)

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_sources(self, entry: Entry) -> list[str]:
        """What the rule rests on."""
        return list(entry.rule.sources) if entry.rule else []


class WantedSerializer(AskedSerializer):
    """An override as it is wanted."""

    threshold = serializers.CharField(max_length=80, validators=[plain_text])
    matcher = serializers.ChoiceField(choices=MATCHERS, default="site")
    pattern = serializers.CharField(
        max_length=300, allow_blank=True, default="", validators=[plain_text],
        help_text="Of the GPU's model, the node's name or the job; * stands for any characters. Empty for the site.",
    )  # fmt: skip
    value = serializers.FloatField(allow_null=True, help_text="null takes the override away.")


class RuleChangeRequestSerializer(AskedSerializer):
    """What to change of a rule: its state, overrides, or both; all or nothing."""

    state = serializers.ChoiceField(choices=STATES, required=False)
    overrides = WantedSerializer(many=True, required=False)
    comment = serializers.CharField(
        max_length=300, allow_blank=True, default="", validators=[plain_text], help_text="Why; it stays in the audit trail."
    )


class RuleQuery(Query):
    """What a list of rules is narrowed by."""

    state = serializers.ChoiceField(choices=STATES, required=False)
    group = serializers.ChoiceField(choices=GROUPS, required=False)
    kind = serializers.ChoiceField(choices=KINDS, required=False)


class RuleChangeSerializer(serializers.ModelSerializer[RuleChange]):
    """One line of the audit trail: `before` and `after` are null where there was or is nothing."""

    before = serializers.DictField(allow_null=True, read_only=True)
    after = serializers.DictField(allow_null=True, read_only=True)

    class Meta:
        model = RuleChange
        fields = ("id", "rule", "what", "before", "after", "by_name", "at", "comment")
        read_only_fields = fields


class RuleChangeFilter(Strict):
    """Lines of the audit trail by rule, person and kind."""

    rule = django_filters.CharFilter()
    by = django_filters.CharFilter(field_name="by_name")
    what = django_filters.ChoiceFilter(choices=[(word, word) for word in ("state", "override", "rule", "removed", "xid")])

    class Meta:
        model = RuleChange
        fields: list[str] = []


_ID: Final = OpenApiParameter("id", OpenApiTypes.STR, OpenApiParameter.PATH, description="The rule's name.")
_UNKNOWN: Final = problem(401, "The caller is not known.") | problem(404, "No such rule.")


class RuleViewSet(StrictQuery, ViewSet):
    """Every rule there is: shipped, of events, and the site's own."""

    permission_classes = [IsAuthenticated, MayTune]
    lookup_value_regex = "[a-z0-9-]{1,60}"
    queries = {"list": RuleQuery}
    serializer_class = RuleSerializer

    @extend_schema(
        summary="List rules",
        operation_id="rules_list",
        parameters=[RuleQuery],
        responses={200: RuleSerializer(many=True)}
        | problem(400, "What of the query does not fit.")
        | problem(401, "The caller is not known."),
    )
    def list(self, request: Request) -> Response:
        """By name, all on one page."""
        asked = self.query.items()
        found = [one for one in catalogue.entries() if all(getattr(one, name) == value for name, value in asked)]
        return Response(RuleSerializer(found, many=True).data)

    @extend_schema(summary="One rule", parameters=[_ID], responses={200: RuleSerializer} | _UNKNOWN)
    def retrieve(self, request: Request, pk: str) -> Response:
        """Its conditions, thresholds, overrides and counts."""
        return Response(RuleSerializer(_entry(pk)).data)

    @extend_schema(
        summary="Change a rule's state or thresholds",
        parameters=[_ID],
        request=RuleChangeRequestSerializer,
        responses={200: RuleSerializer}
        | problem(400, "What cannot be set so, in a sentence.")
        | problem(403, "The caller may not change rules.")
        | problem(409, "An own rule that was not tried with its present conditions cannot come on.")
        | _UNKNOWN,
        examples=[
            OpenApiExample(
                "Later on one model",
                {
                    "overrides": [
                        {"threshold": "mem_used_share_opens", "matcher": "gpu_model", "pattern": "*H200*", "value": 0.96},
                    ],
                    "comment": "Our batches fill the card by design.",
                },
                request_only=True,
            ),
            OpenApiExample("Watch it first", {"state": "shadow", "comment": "Too new for the chats."}, request_only=True),
        ],
    )
    def partial_update(self, request: Request, pk: str) -> Response:
        """All of what is asked, or nothing; each change is a line of the audit trail."""
        _entry(pk)
        asked = RuleChangeRequestSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        assert isinstance(request.user, User)  # noqa: S101 - IsAuthenticated
        said = asked.validated_data
        with transaction.atomic():
            if said.get("overrides"):
                wanted = [Wanted(one["threshold"], one["value"], one["matcher"], one["pattern"]) for one in said["overrides"]]
                set_overrides(pk, wanted, request.user, said["comment"])
            if "state" in said:
                set_state(pk, said["state"], request.user, said["comment"])
        return Response(RuleSerializer(_entry(pk)).data)


@extend_schema_view(list=extend_schema(summary="List changes of rules"), retrieve=extend_schema(summary="One change of a rule"))
class RuleChangeViewSet(StrictQuery, ReadOnlyModelViewSet[RuleChange]):
    """The audit trail of what the site sets of rules, the newest first. It is only ever added to."""

    serializer_class = RuleChangeSerializer
    filterset_class = RuleChangeFilter
    queryset = RuleChange.objects.all()


def _entry(rule: str) -> Entry:
    found = catalogue.entry(rule)
    if found is None:
        raise Http404
    return found
