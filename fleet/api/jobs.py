"""`/api/v1/jobs/`: schedulers tell of jobs, programs read them."""

from typing import Any, Final

import django_filters
from django.db.models import Prefetch, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, PolymorphicProxySerializer, extend_schema, extend_schema_view
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from fleet.api.asked import PageQuery, StrictQuery
from fleet.api.bodies import Form, Json
from fleet.api.etags import Tagged
from fleet.api.filters import Moment, Strict, named
from fleet.api.job_bodies import JobBody, read
from fleet.api.pagination import Page
from fleet.api.permissions import MayTellJobs
from fleet.api.problems import problem, rows
from fleet.api.serializers import FindingSerializer
from fleet.jobs.models import SOURCES, STATES, Allocation, Job
from fleet.jobs.telling import keep
from fleet.reports.happened import findings_of


class AllocationSerializer(serializers.ModelSerializer[Allocation]):
    """One device that the job holds, or held; `gpu` is null for one that no agent has told of."""

    gpu_index = serializers.IntegerField(source="gpu.index", read_only=True, allow_null=True, default=None)
    gpu_uuid = serializers.CharField(source="gpu.uuid", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Allocation
        fields = ("node", "node_name", "device", "gpu", "gpu_index", "gpu_uuid", "shared", "from_at", "until_at")
        read_only_fields = fields


class JobSerializer(serializers.ModelSerializer[Job]):
    """One run of one job, with what it holds or held. `target` is what findings call it."""

    target = serializers.CharField(read_only=True)
    source = serializers.ChoiceField(choices=SOURCES, read_only=True)  # type: ignore[assignment] # a field
    state = serializers.ChoiceField(choices=STATES, read_only=True)
    labels = serializers.DictField(child=serializers.CharField(), read_only=True)
    allocations = AllocationSerializer(many=True, read_only=True)

    class Meta:
        model = Job
        fields = (
            "id", "cluster", "job_id", "target", "source", "state", "started_at", "ended_at", "exit_code", "name", "user", "account",
            "partition", "family", "gpus_total", "array_job_id", "restarts", "labels", "told_at", "allocations",
        )  # fmt: skip
        read_only_fields = fields


class JobMoment(Moment):
    """A time that bounds when jobs ran."""

    refusal = _("since and until take a time between 1970 and 2100.")


class JobFilter(Strict):
    """Jobs by who, where and when; `since` and `until` bound the time in which they ran."""

    state = django_filters.MultipleChoiceFilter(choices=[(state, state) for state in STATES])
    open = django_filters.BooleanFilter(field_name="ended_at", lookup_expr="isnull", help_text="Those that have not ended.")
    cluster = django_filters.CharFilter()
    job_id = django_filters.CharFilter()
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

    def on_node(self, rows: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        """Jobs with a device of that node."""
        held = Allocation.objects.filter(named(value) | Q(node_name=value))
        return rows.filter(pk__in=held.values("job"))

    def on_gpu(self, rows: QuerySet[Job], name: str, value: Any) -> QuerySet[Job]:
        """Jobs with that GPU."""
        return rows.filter(pk__in=Allocation.objects.filter(gpu=value).values("job"))

    def ran_since(self, rows: QuerySet[Job], name: str, value: Any) -> QuerySet[Job]:
        """Jobs that had not ended by then."""
        return rows.filter(Q(ended_at=None) | Q(ended_at__gte=value))


HELD: Final = Prefetch("allocations", Allocation.objects.select_related("gpu"))
"""With their GPUs in the same query: thousands of GPUs by their ids are more than SQLite takes in one."""
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
    queryset = Job.objects.prefetch_related(HELD).order_by("-started_at", "-pk")
    lookup_value_regex = "[0-9]{1,18}"
    queries = {"findings": PageQuery}

    @extend_schema(
        summary="Tell jobs: starts, changes, ends",
        request={"application/json": _ONE_OR_MANY, "application/x-www-form-urlencoded": JobBody},
        responses={200: rows("Job", "All were known."), 201: rows("Job", "Some are new.")}
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

        Told again, nothing changes: a run is known by cluster, job_id and started_at.
        """
        kept = keep(read(request.data), timezone.now())
        found = {job.pk: job for job in self.get_queryset().filter(pk__in={job.pk for job, _is_new in kept})}
        code = status.HTTP_201_CREATED if any(is_new for _job, is_new in kept) else status.HTTP_200_OK
        return Response(JobSerializer([found[job.pk] for job, _is_new in kept], many=True).data, status=code)

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
        findings = findings_of(job).select_related("node").prefetch_related("gpus")
        paginator = Page()
        page = paginator.paginate_queryset(findings, request, view=self)
        return paginator.get_paginated_response(FindingSerializer(page or [], many=True).data)
