"""`/api/v1/placements/`: where a job's GPUs could be had now, for schedulers and people."""

from typing import Any, Final

from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from fleet.accounts.plain_text import plain_text
from fleet.api.asked import Query, StrictQuery
from fleet.api.problems import problem
from fleet.health.needs import WHYS, Answer, LeftOut, Place, Wanted
from fleet.health.placement import place
from fleet.health.signs import STATES

_TEXTS: Final = {
    "model": _("They have too few GPUs of this model."),
    "unknown": _("Their agents are silent: their state is unknown."),
    "drain": _("They should be taken out of service; their health says why."),
    "avoid": _("They, or too many of their GPUs, should be avoided; their health says why. healthy=false lets them in."),
    "nvlink": _("NVLink does not join so many of their GPUs, or nobody knows which ones: bridges join cards in pairs."),
    "held": _("Jobs hold too many of their GPUs."),
    "busy": _("Processes are seen on GPUs that no job was given."),
    "power": _("Too few of their free GPUs are known to have so much power left."),
}
assert set(_TEXTS) == set(WHYS)  # noqa: S101 - each has a sentence


class PlacementQuery(Query):
    """What a job needs on each node."""

    gpus = serializers.IntegerField(min_value=1, max_value=1024, default=1, help_text="Free GPUs on one node.")
    model = serializers.CharField(max_length=100, default="", validators=[plain_text], help_text="A part of the model's name.")
    one_nvlink_domain = serializers.BooleanField(default=False, help_text="NVLink joins all of them.")
    healthy = serializers.BooleanField(
        default=True, help_text="false: those to avoid too. Never those to drain, nor those unknown."
    )
    power_headroom_w = serializers.FloatField(
        min_value=0, max_value=10_000, required=False, help_text="What each may draw more than now, up to its limit."
    )
    limit = serializers.IntegerField(min_value=1, max_value=100, default=10, help_text="Places at most.")


class FreeGpuSerializer(serializers.Serializer[Any]):
    """A GPU to take."""

    gpu = serializers.IntegerField()
    index = serializers.IntegerField()
    uuid = serializers.CharField()
    model = serializers.CharField()
    numa_node = serializers.IntegerField(allow_null=True)


class PlaceSerializer(serializers.Serializer[Any]):
    """A node that fits."""

    node = serializers.IntegerField()
    node_name = serializers.CharField()
    recording = serializers.CharField(allow_blank=True)
    state = serializers.ChoiceField(choices=STATES)
    free_total = serializers.IntegerField(help_text="Free GPUs of the node that would do.")
    power_headroom_w = serializers.FloatField(
        allow_null=True, help_text="The least of the GPUs'; null where it was not asked for."
    )
    gpus = FreeGpuSerializer(many=True)
    reasons = serializers.ListField(child=serializers.CharField())


class LeftOutSerializer(serializers.Serializer[Any]):
    """Nodes that do not fit, of one reason."""

    why = serializers.ChoiceField(choices=WHYS)
    text = serializers.CharField()
    nodes_total = serializers.IntegerField()
    nodes = serializers.ListField(child=serializers.CharField(), help_text="The first of them by name.")


class PlacementsSerializer(serializers.Serializer[Any]):
    """The best places first, and why the other nodes are none."""

    places = PlaceSerializer(many=True)
    fits_total = serializers.IntegerField(
        help_text="Nodes that would do; processes and power are looked at for the best of them alone."
    )
    left_out = LeftOutSerializer(many=True)
    at = serializers.DateTimeField()


class PlacementsView(StrictQuery):
    """Where a job could run now."""

    also_read_by = ("health", "jobs")
    queries = {"get": PlacementQuery}

    @extend_schema(
        operation_id="placements_retrieve",
        summary="Where a job's GPUs could be had now",
        parameters=[PlacementQuery],
        responses={200: PlacementsSerializer}
        | problem(400, "What of the query does not fit.")
        | problem(401, "The caller is not known.")
        | problem(403, "The token's scopes do not reach so far.")
        | problem(503, "The store of telemetry does not answer."),
    )
    def get(self, request: Request) -> Response:
        """Nodes ranked: usable ones first, then those on which the fewest free GPUs would be left over. Nothing is reserved."""
        at = timezone.now()
        answer: Answer = place(Wanted(**self.query), at)
        return Response(
            {
                "places": [*map(_place, answer.places)],
                "fits_total": answer.fits_total,
                "left_out": [*map(_left_out, answer.left_out)],
                "at": at,
            }
        )


def _place(one: Place) -> dict[str, Any]:
    gpus = [
        {"gpu": gpu.pk, "index": gpu.index, "uuid": gpu.uuid, "model": gpu.model, "numa_node": gpu.numa_node} for gpu in one.gpus
    ]
    return {
        "node": one.node.pk,
        "node_name": one.node.name,
        "recording": one.node.recording,
        "state": one.state,
        "free_total": one.free_total,
        "power_headroom_w": None if one.power_headroom_w is None else round(one.power_headroom_w, 1),
        "gpus": gpus,
        "reasons": list(one.reasons),
    }


def _left_out(one: LeftOut) -> dict[str, Any]:
    return {"why": one.why, "text": str(_TEXTS[one.why]), "nodes_total": one.nodes_total, "nodes": one.nodes}
