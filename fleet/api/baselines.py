"""`/api/v1/jobs/{id}/baseline/`: a run of a job beside the earlier ones of its family. `/api/v1/power-floors/`: what cards draw here."""

from collections.abc import Sequence
from typing import Any

from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from fleet.api.asked import StrictQuery
from fleet.api.problems import problem
from fleet.jobs.models import Job
from fleet.slow import families
from fleet.slow.baselines import ENOUGH_RUNS, MEASURES, Baseline, Level
from fleet.slow.families import Compared
from fleet.slow.past_runs import Past
from fleet.slow.power import floors


class DifferenceSerializer(serializers.Serializer[Any]):
    """What is not the same in two runs: `driver`, `image`, `--batch-size`, `NCCL_P2P_DISABLE`, `nodes`."""

    what = serializers.CharField()
    before = serializers.CharField()
    since = serializers.CharField()


class RunSerializer(serializers.Serializer[Any]):
    """A run: its job as findings call it, and when it began."""

    job = serializers.CharField()
    started_at = serializers.DateTimeField()


class LevelSerializer(serializers.Serializer[Any]):
    """A change for good: the last run before it and the first with it, and the medians of both levels."""

    last = RunSerializer()
    first = RunSerializer()
    before = serializers.FloatField()
    since = serializers.FloatField()
    changed = DifferenceSerializer(many=True)


class DriftSerializer(serializers.Serializer[Any]):
    """By which factor the figure grew over `days` of the newest level, with its 95 % interval (Theil-Sen)."""

    days = serializers.FloatField()
    ratio = serializers.FloatField()
    low_ratio = serializers.FloatField()
    high_ratio = serializers.FloatField()
    is_sure = serializers.BooleanField(help_text="The interval leaves out that nothing drifts.")


class MeasureSerializer(serializers.Serializer[Any]):
    """One figure: the run's own, and the baseline of the earlier ones."""

    measure = serializers.ChoiceField(choices=[one.name for one in MEASURES])
    unit = serializers.CharField()
    value = serializers.FloatField(allow_null=True, help_text="The run's own; null while it has none.")
    ratio = serializers.FloatField(allow_null=True, help_text="Of the run's own to the median.")
    median = serializers.FloatField()
    mad = serializers.FloatField(help_text="1.4826 times the median absolute deviation.")
    runs = serializers.IntegerField(help_text="Earlier runs that tell it.")
    drift = DriftSerializer(allow_null=True)
    first_bad = RunSerializer(allow_null=True, help_text="The first run that is worse; null where the run is none.")
    last_good = RunSerializer(allow_null=True)
    bad_runs = serializers.IntegerField(help_text="Runs since the first bad one, it and this one included.")
    changed = DifferenceSerializer(many=True, help_text="Between the last good run and the first bad one.")
    levels = LevelSerializer(many=True)


class BaselineSerializer(serializers.Serializer[Any]):
    """A run beside the earlier ones of its family on as many GPUs of the same model. `reason` says why there is no baseline."""

    family = serializers.CharField()
    run = RunSerializer(allow_null=True, help_text="Null where no telemetry of the job was seen.")
    gpu_model = serializers.CharField(allow_null=True)
    gpus = serializers.IntegerField(allow_null=True)
    runs = serializers.IntegerField(help_text="Earlier runs that are alike.")
    reason = serializers.CharField(allow_blank=True)
    measures = MeasureSerializer(many=True)
    scaling_efficiency = serializers.FloatField(
        allow_null=True, help_text="Samples a second of each GPU, to those of the family's smallest runs (planner scaling)."
    )
    scaling_reference_gpus = serializers.IntegerField(allow_null=True)


class PowerFloorSerializer(serializers.Serializer[Any]):
    """What a model draws here, idle and busy: medians over GPUs and days. Null where too few GPUs or days tell it."""

    gpu_model = serializers.CharField()
    idle_w = serializers.FloatField(allow_null=True)
    idle_gpus = serializers.IntegerField()
    idle_days = serializers.IntegerField()
    busy_w = serializers.FloatField(allow_null=True)
    busy_gpus = serializers.IntegerField()
    busy_days = serializers.IntegerField()


class BaselineView(StrictQuery):
    """A job's run and its baseline."""

    @extend_schema(
        summary="A run of a job beside the earlier ones of its family",
        parameters=[OpenApiParameter("id", OpenApiTypes.INT64, OpenApiParameter.PATH, description="The run's id.")],
        responses={200: BaselineSerializer} | problem(404, "No such run.") | problem(401, "The caller is not known."),
    )
    def get(self, request: Request, id: str) -> Response:
        """Step time, throughput and energy: level, drift, since which run they are worse, and what changed with it."""
        job = get_object_or_404(Job, pk=id)
        run = families.run_of(job)
        if run is None:
            reason = gettext("No telemetry of this job was seen: an agent on its nodes tells of its processes.")
            return Response(BaselineSerializer(_nothing(job.family, reason)).data)
        return Response(BaselineSerializer(_told(families.of_run(run, timezone.now()))).data)


class PowerFloorsView(StrictQuery):
    """What cards draw here."""

    @extend_schema(
        summary="What GPUs of each model draw at this site, idle and busy",
        responses={200: PowerFloorSerializer(many=True)} | problem(401, "The caller is not known."),
    )
    def get(self, request: Request) -> Response:
        """Of the last two weeks; models of which nothing is known are left out."""
        told = [
            {
                "gpu_model": model, "idle_w": one.idle.watts, "idle_gpus": one.idle.gpus, "idle_days": one.idle.days,
                "busy_w": one.busy.watts, "busy_gpus": one.busy.gpus, "busy_days": one.busy.days,
            }
            for model, one in sorted(floors(timezone.now()).items())
        ]  # fmt: skip
        return Response(PowerFloorSerializer(told, many=True).data)


def _nothing(family: str, reason: str) -> dict[str, Any]:
    return {
        "family": family, "run": None, "gpu_model": None, "gpus": None, "runs": 0, "reason": reason, "measures": [],
        "scaling_efficiency": None, "scaling_reference_gpus": None,
    }  # fmt: skip


def _told(one: Compared) -> dict[str, Any]:
    reason = ""
    if not one.measures:
        says = gettext(
            "Earlier runs that are alike: {runs}. A baseline takes {enough}, each with reported steps for five minutes."
        )
        reason = says.format(runs=len(one.before), enough=ENOUGH_RUNS)
    return {
        "family": one.run.program, "run": _run(one.run), "gpu_model": one.run.gpu_model, "gpus": one.run.gpus,
        "runs": len(one.before), "reason": reason, "measures": [_measure(base, one) for base in one.measures],
        "scaling_efficiency": one.scaling_efficiency, "scaling_reference_gpus": one.scaling_reference_gpus,
    }  # fmt: skip


def _measure(base: Baseline, one: Compared) -> dict[str, Any]:
    return {
        "measure": base.measure.name, "unit": base.measure.unit, "value": base.value, "ratio": base.ratio, "median": base.median,
        "mad": base.mad, "runs": base.runs, "drift": base.drift, "first_bad": _run(base.first_bad), "last_good": _run(base.last_good),
        "bad_runs": base.bad_runs, "changed": _changed(base.last_good, base.first_bad, one),
        "levels": [_level(level, one) for level in base.levels],
    }  # fmt: skip


def _level(level: Level, one: Compared) -> dict[str, Any]:
    changed = _changed(level.last, level.first, one)
    return {
        "last": _run(level.last),
        "first": _run(level.first),
        "before": level.before,
        "since": level.after,
        "changed": changed,
    }


def _run(run: Past | None) -> dict[str, Any] | None:
    return {"job": run.job, "started_at": run.first_seen} if run is not None else None


def _changed(before: Past | None, since: Past | None, one: Compared) -> Sequence[dict[str, str]]:
    if before is None or since is None:
        return []
    found = one.differences.get((before.pk, since.pk), ())
    return [{"what": what, "before": old, "since": new} for what, old, new in found]
