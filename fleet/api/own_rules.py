"""A site's own rules: written, checked, tried against the last day."""

from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from advisor.conditions import SCOPES, columns, of_now
from advisor.finding import SEVERITIES
from fleet.accounts.models import User
from fleet.accounts.plain_text import plain_text
from fleet.api.asked import AskedSerializer, Nothing, PageQuery, Query, StrictQuery
from fleet.api.permissions import MayTune
from fleet.api.problems import problem
from fleet.findings import trials, words
from fleet.findings.targets import names
from fleet.tuning import changes
from fleet.tuning.in_force import state_of
from fleet.tuning.models import STATES, OwnRule, Trial
from fleet.tuning.own_rules import FIELDS, GROUPS, unit


class TrialSerializer(serializers.ModelSerializer[Trial]):
    """A trial: of so many windows of the last day so many held telemetry; where the rule would have fired, and how often."""

    targets = serializers.DictField(
        child=serializers.IntegerField(), read_only=True, help_text="By target, in how many windows it would have fired."
    )

    target_names = serializers.SerializerMethodField()
    of_now = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        help_text="Features that it took as they are now, whatever the window: nobody keeps what they were.",
    )

    class Meta:
        model = Trial
        fields = (
            "id", "by_name", "asked_at", "ended_at", "error", "windows_total", "windows_looked_at", "windows_with_data",
            "judged_total", "fired_total", "targets", "target_names", "of_now",
        )  # fmt: skip
        read_only_fields = fields

    def get_target_names(self, row: Trial) -> dict[str, str]:
        """By target its name."""
        return {target: name for (_, target), name in names((row.rule.scope, one) for one in row.targets).items()}


class OwnRuleSerializer(serializers.ModelSerializer[OwnRule]):
    """A rule that the site wrote."""

    scope = serializers.ChoiceField(choices=SCOPES, read_only=True)
    severity = serializers.ChoiceField(choices=SEVERITIES, read_only=True)
    group = serializers.ChoiceField(choices=GROUPS, read_only=True)
    state = serializers.SerializerMethodField()
    trial = serializers.SerializerMethodField()

    class Meta:
        model = OwnRule
        fields = ("slug", *FIELDS, "state", "by_name", "at", "error", "trial")
        read_only_fields = fields

    @extend_schema_field(serializers.ChoiceField(choices=STATES))
    def get_state(self, row: OwnRule) -> str:
        """on, shadow or off; set it where those of other rules are set."""
        return state_of(row.slug, own=True)

    @extend_schema_field(TrialSerializer(allow_null=True))
    def get_trial(self, row: OwnRule) -> Any:
        """The newest; null where it was never tried."""
        newest = Trial.objects.filter(rule=row).first()
        return TrialSerializer(newest).data if newest else None


class OwnRuleRequestSerializer(AskedSerializer):
    """What an own rule says. Conditions are SQL expressions over the features of `scope`; texts may have `{feature}` fields."""

    scope = serializers.ChoiceField(choices=SCOPES)
    severity = serializers.ChoiceField(choices=SEVERITIES)
    group = serializers.ChoiceField(choices=GROUPS, default="performance")
    opens = serializers.CharField(max_length=2000, help_text="For example `busy >= 0.5 AND sm_active < 0.2`.")
    clears = serializers.CharField(max_length=2000, allow_blank=True, default="", help_text="Empty: the opposite of `opens`.")
    title = serializers.CharField(max_length=200)
    summary = serializers.CharField(max_length=1000)
    change = serializers.CharField(max_length=2000, allow_blank=True, default="")
    comment = serializers.CharField(max_length=300, allow_blank=True, default="", validators=[plain_text])


class OwnRuleCreateSerializer(OwnRuleRequestSerializer):
    """The same, and its name."""

    slug = serializers.CharField(max_length=60, help_text="site-…: small letters, digits and dashes.")


class OwnRuleUpdateSerializer(OwnRuleRequestSerializer):
    """The same; its name may be sent along."""

    slug = serializers.CharField(required=False, help_text="As in the path: a rule keeps its name.")


class FeatureQuery(Query):
    """Of which scope."""

    scope = serializers.ChoiceField(choices=SCOPES, default="gpu")


class FeatureSerializer(serializers.Serializer[Any]):
    """What a condition may name."""

    name = serializers.CharField()
    means = serializers.CharField(help_text="In plain words.")
    type = serializers.ChoiceField(choices=("number", "text", "boolean"))
    unit = serializers.CharField(help_text="`number` for a plain number; empty for text and for true or false.")
    of_now = serializers.BooleanField(help_text="Known of now alone: trials of the last day take it as it is now.")


_EXAMPLE = OpenApiExample(
    "Memory taken and idle",
    {
        "slug": "site-held-but-idle",
        "scope": "gpu",
        "severity": "advice",
        "group": "capacity",
        "opens": "mem_used_share >= 0.5 AND busy < 0.05 AND NOT serves",
        "clears": "busy >= 0.1",
        "title": "Memory taken, little done",
        "summary": "{mem_used_share:.0%} of the memory is taken and the engine works {busy:.1%} of the time.",
        "change": "Ask the owner of process {pid}.",
        "comment": "Weekly capacity review.",
    },
    request_only=True,
)
_UNKNOWN = problem(401, "The caller is not known.") | problem(404, "No such own rule.")
_REFUSED = problem(400, "What does not fit, by field.") | problem(403, "The caller may not change rules.") | _UNKNOWN


@extend_schema_view(
    list=extend_schema(summary="List the site's own rules"),
    retrieve=extend_schema(summary="One own rule", responses={200: OwnRuleSerializer} | _UNKNOWN),
)
class OwnRuleViewSet(StrictQuery, ListModelMixin, RetrieveModelMixin, GenericViewSet[OwnRule]):
    """Rules that the site wrote. One is off until its state is set, and comes on only after it was tried."""

    serializer_class = OwnRuleSerializer
    permission_classes = [IsAuthenticated, MayTune]
    queryset: QuerySet[OwnRule] = OwnRule.objects.order_by("slug")
    lookup_field = "slug"
    lookup_value_regex = "site-[a-z0-9-]{1,55}"
    filter_backends = ()
    queries = {"list": PageQuery, "features": FeatureQuery}

    @extend_schema(
        summary="Write a rule of the site's own",
        request=OwnRuleCreateSerializer,
        responses={201: OwnRuleSerializer} | problem(409, "There is one of this name.") | _REFUSED,
        examples=[_EXAMPLE],
    )
    def create(self, request: Request) -> Response:
        """Checked as it is written; it is off until its state is set."""
        asked = OwnRuleCreateSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        slug = asked.validated_data["slug"]
        row = changes.create_own(slug, asked.validated_data, self._user(), asked.validated_data["comment"])
        return Response(OwnRuleSerializer(row).data, status=status.HTTP_201_CREATED)

    @extend_schema(summary="Change an own rule", request=OwnRuleUpdateSerializer, responses={200: OwnRuleSerializer} | _REFUSED)
    def update(self, request: Request, slug: str) -> Response:
        """One that is on goes off where its conditions change, until it was tried with the new ones."""
        self.get_object()
        asked = OwnRuleUpdateSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        if asked.validated_data.pop("slug", slug) != slug:
            raise serializers.ValidationError({"slug": gettext("A rule keeps its name: write a new one, and remove this one.")})
        row, _off = changes.save_own(slug, asked.validated_data, self._user(), asked.validated_data["comment"])
        return Response(OwnRuleSerializer(row).data)

    @extend_schema(
        summary="Remove an own rule",
        responses={204: None} | problem(403, "The caller may not change rules.") | _UNKNOWN,
    )
    def destroy(self, request: Request, slug: str) -> Response:
        """Its open findings end; its lines in the audit trail stay."""
        changes.remove_own(self.get_object(), self._user())
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(summary="An own rule's trials", responses={200: TrialSerializer(many=True)} | _UNKNOWN, filters=False)
    @action(detail=True, url_path="trials", pagination_class=None)
    def trials(self, request: Request, slug: str) -> Response:
        """The newest first; ten are kept."""
        return Response(TrialSerializer(Trial.objects.filter(rule=self.get_object()), many=True).data)

    @extend_schema(
        summary="Try an own rule against the last day",
        request=Nothing,
        responses={202: TrialSerializer}
        | problem(400, "The rule is none any more.")
        | problem(403, "The caller may not change rules.")
        | problem(409, "A trial of the rule is under way.")
        | _UNKNOWN,
    )
    @trials.mapping.post
    def try_it(self, request: Request, slug: str) -> Response:
        """It begins within seconds, and takes minutes on a large fleet."""
        Nothing(data=request.data).is_valid(raise_exception=True)
        return Response(TrialSerializer(trials.ask(self.get_object(), self._user())).data, status=status.HTTP_202_ACCEPTED)

    @extend_schema(
        summary="What conditions may name",
        parameters=[FeatureQuery],
        responses={200: FeatureSerializer(many=True)}
        | problem(400, "There is no such scope.")
        | problem(401, "The caller is not known."),
        filters=False,
    )
    @action(detail=False, pagination_class=None)
    def features(self, request: Request) -> Response:
        """The features of a scope, of GPUs where none is named."""
        scope = self.query["scope"]
        return Response(
            [
                {
                    "name": name,
                    "means": words.evidence(name),
                    "type": "text" if str(kind) == "String" else "boolean" if str(kind) == "Boolean" else "number",
                    "unit": unit(name) if kind.is_numeric() else "",
                    "of_now": name in of_now(scope),
                }
                for name, kind in columns(scope).items()
            ]
        )

    def _user(self) -> User:
        assert isinstance(self.request.user, User)  # noqa: S101 - IsAuthenticated
        return self.request.user
