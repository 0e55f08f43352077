"""`/api/v1/jobs/{id}/report/`: how a job used what it held, what held it back, and what was found."""

from datetime import UTC, datetime
from typing import Any

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from fleet.api.asked import StrictQuery
from fleet.api.etags import Tagged
from fleet.api.job_rows import JobSerializer
from fleet.api.problems import problem
from fleet.api.serializers import FindingSerializer
from fleet.jobs.models import Job
from fleet.reports import words
from fleet.reports.happened import findings
from fleet.reports.summaries import report


class QuantilesSerializer(serializers.Serializer[Any]):
    """Of all the time of all its GPUs: shares from 0 to 1, step times in seconds."""

    p5 = serializers.FloatField()
    p25 = serializers.FloatField()
    p50 = serializers.FloatField()
    p75 = serializers.FloatField()
    p95 = serializers.FloatField()


class BinSerializer(serializers.Serializer[Any]):
    """One stretch of the timeline, of which `judged_s` seconds of `gpus` GPUs were judged; an empty bottleneck: too little was measured."""

    at = serializers.DateTimeField()
    seconds = serializers.IntegerField()
    own_s = serializers.IntegerField(
        allow_null=True, help_text="GPU seconds that were its own; null: of a report made before this was kept."
    )
    shared_s = serializers.IntegerField(help_text="GPU seconds that other jobs held too: what was read then is in no bin.")
    judged_s = serializers.FloatField()
    gpus = serializers.IntegerField()
    bottleneck = serializers.CharField(allow_blank=True)
    confidence = serializers.CharField(allow_blank=True)
    shares = serializers.DictField(child=serializers.FloatField())
    busy = serializers.DictField(
        child=serializers.FloatField(),
        help_text="p5, p50 and p95 over its GPUs of the part of the time that their engine had work.",
    )


class RankSerializer(serializers.Serializer[Any]):
    """One GPU of the job."""

    gpu = serializers.IntegerField()
    node = serializers.CharField()
    index = serializers.IntegerField()
    step_time_s = serializers.FloatField(allow_null=True, help_text="The median; null: it reported no steps.")
    busy = serializers.FloatField(allow_null=True, help_text="The median of its engine's time.")


class SpreadSerializer(serializers.Serializer[Any]):
    """How the ranks differ, by step time where most report one, else by how busy their engine is."""

    by = serializers.ChoiceField(choices=("step_time_s", "busy"))
    ranks = serializers.IntegerField()
    low = serializers.FloatField()
    p50 = serializers.FloatField()
    high = serializers.FloatField()
    ratio = serializers.FloatField(allow_null=True, help_text="high / low; null: the low one is 0.")
    rows = RankSerializer(many=True, help_text="The slowest first; of many ranks the eight slowest and the eight fastest.")


class JobEventSerializer(serializers.Serializer[Any]):
    """What happened to one of its GPUs, or to one of its nodes."""

    at = serializers.DateTimeField()
    kind = serializers.CharField()
    code = serializers.IntegerField(allow_null=True)
    severity = serializers.CharField(allow_blank=True)
    node = serializers.CharField()
    gpu = serializers.IntegerField(allow_null=True)
    index = serializers.IntegerField(allow_null=True)
    text = serializers.CharField(help_text="All of it in a line.")


class DeviceSerializer(serializers.Serializer[Any]):
    """A device as its scheduler names it."""

    node = serializers.CharField()
    device = serializers.CharField()


class IdleFloorSerializer(serializers.Serializer[Any]):
    """What idle cards of one model draw at this site, learned from its hours: the median of the days, and the middle half of them."""

    model = serializers.CharField()
    watts = serializers.FloatField()
    low_w = serializers.FloatField()
    high_w = serializers.FloatField()
    gpus = serializers.IntegerField(help_text="How many it rests on.")
    days = serializers.IntegerField()


class JobReportSerializer(serializers.Serializer[Any]):
    """The report of one job. What was not measured is null, and `absent` says why; shared devices count in `shared_gpu_hours` alone."""

    job = JobSerializer()
    made_at = serializers.DateTimeField()
    is_final = serializers.BooleanField(help_text="It is not made anew any more.")
    telemetry_aged_out = serializers.BooleanField(
        help_text="The store has no readings of the job any more; this is what was kept."
    )
    outdated_since = serializers.DateTimeField(
        allow_null=True,
        help_text="When something else was told of what it held, after its telemetry had aged out; null: it held what the report says.",
    )
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    gpus = serializers.IntegerField(help_text="Devices that were its own.")
    models = serializers.ListField(child=serializers.CharField())
    nodes = serializers.ListField(child=serializers.CharField(), help_text="The first 64.")
    nodes_total = serializers.IntegerField()
    gpu_hours = serializers.FloatField()
    shared_gpu_hours = serializers.FloatField(help_text="Of devices that other jobs held too: in no other figure.")
    unknown_gpu_hours = serializers.FloatField(help_text="Within gpu_hours, of devices that no agent told of.")
    idle_gpu_hours = serializers.FloatField(
        allow_null=True, help_text="Its engine did nothing for `resolution_s` seconds or longer."
    )
    unheld_gpu_hours = serializers.FloatField(allow_null=True, help_text="Of these, nobody held memory on the GPU either.")
    coverage = serializers.FloatField(help_text="The part of its GPU time that has readings, from 0 to 1.")
    resolution_s = serializers.IntegerField(help_text="Quantiles and idle hours are of means over so many seconds.")
    energy_j = serializers.FloatField(allow_null=True)
    energy_coverage = serializers.FloatField(help_text="The part of its GPU time that `energy_j` is of, from 0 to 1.")
    idle_power_w = serializers.FloatField(
        allow_null=True, help_text="What its GPUs drew on average while idle; null: not read, or never idle."
    )
    idle_power_floors = IdleFloorSerializer(many=True, help_text="Of each of its models that was idle, when the report was made.")
    idle_energy_low_j = serializers.FloatField(
        allow_null=True,
        help_text="Idle hours by the low bound of the models' floors: energy of which it made nothing; null: a floor is not known.",
    )
    idle_energy_high_j = serializers.FloatField(allow_null=True, help_text="As idle_energy_low_j, by the high bound.")
    energy_of_module = serializers.BooleanField(help_text="Some of its energy is that of superchips, their CPUs included.")
    price = serializers.FloatField(allow_null=True, help_text="Of a GPU-hour, when the report was made.")
    cost = serializers.FloatField(allow_null=True)
    currency = serializers.CharField(allow_null=True)
    quantiles = serializers.DictField(
        child=QuantilesSerializer(),
        help_text="By busy, sm_active, tensor_active, dram_active, step_time_s, as far as they are known.",
    )
    bottleneck = serializers.CharField(allow_blank=True)
    confidence = serializers.CharField(allow_blank=True)
    shares = serializers.DictField(child=serializers.FloatField())
    bin_s = serializers.IntegerField()
    timeline = BinSerializer(many=True)
    ranks = SpreadSerializer(allow_null=True)
    samples_per_s = serializers.FloatField(allow_null=True)
    tokens_per_s = serializers.FloatField(allow_null=True)
    mfu = serializers.FloatField(
        allow_null=True, help_text="The model's own operations over the dense peak of its GPUs, from 0 to 1."
    )
    shared = DeviceSerializer(many=True, help_text="The first 64.")
    shared_total = serializers.IntegerField()
    unknown = DeviceSerializer(many=True, help_text="Devices that no agent told of, the first 64.")
    unknown_total = serializers.IntegerField()
    events = JobEventSerializer(many=True, help_text="The first 200.")
    events_total = serializers.IntegerField()
    findings = FindingSerializer(many=True, help_text="The strongest 100, those that are over too; `advice` has the verdict.")
    absent = serializers.DictField(child=serializers.CharField(), help_text="Why a part is not there, by its name.")


_SAME = (
    "gpus", "models", "nodes", "nodes_total", "gpu_hours", "shared_gpu_hours", "unknown_gpu_hours", "idle_gpu_hours", "unheld_gpu_hours",
    "coverage", "resolution_s", "energy_j", "energy_coverage", "energy_of_module", "price", "currency", "quantiles", "bottleneck",
    "confidence", "shares", "bin_s", "ranks", "samples_per_s", "tokens_per_s", "mfu", "shared_total", "unknown_total", "events_total",
)  # fmt: skip


class JobReportView(Tagged, StrictQuery):
    """One job's report."""

    permission_classes = [IsAuthenticated]

    @extend_schema(
        summary="Report of a run",
        parameters=[OpenApiParameter("id", OpenApiTypes.INT64, OpenApiParameter.PATH, description="The run's id.")],
        responses={200: JobReportSerializer, 304: None}
        | problem(404, "No such run.")
        | problem(401, "The caller is not known.")
        | problem(503, "Nothing is kept of it yet, and the store of telemetry does not answer."),
    )
    def get(self, request: Request, id: str) -> Response:
        """What it held and how well it used that, what held it back and when, what happened and what to change.

        It is kept for good when the job has ended: readings that age out later change nothing in it.
        """
        job = get_object_or_404(Job, pk=id)
        return Response(answer(job))


def answer(job: Job) -> dict[str, Any]:
    """The report as the API shows it, in the language of the request."""
    found = report(job, timezone.now())
    told = found.document
    price = told["price"]
    return {
        "job": JobSerializer(job).data,
        "made_at": found.made_at,
        "is_final": found.final,
        "telemetry_aged_out": found.aged_out,
        "outdated_since": found.outdated_since,
        "since": _moment(told["since"]),
        "until": _moment(told["until"]),
        **{name: told[name] for name in _SAME},
        **{name: told.get(name) for name in ("idle_power_w", "idle_energy_low_j", "idle_energy_high_j")},
        "idle_power_floors": told.get("idle_power_floors", []),
        "cost": None if price is None else round(told["gpu_hours"] * price, 4),
        "timeline": [{"own_s": None, "shared_s": 0, **one, "at": _moment(one["at"])} for one in told["bins"]],
        **{name: [{"node": node, "device": device} for node, device in told[name]] for name in ("shared", "unknown")},
        "events": [{**one, "text": _line(one)} for one in told["events"]],
        "findings": FindingSerializer(findings(job, told["findings"]), many=True).data,
        "absent": {name: words.why(slug) for name, slug in told["absent"].items()},
    }


def _moment(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def _line(event: dict[str, Any]) -> str:
    """`XID 79, n1 GPU 0: what its source says`."""
    code = "" if event["code"] is None else f" {event['code']}"
    kind = event["kind"].upper() if event["kind"] in ("xid", "sxid", "ecc", "oom") else event["kind"].replace("_", " ")
    where = event["node"] + ("" if event["index"] is None else f" GPU {event['index']}")
    return f"{kind}{code}, {where}{': ' if event['text'] else ''}{event['text']}"
