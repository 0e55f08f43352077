"""Runs of `fettle bench`: agents and people send them, programs read them and their scores."""

from typing import Any, Final

import django_filters
from django.db.models import Count, QuerySet
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
from fleet.api.permissions import MaySendBenchRuns
from fleet.api.problems import problem
from fleet.api.reports import body_of, node_of, refuse_control_characters, unusable
from fleet.benches.keep import KeepError, TooManyRunsError, keep
from fleet.benches.models import BenchRun, BenchScore
from wire.bench import GROUPS, MAX_BYTES, BenchError, decode

_KINDS: Final = [(kind, kind) for kind in dict.fromkeys(GROUPS.values())]


class BenchScoreSerializer(serializers.ModelSerializer[BenchScore]):
    """One test of one GPU in a run; of the node itself where `gpu` is null. More is better; rates are a second's."""

    node = serializers.IntegerField(source="run.node_id", read_only=True)
    node_name = serializers.CharField(source="run.node.name", read_only=True)
    gpu_index = serializers.IntegerField(source="gpu.index", read_only=True, allow_null=True, default=None)
    model = serializers.CharField(source="gpu.model", read_only=True, allow_null=True, default=None)
    at = serializers.DateTimeField(source="run.at", read_only=True)
    protocol = serializers.CharField(source="run.protocol", read_only=True)

    class Meta:
        model = BenchScore
        fields = (
            "id", "run", "at", "protocol", "node", "node_name", "gpu", "gpu_index", "model", "name", "value", "p5", "p95", "unit",
            "iterations", "peak_share", "judged", "power_limit_w", "settled", "sm_clock_mhz", "power_w", "temperature_c",
        )  # fmt: skip
        read_only_fields = fields


class MissingSerializer(serializers.Serializer[Any]):
    """A test that has no score."""

    name = serializers.CharField()
    gpu = serializers.CharField(help_text="The GPU's UUID; empty: the node itself.")
    reason = serializers.CharField()


class BenchRunSerializer(serializers.ModelSerializer[BenchRun]):
    """One run on one node."""

    node_name = serializers.CharField(source="node.name", read_only=True)
    versions = serializers.DictField(child=serializers.CharField(), read_only=True)
    environment = serializers.DictField(child=serializers.CharField(), read_only=True)
    scores_total = serializers.IntegerField(read_only=True)

    class Meta:
        model = BenchRun
        fields: tuple[str, ...] = (
            "id", "node", "node_name", "at", "received_at", "seconds", "protocol", "shared", "interrupted", "versions", "environment",
            "scores_total",
        )  # fmt: skip
        read_only_fields = fields


class BenchRunDetailSerializer(BenchRunSerializer):
    """One run with its scores, and the tests that have none."""

    scores = BenchScoreSerializer(many=True, read_only=True)
    missing = MissingSerializer(many=True, read_only=True)

    class Meta(BenchRunSerializer.Meta):
        fields = (*BenchRunSerializer.Meta.fields, "scores", "missing")
        read_only_fields = fields


class TakenSerializer(serializers.Serializer[Any]):
    """What became of a report."""

    id = serializers.IntegerField(help_text="The run's.")
    scores_total = serializers.IntegerField()
    unknown_gpus = serializers.ListField(
        child=serializers.CharField(), help_text="UUIDs that the node is not known to have; their scores were left out."
    )


class RunMoment(Moment):
    """When a run began."""

    refusal = _("after and before take a time between 1970 and 2100.")


class BenchRunFilter(Strict):
    """Runs by node, protocol and time."""

    node = django_filters.CharFilter(method="on_node", help_text="The node's exact name, or its id.")
    protocol = django_filters.ChoiceFilter(choices=[("full", "full"), ("quick", "quick")])
    shared = django_filters.BooleanFilter()
    after = RunMoment(field_name="at", lookup_expr="gte")
    before = RunMoment(field_name="at", lookup_expr="lt")

    class Meta:
        model = BenchRun
        fields: list[str] = []

    def on_node(self, rows: QuerySet[BenchRun], name: str, value: str) -> QuerySet[BenchRun]:
        """Runs on the node of that name or id."""
        return rows.filter(named(value))


class BenchScoreFilter(Strict):
    """Scores by what was measured, where and when."""

    run = django_filters.NumberFilter(min_value=1, max_value=(1 << 63) - 1)
    gpu = django_filters.NumberFilter(min_value=1, max_value=(1 << 63) - 1, help_text="A GPU's id.")
    node = django_filters.CharFilter(method="on_node", help_text="The node's exact name, or its id.")
    model = django_filters.CharFilter(field_name="gpu__model", lookup_expr="icontains", help_text="A part of the model's name.")
    name = django_filters.CharFilter(help_text="The test's exact name.")
    kind = django_filters.ChoiceFilter(choices=_KINDS, method="of_kind")
    protocol = django_filters.ChoiceFilter(field_name="run__protocol", choices=[("full", "full"), ("quick", "quick")])
    after = RunMoment(field_name="run__at", lookup_expr="gte")
    before = RunMoment(field_name="run__at", lookup_expr="lt")

    class Meta:
        model = BenchScore
        fields: list[str] = []

    def on_node(self, rows: QuerySet[BenchScore], name: str, value: str) -> QuerySet[BenchScore]:
        """Scores on the node of that name or id."""
        return rows.filter(named(value, "run__node"))

    def of_kind(self, rows: QuerySet[BenchScore], name: str, value: str) -> QuerySet[BenchScore]:
        """Scores of this kind of test, by their names' first word."""
        return rows.filter(name__regex=f"^({'|'.join(word for word, kind in GROUPS.items() if kind == value)})_")


_UNKNOWN: Final = problem(401, "The caller is not known.")


@extend_schema_view(
    list=extend_schema(
        summary="List bench runs",
        responses={200: BenchRunSerializer(many=True)} | problem(400, "What of the query does not fit.") | _UNKNOWN,
    ),
    retrieve=extend_schema(
        summary="One bench run with its scores",
        responses={200: BenchRunDetailSerializer} | problem(404, "No such run.") | _UNKNOWN,
    ),
)
class BenchRunViewSet(StrictQuery, ListModelMixin, RetrieveModelMixin, GenericViewSet[BenchRun]):
    """Runs of `fettle bench`, the newest first."""

    serializer_class = BenchRunSerializer
    filterset_class = BenchRunFilter
    authentication_classes = [AgentBearer, BearerToken, SessionAuthentication]
    permission_classes = [MaySendBenchRuns]
    queryset = BenchRun.objects.select_related("node").annotate(scores_total=Count("scores")).order_by("-at", "-id")
    lookup_value_regex = "[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[BenchRun]:
        """One run brings its scores."""
        rows = super().get_queryset()
        return rows.prefetch_related("scores__gpu", "scores__run__node") if self.action == "retrieve" else rows

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        """One run with its scores; a list without."""
        return BenchRunDetailSerializer if self.action == "retrieve" else BenchRunSerializer

    @extend_schema(
        summary="Send the report of a run",
        request={"application/json": {"type": "object", "description": "What `fettle bench --json` writes (wire/bench.py)."}},
        responses={
            201: TakenSerializer,
            200: OpenApiResponse(TakenSerializer, "The run was kept before; nothing has changed."),
        }
        | problem(400, "It is no report, with where it does not fit.")
        | problem(403, "The caller may not send it, or not for this node.")
        | problem(404, "No such node.")
        | problem(409, "The node is not known to have any of the GPUs, or the run begins in the future.")
        | problem(413, "The report is too large.")
        | problem(429, "The node sent as many runs as a day may have.")
        | _UNKNOWN,
        examples=[
            OpenApiExample(
                "A disk",
                {
                    "format": 1, "node": "n1", "at": 1796052938.5, "seconds": 7.3, "protocol": "quick",
                    "scores": [
                        {
                            "name": "disk_random_read", "value": 1.47e9, "p5": 1.03e9, "p95": 1.6e9, "unit": "bytes_per_second",
                            "iterations": 27425,
                        }
                    ],
                },
                request_only=True,
            )
        ],
    )  # fmt: skip
    def create(self, request: Request) -> Response:
        """Keep the run; one that was kept before is answered 200 and changes nothing. An agent's token speaks for its own node alone."""
        try:
            report = decode(body_of(request, MAX_BYTES))
        except BenchError as error:
            raise unusable(error) from None
        refuse_control_characters(report)
        node = node_of(request, report.node)
        try:
            kept = keep(report, node, timezone.now())
        except TooManyRunsError as error:
            raise Throttled(detail=str(error)) from None
        except KeepError as error:
            raise Conflict(str(error)) from None
        told = {"id": kept.run.pk, "scores_total": kept.run.scores.count(), "unknown_gpus": kept.unknown}
        return Response(TakenSerializer(told).data, status=status.HTTP_201_CREATED if kept.is_new else status.HTTP_200_OK)


@extend_schema_view(
    list=extend_schema(
        summary="List scores of bench runs",
        responses={200: BenchScoreSerializer(many=True)} | problem(400, "What of the query does not fit.") | _UNKNOWN,
    )
)
class BenchScoreViewSet(StrictQuery, ListModelMixin, GenericViewSet[BenchScore]):
    """Scores of bench runs, those of the newest run first."""

    serializer_class = BenchScoreSerializer
    filterset_class = BenchScoreFilter
    queryset = BenchScore.objects.select_related("run__node", "gpu").order_by("-run__at", "id")
