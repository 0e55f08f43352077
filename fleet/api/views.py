"""The REST API under /api/v1/."""

from typing import Any, NoReturn

from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponsePermanentRedirect
from django.utils.translation import gettext
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema, extend_schema_view
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView
from rest_framework.viewsets import ReadOnlyModelViewSet

from fleet.api import readings, series
from fleet.api.alert_fields import WRITES, person
from fleet.api.asked import StrictQuery
from fleet.api.filters import FindingFilter, GpuFilter, NodeFilter
from fleet.api.permissions import MayAcknowledge, MayChangeFindings
from fleet.api.problems import problem
from fleet.api.serializers import (
    AcknowledgementSerializer,
    AcknowledgeSerializer,
    FindingSerializer,
    GpuSerializer,
    MoveSerializer,
    NodeDetailSerializer,
    NodeSerializer,
    TransitionSerializer,
)
from fleet.findings import consequences
from fleet.findings.advised import advise_transition
from fleet.findings.models import RANK, Finding, Transition
from fleet.inventory.models import Gpu, Node
from fleet.notify.acknowledging import acknowledge, take_back


def _count(rows: QuerySet[Any]) -> Coalesce:
    """How many of the rows are the node's, each kind counted by itself: two joins would multiply."""
    of_node = rows.filter(node=OuterRef("pk")).order_by().values("node").annotate(n=Count("pk"))
    return Coalesce(Subquery(of_node.values("n")), 0)


@extend_schema_view(list=extend_schema(summary="List nodes"), retrieve=extend_schema(summary="One node"))
class NodeViewSet(StrictQuery, ReadOnlyModelViewSet[Node]):
    """Machines with GPUs."""

    serializer_class = NodeSerializer
    filterset_class = NodeFilter
    queryset = Node.objects.annotate(
        gpus_total=_count(Gpu.objects.filter(present=True)),
        findings_open=_count(Finding.objects.filter(condition="firing", resolved_at=None, shadow=False)),
    ).order_by("name")

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        """One node with its engines and processes; a list without them."""
        return NodeDetailSerializer if self.action == "retrieve" else NodeSerializer


@extend_schema_view(list=extend_schema(summary="List GPUs"), retrieve=extend_schema(summary="One GPU"))
class GpuViewSet(StrictQuery, ReadOnlyModelViewSet[Gpu]):
    """GPUs with their latest readings and bottleneck."""

    serializer_class = GpuSerializer
    filterset_class = GpuFilter
    queryset = Gpu.objects.select_related("node", "diagnosis").order_by("node__name", "index", "id")


@extend_schema_view(list=extend_schema(summary="List findings"), retrieve=extend_schema(summary="One finding"))
class FindingViewSet(StrictQuery, ReadOnlyModelViewSet[Finding]):
    """What the rules found: critical first, then by the GPU-hours to win back, then by severity and rule."""

    serializer_class = FindingSerializer
    filterset_class = FindingFilter
    permission_classes = [*ReadOnlyModelViewSet.permission_classes, MayChangeFindings]
    queryset = (
        Finding.objects.select_related("node")
        .prefetch_related("acknowledgements")
        .annotate(consequences_total=consequences.total())
        .order_by(*RANK, "id")
    )

    @extend_schema(summary="A finding's history", responses=TransitionSerializer(many=True), filters=False)
    @action(detail=True, pagination_class=None)
    def transitions(self, request: Request, pk: str) -> Response:
        """Every change of the finding's condition and of its advice, oldest first."""
        rows = Transition.objects.filter(finding=self.get_object()).select_related("by").order_by("at", "id")
        return Response(TransitionSerializer(rows, many=True).data)

    @extend_schema(
        summary="Move the advice",
        request=MoveSerializer,
        responses={201: TransitionSerializer} | problem(409, "The advice cannot go there from where it is."),
    )
    @transitions.mapping.post
    def move(self, request: Request, pk: str) -> Response:
        """Accept, dismiss or apply the advice, or propose it anew."""
        finding = self.get_object()
        asked = MoveSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        user = request.user if request.user.is_authenticated else None
        told = asked.validated_data
        at = told["applied_at"]
        if at is not None and at < finding.opened_at:
            raise ValidationError({"applied_at": [gettext("That was before the finding opened.")]})
        written = advise_transition(finding, told["after"], user, told["note"], at=at)
        return Response(TransitionSerializer(written).data, status=status.HTTP_201_CREATED)

    @extend_schema(
        summary="Acknowledge an alert",
        request=AcknowledgeSerializer,
        responses={201: AcknowledgementSerializer} | problem(409, "The alert does not fire.") | WRITES,
    )
    @action(detail=True, methods=["post"], permission_classes=[IsAuthenticated, MayAcknowledge])
    def acknowledge(self, request: Request, pk: str) -> Response:
        """Say that somebody looks after the alert: it neither repeats nor escalates until it grows worse. Twice is once."""
        asked = AcknowledgeSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        row = acknowledge(self.get_object(), via="api", by=person(request), comment=asked.validated_data["comment"])
        return Response(AcknowledgementSerializer(row).data, status=status.HTTP_201_CREATED)

    @extend_schema(summary="Take an acknowledgement back", request=None, responses={204: None} | WRITES)
    @acknowledge.mapping.delete
    def unacknowledge(self, request: Request, pk: str) -> Response:
        """Nobody looks after the alert any more: it repeats and escalates again."""
        take_back(self.get_object())
        return Response(status=status.HTTP_204_NO_CONTENT)

    def get_queryset(self) -> QuerySet[Finding]:
        """All, for one that is asked for by its id; a list leaves out those in shadow unless `shadow` says."""
        rows = super().get_queryset()
        listed = self.action == "list" and "shadow" not in self.request.query_params
        return rows.filter(shadow=False) if listed else rows

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        """The serializer of a move for moves, of findings otherwise."""
        return MoveSerializer if self.action == "move" else super().get_serializer_class()


class SeriesView(StrictQuery):
    """Readings over time."""

    queries = {"get": series.SeriesQuery}

    @extend_schema(
        summary="Readings of one GPU, node or serving engine over time",
        parameters=[series.SeriesQuery],
        responses={
            200: OpenApiResponse(
                {
                    "type": "object",
                    "required": ["ts"],
                    "properties": {"ts": {"type": "array", "items": {"type": "integer"}}},
                    "additionalProperties": {"type": "array", "items": {"type": "number", "nullable": True}},
                },
                "`ts` is the start of each bucket in epoch seconds; beside it one list a metric, null where absent.",
                [OpenApiExample("Two metrics", {"ts": [0, 10], "power_w": [312.5, None], "sm_active": [0.91, 0.9]})],
            ),
        }
        | problem(400, "What of the query does not fit, by parameter.")
        | problem(404, "No such GPU, node or engine."),
    )
    def get(self, request: Request) -> Response:
        """Means (of counters: the last value) in buckets of `step_s`; a bucket without a sample is null."""
        asked = self.query
        if not series.exists(asked["scope"], asked["entity"]):
            raise NotFound(gettext("There is no {scope} {entity}.").format(scope=asked["scope"], entity=asked["entity"]))
        return Response(
            readings.columns(asked["scope"], asked["entity"], asked["metrics"], asked["start"], asked["end"], asked["step_s"])
        )


@extend_schema(exclude=True)
class SlashlessView(APIView):
    """A path without the slash at its end: who reads is led to the one with it; a body would be lost on that way."""

    def get(self, request: Request, **_: Any) -> HttpResponsePermanentRedirect:
        """301 to the path with the slash."""
        return HttpResponsePermanentRedirect(request._request.get_full_path(force_append_slash=True))

    def http_method_not_allowed(self, request: HttpRequest, *args: Any, **kwargs: Any) -> NoReturn:
        """404, and how to write the path."""
        raise NotFound(gettext("Write the path with a slash at its end: {path}/").format(path=request.path))


@extend_schema(exclude=True)
class NothingView(APIView):
    """Answers every other path under /api/v1/ as the API answers: a problem, and 404 once the caller is known."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check who calls as any view does, then say that nothing is here, whatever the method."""
        super().initial(request, *args, **kwargs)
        raise NotFound(gettext("Nothing is here; /api/v1/schema/ and /api/v1/docs/ list what is."))
