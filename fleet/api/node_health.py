"""Health of nodes and GPUs, for schedulers: one word, with why and how old it is."""

from typing import Any, Final

from django.db.models import F
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from fleet.api.asked import Query, StrictQuery
from fleet.api.etags import Tagged
from fleet.api.pagination import Page
from fleet.api.problems import problem
from fleet.health import states
from fleet.health.signs import STATES, Sign
from fleet.health.states import Health, NodeHealth
from fleet.inventory.models import Gpu, Node
from fleet.jobs.devices import DeviceError
from fleet.jobs.hosts import hosts, nodes
from fleet.jobs.models import Allocation


class ReasonSerializer(serializers.Serializer[Any]):
    """What speaks against it. `rule` and `finding` of a finding, `event` of an event; neither of silence or of a note."""

    state = serializers.ChoiceField(choices=STATES, help_text="What this reason alone would make of it.")
    rule = serializers.CharField(allow_null=True)
    finding = serializers.IntegerField(allow_null=True)
    event = serializers.CharField(allow_null=True)
    text = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)


class HealthSerializer(serializers.Serializer[Any]):
    """usable: nothing speaks against it. avoid: it works, and worse than it should. drain: take it out of service. unknown: nothing is
    known of it now; what is stale is unknown, never usable."""

    state = serializers.ChoiceField(choices=STATES)
    reasons = ReasonSerializer(many=True, help_text="The worst first.")
    since = serializers.DateTimeField(
        allow_null=True, help_text="When the oldest reason for the state began; null where not known."
    )
    age_s = serializers.FloatField(allow_null=True, help_text="How old the newest reading is; null where there never was one.")


class GpuHealthSerializer(HealthSerializer):
    """Of one GPU or MIG instance, which shares the reasons of its card."""

    gpu = serializers.IntegerField()
    index = serializers.IntegerField()
    uuid = serializers.CharField()
    model = serializers.CharField()
    node = serializers.IntegerField()
    node_name = serializers.CharField()


class NodeHealthSerializer(HealthSerializer):
    """Of one node: no better than the worst of its GPUs. `node` is null where no agent ever told of it."""

    node = serializers.IntegerField(allow_null=True)
    name = serializers.CharField()
    recording = serializers.CharField(allow_blank=True, help_text="The recording being played; empty for a real machine.")
    gpus = GpuHealthSerializer(many=True)


_REASON: Final = ("state", "rule", "finding", "event", "text", "since")


def _reason(sign: Sign) -> dict[str, Any]:
    return {name: getattr(sign, name) or None for name in _REASON}


def _health(health: Health) -> dict[str, Any]:
    age_s = None if health.age_s is None else round(health.age_s, 1)
    return {"state": health.state, "reasons": [*map(_reason, health.reasons)], "since": health.since, "age_s": age_s}


def _gpu(gpu: Gpu, health: Health, name: str) -> dict[str, Any]:
    place = {"gpu": gpu.pk, "index": gpu.index, "uuid": gpu.uuid, "model": gpu.model, "node": gpu.node_id, "node_name": name}
    return place | _health(health)


def _node(one: NodeHealth) -> dict[str, Any]:
    place = {
        "node": None if one.node is None else one.node.pk,
        "name": one.name,
        "recording": "" if one.node is None else one.node.recording,
    }
    there = [(gpu, health) for gpu, health in one.gpus if gpu.present or health.state == "drain"]
    return place | _health(one.health) | {"gpus": [_gpu(gpu, health, one.name) for gpu, health in there]}


class HealthQuery(Query):
    """Which nodes."""

    nodes = serializers.CharField(
        required=False, max_length=20_000, help_text="Names with commas, or Slurm's ranges: gpu[01-04,7]."
    )
    cluster = serializers.CharField(
        required=False, max_length=100, help_text="Nodes of which this cluster's jobs hold devices, or held."
    )
    page = serializers.CharField(required=False)
    page_size = serializers.CharField(required=False)

    def validate_nodes(self, told: str) -> tuple[str, ...]:
        """The single names; ValidationError for what is no list of nodes."""
        try:
            return hosts(told)
        except DeviceError as error:
            raise serializers.ValidationError(str(error)) from None


class _HealthView(Tagged, StrictQuery):
    """Whoever may place jobs may read it."""

    also_read_by = ("health", "jobs")


_REFUSED: Final = problem(401, "The caller is not known.") | problem(403, "The token's scopes do not reach so far.")


class FleetHealthView(_HealthView):
    """The health of many nodes."""

    queries = {"get": HealthQuery}
    pagination_class = Page

    @extend_schema(
        operation_id="health_list",
        summary="Health of many nodes",
        parameters=[HealthQuery],
        responses={200: NodeHealthSerializer(many=True), 304: None} | problem(400, "What of the query does not fit.") | _REFUSED,
    )
    def get(self, request: Request) -> Response:
        """Nodes by name. One that `nodes` names and no agent ever told of is unknown, and not left out."""
        asked = self.query
        names = asked.get("nodes")
        rows = Node.objects.order_by("name")
        if "cluster" in asked:
            held = Allocation.objects.filter(job__cluster=asked["cluster"]).exclude(node=None)
            rows = rows.filter(pk__in=held.values("node"))
        paginator = Page()
        if names is None:
            there = paginator.paginate_queryset(rows, request, view=self) or []
            return paginator.get_paginated_response([*map(_node, states.of_nodes(there, timezone.now()))])
        page: list[str] = paginator.paginate_queryset(names, request, view=self) or []
        meant = nodes(page)
        if "cluster" in asked:
            within = set(rows.filter(pk__in=[node.pk for node in meant.values()]).values_list("pk", flat=True))
            meant = {name: node for name, node in meant.items() if node.pk in within}
            page = [name for name in page if name in meant]
        found = {one.name: one for one in states.of_nodes([*meant.values()], timezone.now())}
        told = [found[meant[name].name] if name in meant else states.unheard(name) for name in page]
        return paginator.get_paginated_response([*map(_node, told)])


class NodeHealthView(_HealthView):
    """The health of one node."""

    @extend_schema(
        operation_id="nodes_health_retrieve",
        summary="Health of a node",
        parameters=[OpenApiParameter("id", OpenApiTypes.STR, OpenApiParameter.PATH, description="The node's id, or its name.")],
        responses={200: NodeHealthSerializer, 304: None} | problem(404, "No such node.") | _REFUSED,
    )
    def get(self, request: Request, id: str) -> Response:
        """The node with its GPUs."""
        if id.isdigit():
            node = get_object_or_404(Node, pk=int(id))
        else:
            found = nodes([id]).get(id)
            if found is None:
                raise Http404(gettext("No agent has told of the node {name}.").format(name=id))
            node = found
        return Response(_node(states.of_nodes([node], timezone.now())[0]))


class GpuHealthView(_HealthView):
    """The health of one GPU."""

    @extend_schema(
        operation_id="gpus_health_retrieve",
        summary="Health of a GPU",
        parameters=[OpenApiParameter("id", OpenApiTypes.STR, OpenApiParameter.PATH, description="The GPU's id, or its UUID.")],
        responses={200: GpuHealthSerializer, 304: None} | problem(404, "No such GPU.") | _REFUSED,
    )
    def get(self, request: Request, id: str) -> Response:
        """Of the GPU itself; its node's own troubles are the node's."""
        rows = Gpu.objects.select_related("node")
        if id.isdigit():
            gpu = get_object_or_404(rows, pk=int(id))
        else:  # clones of a machine share UUIDs: the one that was told of last
            newest = rows.filter(uuid__iexact=id).order_by("-present", F("node__last_seen_at").desc(nulls_last=True)).first()
            if newest is None:
                raise Http404(gettext("No agent has told of the GPU {uuid}.").format(uuid=id))
            gpu = newest
        (node,) = states.of_nodes([gpu.node], timezone.now())
        (health,) = [health for one, health in node.gpus if one.pk == gpu.pk]
        return Response(_gpu(gpu, health, gpu.node.name))


NODE: Final = r"(?P<id>[0-9]{1,18}|[A-Za-z0-9][A-Za-z0-9._-]{0,199})"
GPU: Final = r"(?P<id>[0-9]{1,18}|(?:GPU|MIG)-[A-Za-z0-9/-]{1,80})"
