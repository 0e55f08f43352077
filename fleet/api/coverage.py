"""How much of the fleet's work is known to be whose."""

from datetime import timedelta
from typing import Any, Final

from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from fleet.api.asked import Query
from fleet.slow.coverage import Covered, covered

MOST_HOURS: Final = 30 * 24
WHOSE: Final = ("scheduled", "processes", "unknown")


class CoverageQuery(Query):
    """The span asked for."""

    hours = serializers.IntegerField(min_value=1, max_value=MOST_HOURS, default=1, help_text="Hours before now.")


class ShareSerializer(serializers.Serializer[Any]):
    """Per cent of one kind."""

    scheduled = serializers.FloatField(allow_null=True, help_text="A job that a scheduler told of.")
    processes = serializers.FloatField(allow_null=True, help_text="A job that only its processes show.")
    unknown = serializers.FloatField(allow_null=True, help_text="At work, and nobody knows for whom.")


class CoverageSerializer(serializers.Serializer[Any]):
    """Shares over whole minutes; null where nothing was measured."""

    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    minutes = serializers.IntegerField(help_text="Minutes that were counted; a server that stood still counts none.")
    busy_gpu_hours = serializers.FloatField(allow_null=True, help_text="Time in which engines of GPUs had work.")
    busy_pct = ShareSerializer(help_text="Of the time in which engines of GPUs had work, in per cent.")
    gpus_pct = ShareSerializer(help_text="Of the GPUs that reported, in per cent; the rest is held by nobody and does nothing.")


class CoverageView(APIView):
    """Attribution in per cent."""

    @extend_schema(
        summary="How much of the work is known to be whose",
        parameters=[CoverageQuery],
        responses=CoverageSerializer,
        examples=[
            OpenApiExample(
                "The last hour",
                {
                    "since": "2026-11-30T11:00:00Z", "until": "2026-11-30T12:00:00Z", "minutes": 60, "busy_gpu_hours": 61.4,
                    "busy_pct": {"scheduled": 91.2, "processes": 8.1, "unknown": 0.7},
                    "gpus_pct": {"scheduled": 78.0, "processes": 9.5, "unknown": 0.4},
                },
                response_only=True,
            )
        ],
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """Of the work of the last hours, and of the GPUs, what a scheduler's jobs, other jobs and nobody known account for."""
        query = CoverageQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        span = timedelta(hours=query.validated_data["hours"])
        until = timezone.now()
        return Response(CoverageSerializer(_told(covered(until, span), until, span)).data)


def _told(found: Covered | None, until: Any, span: timedelta) -> dict[str, Any]:
    return {
        "since": until - span,
        "until": until,
        "minutes": found.minutes if found else 0,
        "busy_gpu_hours": found.busy_s / 3600 if found else None,
        "busy_pct": {whose: found.busy_pct(whose) if found else None for whose in WHOSE},
        "gpus_pct": {whose: found.gpus_pct(whose) if found else None for whose in WHOSE},
    }
