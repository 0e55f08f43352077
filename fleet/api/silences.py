"""What keeps alerts quiet: silences and inhibitions over REST."""

from typing import Any

import django_filters
from django.db.models import QuerySet
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

from fleet.accounts.plain_text import plain_text
from fleet.api.alert_fields import WRITES, LabelsField, MatchersField, person
from fleet.api.asked import AskedSerializer, Nothing, PageQuery, StrictQuery
from fleet.api.errors import Conflict
from fleet.api.filters import Strict
from fleet.api.permissions import MayInhibit, MaySilence
from fleet.api.problems import problem
from fleet.notify import checks, keeping
from fleet.notify.models import Inhibition, Silence


class SilenceSerializer(serializers.ModelSerializer[Silence]):
    """A silence with who made it and who ended it early."""

    matchers = MatchersField(read_only=True)

    class Meta:
        model = Silence
        fields = ("id", "matchers", "starts_at", "ends_at", "comment", "by_name", "created_at", "ended_by_name")
        read_only_fields = fields


class SilenceRequestSerializer(AskedSerializer):
    """What to keep quiet, until when and why."""

    matchers = MatchersField()
    starts_at = serializers.DateTimeField(required=False, allow_null=True, default=None, help_text="Default: now.")
    ends_at = serializers.DateTimeField()
    comment = serializers.CharField(max_length=300, validators=[plain_text])

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The same; ValidationError at what does not fit."""
        if wrong := checks.of_silence(attrs):
            raise serializers.ValidationError(wrong)
        return attrs


class SilenceFilter(Strict):
    """Silences by whether they hold."""

    current = django_filters.BooleanFilter(method="still", help_text="Those that hold now or later, or those that are over.")

    class Meta:
        model = Silence
        fields: list[str] = []

    def still(self, rows: QuerySet[Silence], name: str, value: bool) -> QuerySet[Silence]:
        """Those that have not ended, or those that have."""
        now = timezone.now()
        return rows.filter(ends_at__gt=now) if value else rows.filter(ends_at__lte=now)


@extend_schema_view(list=extend_schema(summary="List silences"), retrieve=extend_schema(summary="One silence"))
class SilenceViewSet(StrictQuery, ListModelMixin, RetrieveModelMixin, GenericViewSet[Silence]):
    """What is kept quiet, the last to end first. A silence that was made stays as a row; it is ended, and not deleted."""

    serializer_class = SilenceSerializer
    filterset_class = SilenceFilter
    permission_classes = [IsAuthenticated, MaySilence]
    queryset = Silence.objects.all()
    lookup_value_regex = "[0-9]{1,18}"

    @extend_schema(
        summary="Silence alerts",
        request=SilenceRequestSerializer,
        responses={201: SilenceSerializer} | WRITES,
        examples=[
            OpenApiExample(
                "A rack for two hours",
                {
                    "matchers": [{"label": "rack", "op": "in", "values": ["r07"]}],
                    "ends_at": "2026-11-30T14:00:00Z",
                    "comment": "New PDU",
                },
                request_only=True,
            )
        ],
    )
    def create(self, request: Request) -> Response:
        """Keep quiet what the matchers fit. Alerts are kept and shown as silenced; what still fires when it ends is told."""
        asked = SilenceRequestSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        row = keeping.silence(asked.validated_data, person(request))
        return Response(SilenceSerializer(row).data, status=status.HTTP_201_CREATED)

    @extend_schema(
        summary="End a silence",
        request=Nothing,
        responses={200: SilenceSerializer} | problem(409, "It has ended.") | WRITES,
    )
    @action(detail=True, methods=["post"])
    def end(self, request: Request, pk: str) -> Response:
        """End it now; what still fires is told within half a minute."""
        Nothing(data=request.data).is_valid(raise_exception=True)
        row = self.get_object()
        if not keeping.end(row, person(request)):
            raise Conflict(gettext("The silence has ended."))
        row.refresh_from_db()
        return Response(SilenceSerializer(row).data)


class InhibitionSerializer(serializers.ModelSerializer[Inhibition]):
    """An inhibition."""

    source = MatchersField(read_only=True)  # type: ignore[assignment] # a field of that name, not where one comes from
    target = MatchersField(read_only=True)
    equal = LabelsField(read_only=True)

    class Meta:
        model = Inhibition
        fields = ("id", "name", "source", "target", "equal", "enabled")
        read_only_fields = fields


class InhibitionRequestSerializer(AskedSerializer):
    """While an alert that `source` fits fires, those that `target` fits and that have the `equal` labels in common are not told."""

    name = serializers.CharField(max_length=100, validators=[plain_text])
    source = MatchersField()  # type: ignore[assignment] # as above
    target = MatchersField()
    equal = LabelsField(required=False)
    enabled = serializers.BooleanField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The same; ValidationError at what does not fit."""
        if wrong := checks.of_inhibition(attrs):
            raise serializers.ValidationError(wrong)
        if "name" in attrs and checks.is_taken(Inhibition, attrs["name"], self.instance):
            raise serializers.ValidationError({"name": gettext("There is an inhibition of this name.")})
        return attrs


@extend_schema_view(
    list=extend_schema(summary="List inhibitions"),
    retrieve=extend_schema(summary="One inhibition"),
    destroy=extend_schema(summary="Delete an inhibition", responses={204: None} | WRITES),
)
class InhibitionViewSet(StrictQuery, ListModelMixin, RetrieveModelMixin, DestroyModelMixin, GenericViewSet[Inhibition]):
    """What is not told while something else fires."""

    serializer_class = InhibitionSerializer
    permission_classes = [IsAuthenticated, MayInhibit]
    queryset = Inhibition.objects.all()
    lookup_value_regex = "[0-9]{1,18}"
    queries = {"list": PageQuery}

    @extend_schema(
        summary="Make an inhibition", request=InhibitionRequestSerializer, responses={201: InhibitionSerializer} | WRITES
    )
    def create(self, request: Request) -> Response:
        """Keep an inhibition."""
        asked = InhibitionRequestSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        row = keeping.add(Inhibition, asked.validated_data, person(request))
        return Response(InhibitionSerializer(row).data, status=status.HTTP_201_CREATED)

    @extend_schema(
        summary="Change an inhibition",
        request=InhibitionRequestSerializer(partial=True),
        responses={200: InhibitionSerializer} | WRITES,
    )
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change what the request holds; the rest stays."""
        row = self.get_object()
        asked = InhibitionRequestSerializer(row, data=request.data, partial=True)
        asked.is_valid(raise_exception=True)
        keeping.change(row, asked.validated_data, person(request))
        return Response(InhibitionSerializer(row).data)

    def perform_destroy(self, instance: Inhibition) -> None:
        """Delete it and note who did."""
        keeping.remove(instance, person(self.request))
