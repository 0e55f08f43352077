"""`/api/v1/jobs/`: schedulers tell of jobs, programs read them."""

from typing import Any, Final

import django_filters
from django.db.models import Q, QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    PolymorphicProxySerializer,
    extend_schema,
    extend_schema_view,
)
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from fleet.accounts.models import ApiToken
from fleet.api.asked import PageQuery, StrictQuery
from fleet.api.bodies import Form, Json
from fleet.api.etags import Tagged
from fleet.api.filters import Moment, Strict, named
from fleet.api.job_bodies import JobBody, read
from fleet.api.job_rows import BRIEF, TOLD_ROWS, AllocationQuery, AllocationSerializer, JobSerializer, url_of
from fleet.api.pagination import Page
from fleet.api.permissions import MayTellJobs
from fleet.api.problems import problem
from fleet.api.serializers import FindingSerializer
from fleet.findings import consequences
from fleet.jobs.called import called
from fleet.jobs.extent import doubts
from fleet.jobs.models import SOURCES, STATES, Allocation, Job
from fleet.jobs.telling import keep
from fleet.reports.happened import findings_of


class JobMoment(Moment):
    """A time that bounds when jobs ran."""

    refusal = _("since and until take a time between 1970 and 2100.")


class JobFilter(Strict):
    """Jobs by who, where and when; `since` and `until` bound the time in which they ran."""

    state = django_filters.MultipleChoiceFilter(choices=[(state, state) for state in STATES])
    open = django_filters.BooleanFilter(field_name="ended_at", lookup_expr="isnull", help_text="Those that have not ended.")
    cluster = django_filters.CharFilter()
    job_id = django_filters.CharFilter(
        method="of_id", help_text="Its scheduler's own number, or as squeue shows it: 4711_3 of an array, 4711+1 heterogeneous."
    )
    array_job_id = django_filters.CharFilter(help_text="The job of which they are tasks or components.")
    user = django_filters.CharFilter()
    family = django_filters.CharFilter()
    source = django_filters.ChoiceFilter(choices=[(source, source) for source in SOURCES])
    node = django_filters.CharFilter(
        method="on_node", help_text="The name of a node that it holds or held devices of, or its id."
    )
    gpu = django_filters.NumberFilter(method="on_gpu", min_value=1, max_value=(1 << 63) - 1, help_text="A GPU's id.")
    since = JobMoment(method="ran_since", help_text="Those that ran then or later.")
    until = JobMoment(field_name="started_at", lookup_expr="lt", help_text="Those that started before.")

    class Meta:
        model = Job
        fields: list[str] = []

    def of_id(self, rows: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        """Jobs that are called so."""
        return rows.filter(called(value))

    def on_node(self, rows: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        """Jobs with a device of that node."""
        held = Allocation.objects.filter(named(value) | Q(node_name__iexact=value))
        return rows.filter(pk__in=held.values("job"))

    def on_gpu(self, rows: QuerySet[Job], name: str, value: Any) -> QuerySet[Job]:
        """Jobs with that GPU."""
        return rows.filter(pk__in=Allocation.objects.filter(gpu=value).values("job"))

    def ran_since(self, rows: QuerySet[Job], name: str, value: Any) -> QuerySet[Job]:
        """Jobs that had not ended by then."""
        return rows.filter(Q(ended_at=None) | Q(ended_at__gte=value))


_ID: Final = [OpenApiParameter("id", OpenApiTypes.INT64, OpenApiParameter.PATH, description="The run's id.")]
_UNKNOWN: Final = problem(401, "The caller is not known.")
_ONE_OR_MANY: Final = PolymorphicProxySerializer(
    component_name="JobOrJobs", serializers=[JobBody, JobBody(many=True)], resource_type_field_name=None, many=False
)


@extend_schema_view(
    list=extend_schema(
        summary="List jobs",
        responses={200: JobSerializer(many=True)} | problem(400, "What of the query does not fit.") | _UNKNOWN,
    ),
    retrieve=extend_schema(
        summary="One run of a job",
        parameters=_ID,
        responses={200: JobSerializer, 304: None} | problem(404, "No such run.") | _UNKNOWN,
    ),
)
class JobViewSet(Tagged, StrictQuery, ListModelMixin, RetrieveModelMixin, GenericViewSet[Job]):
    """Jobs, the newest start first."""

    serializer_class = JobSerializer
    filterset_class = JobFilter
    parser_classes = [Json, Form]
    permission_classes = [IsAuthenticated, MayTellJobs]
    queryset = Job.objects.order_by("-started_at", "-pk")
    lookup_value_regex = "[0-9]{1,18}"
    queries = {"findings": PageQuery, "allocations": AllocationQuery}

    @extend_schema(
        summary="Tell jobs: starts, changes, ends",
        request={"application/json": _ONE_OR_MANY, "application/x-www-form-urlencoded": JobBody},
        responses={200: OpenApiResponse(TOLD_ROWS, "All were known."), 201: OpenApiResponse(TOLD_ROWS, "Some are new.")}
        | problem(400, "What of the request does not fit, by field.")
        | problem(403, "The caller may not tell jobs.")
        | problem(409, "No run of the job is known, and the request does not say when it started; or it ends before it starts.")
        | problem(413, "The request is too large.")
        | _UNKNOWN,
        examples=[
            OpenApiExample(
                "A start",
                {
                    "cluster": "west", "job_id": "4711", "started_at": "2026-11-30T12:00:00Z", "source": "slurm", "name": "train",
                    "user": "ada", "gpus_total": 8,
                    "allocations": [{"nodes": "gpu[01-02]", "devices": "gpu:h200:4(IDX:0-3)"}],
                },
                request_only=True,
            ),
            OpenApiExample(
                "An end",
                {
                    "cluster": "west", "job_id": "4711", "started_at": "2026-11-30T12:00:00Z", "ended_at": 1796043600,
                    "state": "completed", "exit_code": 0,
                },
                request_only=True,
            ),
        ],
    )  # fmt: skip
    def create(self, request: Request) -> Response:
        """Keep one object or a list of at most 500, all or none; a form holds one. 201 when some are new, 200 otherwise.

        Told again, nothing changes: a run is known by cluster, job_id and started_at. The answer is short; who may read gets the runs whole.
        """
        asked = read(request.data)
        kept = keep(asked, timezone.now())
        found = {job.pk: job for job in self.get_queryset().filter(pk__in={job.pk for job, _is_new in kept})}
        told = doubts(found.values(), {given["node"].lower() for one in asked for given in one.get("allocations", ())})
        code = status.HTTP_201_CREATED if any(is_new for _job, is_new in kept) else status.HTTP_200_OK
        whole: Any = {}
        if not isinstance(request.auth, ApiToken) or request.auth.allows("read"):
            whole = {row["id"]: row for row in JobSerializer([*found.values()], many=True).data}
        answers = [
            {
                **(whole[job.pk] if whole else BRIEF.to_representation(found[job.pk])),
                "url": url_of(job), "created": is_new, "warnings": told.get(job.pk, []),
            }
            for job, is_new in kept
        ]  # fmt: skip
        return Response(answers, status=code)

    @extend_schema(
        summary="What a run holds or held",
        parameters=[*_ID, AllocationQuery],
        responses={200: AllocationSerializer(many=True)}
        | problem(404, "No such run.")
        | problem(400, "What of the query does not fit.")
        | _UNKNOWN,
        filters=False,
    )
    @action(detail=True)
    def allocations(self, request: Request, pk: str) -> Response:
        """Its devices by node and device, page by page; those that it gave back have `until_at`."""
        job = get_object_or_404(Job, pk=pk)  # the list's filters have the same names
        held = job.allocations.select_related("gpu").order_by("node_name", "device", "from_at")
        if "node" in self.query:
            held = held.filter(node_name__iexact=self.query["node"])
        if "open" in self.query:
            held = held.filter(until_at__isnull=self.query["open"])
        paginator = Page()
        page = paginator.paginate_queryset(held, request, view=self)
        return paginator.get_paginated_response(AllocationSerializer(page or [], many=True).data)

    @extend_schema(
        summary="Findings of a run",
        parameters=_ID,
        responses={200: FindingSerializer(many=True)} | problem(404, "No such run.") | _UNKNOWN,
        filters=False,
    )
    @action(detail=True)
    def findings(self, request: Request, pk: str) -> Response:
        """What was found of the job and of the GPUs that it held, while it ran: the strongest first."""
        job = self.get_object()
        findings = findings_of(job).select_related("node").prefetch_related("acknowledgements")
        findings = findings.annotate(consequences_total=consequences.total())
        paginator = Page()
        page = paginator.paginate_queryset(findings, request, view=self)
        return paginator.get_paginated_response(FindingSerializer(page or [], many=True).data)
