"""Profiles of jobs: agents and people send their summaries, programs read them."""

from typing import Any, Final

import django_filters
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema, extend_schema_view
from rest_framework import serializers, status
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import Throttled
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.viewsets import GenericViewSet

from fleet.api.asked import StrictQuery
from fleet.api.authentication import AgentBearer, BearerToken
from fleet.api.errors import Conflict
from fleet.api.filters import Moment, Strict, named
from fleet.api.permissions import MaySendProfiles
from fleet.api.problems import problem
from fleet.api.reports import body_of, node_of, refuse_control_characters, unusable
from fleet.profiles.keep import KeepError, TooManyProfilesError, keep
from fleet.profiles.models import JobProfile
from wire.profile import MAX_BYTES, ProfileError, decode


class ProfileSerializer(serializers.ModelSerializer[JobProfile]):
    """One profile of a job, with what rules read of it."""

    node_name = serializers.CharField(source="node.name", read_only=True)
    features = serializers.DictField(read_only=True, help_text="Shares from 0 to 1, seconds and a name; null: not told.")

    class Meta:
        model = JobProfile
        fields: tuple[str, ...] = ("id", "node", "node_name", "job", "pid", "at", "received_at", "features")
        read_only_fields = fields


class ProfileDetailSerializer(ProfileSerializer):
    """One profile with its whole summary."""

    summary = serializers.DictField(read_only=True, help_text="The report as it came.")

    class Meta(ProfileSerializer.Meta):
        fields = (*ProfileSerializer.Meta.fields, "summary")
        read_only_fields = fields


class TakenProfileSerializer(serializers.Serializer[Any]):
    """What became of a report."""

    id = serializers.IntegerField(help_text="The profile's.")
    job = serializers.CharField(help_text="Empty: the process is not known to hold a GPU yet.")


class ProfileMoment(Moment):
    """When a trace was written."""

    refusal = _("after and before take a time between 1970 and 2100.")


class ProfileFilter(Strict):
    """Profiles by job, node and time."""

    job = django_filters.CharFilter(help_text="The job's exact name.")
    node = django_filters.CharFilter(method="on_node", help_text="The node's exact name, or its id.")
    after = ProfileMoment(field_name="at", lookup_expr="gte")
    before = ProfileMoment(field_name="at", lookup_expr="lt")

    class Meta:
        model = JobProfile
        fields: list[str] = []

    def on_node(self, rows: QuerySet[JobProfile], name: str, value: str) -> QuerySet[JobProfile]:
        """Profiles from the node of that name or id."""
        return rows.filter(named(value))


_UNKNOWN: Final = problem(401, "The caller is not known.")


@extend_schema_view(
    list=extend_schema(
        summary="List profiles of jobs",
        responses={200: ProfileSerializer(many=True)} | problem(400, "What of the query does not fit.") | _UNKNOWN,
    ),
    retrieve=extend_schema(
        summary="One profile with its summary",
        responses={200: ProfileDetailSerializer} | problem(404, "No such profile.") | _UNKNOWN,
    ),
)
class ProfileViewSet(StrictQuery, ListModelMixin, RetrieveModelMixin, GenericViewSet[JobProfile]):
    """Summaries of profiles, the newest first."""

    serializer_class = ProfileSerializer
    filterset_class = ProfileFilter
    authentication_classes = [AgentBearer, BearerToken, SessionAuthentication]
    permission_classes = [MaySendProfiles]
    queryset = JobProfile.objects.select_related("node").order_by("-at", "-id")
    lookup_value_regex = "[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[JobProfile]:
        """One profile brings its summary."""
        rows = super().get_queryset()
        return rows if self.action == "retrieve" else rows.defer("summary")

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        """One profile with its summary; a list without."""
        return ProfileDetailSerializer if self.action == "retrieve" else ProfileSerializer

    @extend_schema(
        summary="Send the summary of a profile",
        request={
            "application/json": {"type": "object", "description": "What `fettle profile --send` makes of a trace (wire/profile.py)."}
        },
        responses={
            201: TakenProfileSerializer,
            200: OpenApiResponse(TakenProfileSerializer, "The profile was kept before; nothing has changed."),
        }
        | problem(400, "It is no report, with where it does not fit.")
        | problem(403, "The caller may not send it, or not for this node.")
        | problem(404, "No such node.")
        | problem(409, "The profile was written in the future.")
        | problem(413, "The report is too large.")
        | problem(429, "The node sent as many profiles as a day may have.")
        | _UNKNOWN,
        examples=[
            OpenApiExample(
                "A second of two GPUs",
                {
                    "format": 1, "node": "n1", "job": "n1/alice/python", "at": 1796052938.5, "kind": "kineto", "complete": True,
                    "events": 40573, "gpus": 2, "span_s": 1.32, "compute_s": 0.24, "communication_s": 0.2, "communication_exposed_s": 0.08,
                    "copies_exposed_s": 0.0, "idle_s": 1.0, "idle_launching_s": 0.85, "kernels": 5400, "kernel_total_s": 0.42,
                },
                request_only=True,
            )
        ],
    )  # fmt: skip
    def create(self, request: Request) -> Response:
        """Keep the summary; one that was kept before is answered 200 and changes nothing. An agent's token speaks for its own node alone."""
        try:
            report = decode(body_of(request, MAX_BYTES))
        except ProfileError as error:
            raise unusable(error) from None
        refuse_control_characters(report)
        node = node_of(request, report.node)
        try:
            kept = keep(report, node, timezone.now())
        except TooManyProfilesError as error:
            raise Throttled(detail=str(error)) from None
        except KeepError as error:
            raise Conflict(str(error)) from None
        told = {"id": kept.profile.pk, "job": kept.profile.job}
        return Response(TakenProfileSerializer(told).data, status=status.HTTP_201_CREATED if kept.is_new else status.HTTP_200_OK)
