"""Where alerts go: routes over REST, a test of each, and a dry run. A route's URL goes in and never comes out."""

from typing import Any

from django.utils import timezone
from django.utils.translation import gettext
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_view
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.mixins import DestroyModelMixin, ListModelMixin, RetrieveModelMixin
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from advisor.finding import SEVERITIES
from fleet.accounts.plain_text import plain_text
from fleet.api.alert_fields import WRITES, LabelsField, MatchersField, TimesField, person
from fleet.api.asked import AskedSerializer, Nothing, PageQuery, StrictQuery
from fleet.api.permissions import MayRoute
from fleet.findings.models import Finding
from fleet.notify import checks, deliver, dry_run, keeping
from fleet.notify.decisions import WHATS
from fleet.notify.matchers import Labels
from fleet.notify.models import LABELS, Route
from fleet.notify.trial import trial


class RouteSerializer(serializers.ModelSerializer[Route]):
    """A route, without its URL."""

    service = serializers.SerializerMethodField()
    min_severity = serializers.ChoiceField(choices=SEVERITIES, read_only=True)
    matchers = MatchersField(read_only=True)
    active_times = TimesField(read_only=True)
    group_by = LabelsField(read_only=True)

    class Meta:
        model = Route
        fields = (
            "id", "name", "service", "enabled", "position", "last", "min_severity", "matchers", "active_times", "group_by", "group_wait_s",
            "group_interval_s", "repeat_every_s", "send_resolved", "max_per_minute", "language", "escalate_after_s", "escalate_to", "created_at",
        )  # fmt: skip
        read_only_fields = fields

    def get_service(self, row: Route) -> str:
        """The scheme of the URL (slack, mailto, jsons): all of it that may be shown."""
        return deliver.service(row.url)


class RouteRequestSerializer(AskedSerializer):
    """What a route takes, and how it tells it. At creation `name` and `url` are needed; a change holds what is to change."""

    name = serializers.CharField(max_length=100, validators=[plain_text])
    url = serializers.CharField(
        max_length=2000, write_only=True, help_text="An Apprise URL. It is a secret, and never shown again."
    )
    enabled = serializers.BooleanField(required=False)
    position = serializers.IntegerField(required=False, min_value=0, max_value=10_000)
    last = serializers.BooleanField(required=False, help_text="Routes after it do not get what it takes.")
    min_severity = serializers.ChoiceField(choices=SEVERITIES, required=False)
    matchers = MatchersField(required=False)
    active_times = TimesField(required=False)
    group_by = LabelsField(required=False)
    group_wait_s = serializers.FloatField(required=False, min_value=0, max_value=checks.DAY_S)
    group_interval_s = serializers.FloatField(required=False, min_value=0, max_value=checks.DAY_S)
    repeat_every_s = serializers.FloatField(required=False, allow_null=True, min_value=60, max_value=30 * checks.DAY_S)
    send_resolved = serializers.BooleanField(required=False)
    max_per_minute = serializers.IntegerField(required=False, min_value=1, max_value=1000)
    language = serializers.ChoiceField(choices=["en", "zh-hans"], required=False, allow_blank=True)
    escalate_after_s = serializers.FloatField(required=False, allow_null=True, min_value=10, max_value=7 * checks.DAY_S)
    escalate_to = serializers.PrimaryKeyRelatedField(queryset=Route.objects.all(), required=False, allow_null=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The same; ValidationError at what does not fit."""
        if wrong := checks.of_route(attrs, self.instance):
            raise serializers.ValidationError(wrong)
        if "name" in attrs and checks.is_taken(Route, attrs["name"], self.instance):
            raise serializers.ValidationError({"name": gettext("There is a route of this name.")})
        return attrs


class TestedSerializer(serializers.Serializer[Any]):
    """What became of a test message."""

    sent = serializers.BooleanField()
    error = serializers.CharField(allow_blank=True, help_text="Why it was not sent, without any part of the URL.")


class TryRequestSerializer(AskedSerializer):
    """The alert to try: a finding's, or one that has these labels."""

    finding = serializers.PrimaryKeyRelatedField(queryset=Finding.objects.select_related("node", "cause"), required=False)
    labels = serializers.DictField(
        child=serializers.ListField(
            child=serializers.CharField(max_length=300, validators=[plain_text]), min_length=1, max_length=100
        ),
        required=False,
        help_text="Values by label; of the labels that matchers may name.",
    )
    after = serializers.ChoiceField(choices=dry_run.AFTERS, default="firing", help_text="What becomes of the alert.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The same; ValidationError where it names no alert, or two."""
        if ("finding" in attrs) == ("labels" in attrs):
            raise serializers.ValidationError({"finding": gettext("Give a finding or labels, and not both.")})
        labels = attrs.get("labels", {})
        if unknown := [name for name in labels if name not in LABELS]:
            says = gettext("There is no label {name}; there are: {known}.")
            raise serializers.ValidationError({"labels": says.format(name=unknown[0][:40], known=", ".join(LABELS))})
        if (severity := labels.get("severity")) and (len(severity) > 1 or severity[0] not in SEVERITIES):
            raise serializers.ValidationError(
                {"labels": gettext("severity is one of: {words}.").format(words=", ".join(SEVERITIES))}
            )
        return attrs


class WaySerializer(serializers.Serializer[Any]):
    """What one route would do with the alert."""

    route = serializers.IntegerField(source="decision.route.pk")
    name = serializers.CharField(source="decision.route.name")
    what = serializers.ChoiceField(choices=WHATS, source="decision.what")
    why = serializers.SerializerMethodField()
    group = serializers.DictField(child=serializers.CharField())
    leaves_at = serializers.DateTimeField(allow_null=True, help_text="When its message would leave; null where none would.")

    def get_why(self, way: dry_run.Way) -> str:
        """Why it is muted or not taken, a sentence; empty where it is told."""
        return str(way.decision.why or "")


class TriedSerializer(serializers.Serializer[Any]):
    """Where the alert would go, route by route in the order in which they are asked, and by which labels."""

    labels = serializers.DictField(child=serializers.ListField(child=serializers.CharField()))
    routes = WaySerializer(many=True)


@extend_schema_view(
    list=extend_schema(summary="List routes"),
    retrieve=extend_schema(summary="One route"),
    destroy=extend_schema(summary="Delete a route, its groups and its delivery log", responses={204: None} | WRITES),
)
class RouteViewSet(StrictQuery, ListModelMixin, RetrieveModelMixin, DestroyModelMixin, GenericViewSet[Route]):
    """Where alerts go, in the order in which routes are asked."""

    serializer_class = RouteSerializer
    permission_classes = [IsAuthenticated, MayRoute]
    queryset = Route.objects.all()
    lookup_value_regex = "[0-9]{1,18}"
    queries = {"list": PageQuery}

    @extend_schema(summary="Make a route", request=RouteRequestSerializer, responses={201: RouteSerializer} | WRITES)
    def create(self, request: Request) -> Response:
        """Keep a route. Its URL is checked for its form; send a test to see whether it works."""
        asked = RouteRequestSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        row = keeping.add(Route, asked.validated_data, person(request))
        return Response(RouteSerializer(row).data, status=status.HTTP_201_CREATED)

    @extend_schema(
        summary="Change a route", request=RouteRequestSerializer(partial=True), responses={200: RouteSerializer} | WRITES
    )
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change what the request holds; the rest stays."""
        row = self.get_object()
        asked = RouteRequestSerializer(row, data=request.data, partial=True)
        asked.is_valid(raise_exception=True)
        keeping.change(row, asked.validated_data, person(request))
        return Response(RouteSerializer(row).data)

    def perform_destroy(self, instance: Route) -> None:
        """Delete it and note who did."""
        keeping.remove(instance, person(self.request))

    @extend_schema(summary="Send a test message", request=Nothing, responses={200: TestedSerializer} | WRITES)
    @action(detail=True, methods=["post"])
    def test(self, request: Request, pk: str) -> Response:
        """Send a test message through the route now; the answer says what came of it, after at most 20 seconds."""
        Nothing(data=request.data).is_valid(raise_exception=True)
        return Response(TestedSerializer(trial(self.get_object())).data)

    @extend_schema(
        summary="Where an alert would go",
        request=TryRequestSerializer,
        responses={200: TriedSerializer} | WRITES,
        examples=[
            OpenApiExample(
                "A critical alert of a node", {"labels": {"severity": ["critical"], "node": ["gpu-12"]}}, request_only=True
            )
        ],
    )
    @action(detail=False, methods=["post"], url_path="dry-run")
    def dry_run(self, request: Request) -> Response:
        """Route by route what would become of an alert now, and why; nothing is written or sent."""
        asked = TryRequestSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        told, now = asked.validated_data, timezone.now()
        labels: Labels
        if "finding" in told:
            labels, ways = dry_run.of_finding(told["finding"], now, told["after"])
        else:
            labels = {name: tuple(values) for name, values in told["labels"].items()}
            ways = dry_run.of_labels(labels, now, told["after"])
        return Response(TriedSerializer({"labels": labels, "routes": ways}).data)
