"""What became of each message: the delivery log over REST, dead letters sent again, and how noisy each rule is."""

from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ReadOnlyModelViewSet

from fleet.api.alert_fields import UNKNOWN, WRITES, person
from fleet.api.asked import Nothing, Query, StrictQuery
from fleet.api.filters import Moment, Strict
from fleet.api.permissions import MaySilence
from fleet.api.problems import problem, rows
from fleet.notify import changes, noise, sayings, sending
from fleet.notify.models import DELIVERY_STATES, KINDS, Delivery


class DeliverySerializer(serializers.ModelSerializer[Delivery]):
    """One alert to one route. Those with a `lead` were told in its message, and share its fate."""

    route_name = serializers.CharField(source="route.name", read_only=True)
    finding = serializers.IntegerField(source="transition.finding_id", read_only=True)
    rule = serializers.CharField(source="transition.finding.rule", read_only=True)
    after = serializers.CharField(
        source="transition.after", read_only=True, help_text="What became of the alert, or a verdict on advice."
    )
    state = serializers.ChoiceField(choices=DELIVERY_STATES, read_only=True)
    kind = serializers.ChoiceField(choices=KINDS, read_only=True)
    why_muted = serializers.SerializerMethodField()

    class Meta:
        model = Delivery
        fields = (
            "id", "route", "route_name", "finding", "rule", "after", "kind", "round", "state", "why_muted", "lead", "is_digest", "key",
            "attempts", "status", "error", "may_repeat", "created_at", "released_at", "next_try_at", "sent_at",
        )  # fmt: skip
        read_only_fields = fields

    def get_why_muted(self, row: Delivery) -> str:
        """What kept it quiet, a sentence; empty where nothing did."""
        return str(sayings.read(row.why_muted) or "")


class DeliveryFilter(Strict):
    """Deliveries by route, finding, state and time."""

    route = django_filters.NumberFilter(min_value=1, max_value=(1 << 63) - 1, help_text="A route's id.")
    finding = django_filters.NumberFilter(field_name="transition__finding", min_value=1, max_value=(1 << 63) - 1)
    state = django_filters.MultipleChoiceFilter(choices=[(word, word) for word in DELIVERY_STATES])
    kind = django_filters.MultipleChoiceFilter(choices=[(word, word) for word in KINDS])
    made_after = Moment(field_name="created_at", lookup_expr="gte")
    made_before = Moment(field_name="created_at", lookup_expr="lt")

    class Meta:
        model = Delivery
        fields: list[str] = []


@extend_schema_view(list=extend_schema(summary="List deliveries"), retrieve=extend_schema(summary="One delivery"))
class DeliveryViewSet(StrictQuery, ReadOnlyModelViewSet[Delivery]):
    """The delivery log, the newest first: told, muted and why, failed and why."""

    serializer_class = DeliverySerializer
    filterset_class = DeliveryFilter
    permission_classes = [IsAuthenticated, MaySilence]
    queryset = Delivery.objects.select_related("route", "transition__finding").order_by("-created_at", "-pk")
    lookup_value_regex = "[0-9]{1,18}"

    @extend_schema(
        summary="Send a dead letter again",
        request=Nothing,
        responses={200: DeliverySerializer} | problem(409, "It is not dead.") | WRITES,
    )
    @action(detail=True, methods=["post"], url_path="send-again")
    def send_again(self, request: Request, pk: str) -> Response:
        """Try a dead delivery anew, with all its attempts; its message has the key that it had."""
        Nothing(data=request.data).is_valid(raise_exception=True)
        row = self.get_object()
        sending.again(row)
        changes.note(person(request), row, "changed", ["state"])
        return Response(DeliverySerializer(self.get_object()).data)


class NoiseQuery(Query):
    """How far back."""

    weeks = serializers.IntegerField(min_value=1, max_value=26, default=4)


class NoiseSerializer(serializers.Serializer[Any]):
    """One rule in one week, which begins on Monday in UTC."""

    rule = serializers.CharField()
    week = serializers.DateField()
    alerts = serializers.IntegerField(help_text="Times that it fired.")
    noisy = serializers.IntegerField(help_text="Of them those that flapped.")
    acknowledged = serializers.IntegerField(help_text="Of them those that somebody acknowledged.")
    acted_on = serializers.IntegerField(help_text="Of them those that somebody acknowledged, accepted, applied or dismissed.")
    in_shadow = serializers.IntegerField(help_text="Times that it would have fired, but for its being in shadow.")
    messages = serializers.IntegerField(help_text="Messages that told of them, to all routes.")
    median_s = serializers.FloatField(allow_null=True, help_text="Median time from firing to the end, of those that ended.")


class NoiseView(StrictQuery):
    """How noisy each rule is."""

    queries = {"get": NoiseQuery}

    @extend_schema(
        summary="Alerts by rule and week",
        parameters=[NoiseQuery],
        responses={200: rows("Noise", "The noisiest first.")} | problem(400, "What of the query does not fit.") | UNKNOWN,
    )
    def get(self, request: Request) -> Response:
        """Alerts of each rule by week, and how many somebody acted on."""
        return Response(NoiseSerializer(noise.by_week(self.query["weeks"]), many=True).data)
