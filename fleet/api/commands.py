"""Commands to the agent of one node: asking for one, and what came of each."""

from typing import Any, Final

import django_filters
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers, status
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from fleet.accounts.models import User
from fleet.accounts.plain_text import plain_text
from fleet.api.asked import AskedSerializer, StrictQuery
from fleet.api.filters import Strict
from fleet.api.permissions import MayCommand
from fleet.api.problems import problem
from fleet.commands.asking import ask
from fleet.commands.models import LONGEST_S, STATES, TIMED, WHAT, Command
from fleet.inventory.models import Node


class CommandSerializer(serializers.ModelSerializer[Command]):
    """One command with its state.

    waiting: its node has not come; sent: its agent has it; done, refused: it answered; expired: it did not come, or did not
    answer, in time.
    """

    what = serializers.ChoiceField(choices=WHAT, read_only=True)
    state = serializers.ChoiceField(choices=STATES, read_only=True)

    class Meta:
        model = Command
        fields = (
            "id", "node", "node_name", "what", "seconds", "reason", "asked_by_name", "asked_at", "state", "answer",
            "expires_at", "sent_at", "answered_at",
        )  # fmt: skip
        read_only_fields = fields


class AskSerializer(AskedSerializer):
    """What to ask of the agent."""

    what = serializers.ChoiceField(choices=WHAT)
    seconds = serializers.IntegerField(
        required=False, min_value=1, max_value=LONGEST_S, help_text=f"How long it lasts; for {' and '.join(TIMED)} alone."
    )
    reason = serializers.CharField(max_length=300, validators=[plain_text], help_text="Why; it stays in the audit log.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The same; what lasts needs its seconds, what ends another takes none."""
        if attrs["what"] in TIMED and "seconds" not in attrs:
            raise serializers.ValidationError({"seconds": gettext("Say for how many seconds.")})
        if attrs["what"] not in TIMED and "seconds" in attrs:
            raise serializers.ValidationError({"seconds": gettext("This ends at once: leave the seconds out.")})
        return attrs


class CommandFilter(Strict):
    """Commands by what they ask and how they stand."""

    what = django_filters.ChoiceFilter(choices=[(word, word) for word in WHAT])
    state = django_filters.MultipleChoiceFilter(choices=[(word, word) for word in STATES])

    class Meta:
        model = Command
        fields: list[str] = []


_OF_NODE: Final = [OpenApiParameter("node_id", OpenApiTypes.INT64, OpenApiParameter.PATH, description="The node's id.")]
_UNKNOWN: Final = problem(401, "The caller is not known.") | problem(404, "No such node or command.")


@extend_schema_view(
    list=extend_schema(
        summary="List a node's commands",
        parameters=_OF_NODE,
        responses={200: CommandSerializer(many=True)} | problem(400, "What of the query does not fit.") | _UNKNOWN,
    ),
    retrieve=extend_schema(
        summary="One command and its state",
        parameters=[
            *_OF_NODE,
            OpenApiParameter("id", OpenApiTypes.INT64, OpenApiParameter.PATH, description="The command's id."),
        ],
        responses={200: CommandSerializer} | _UNKNOWN,
    ),
)
class CommandViewSet(StrictQuery, ListModelMixin, RetrieveModelMixin, GenericViewSet[Command]):
    """Commands to one node's agent, the newest first. An agent does only what its own setting `allow_commands` names."""

    serializer_class = CommandSerializer
    filterset_class = CommandFilter
    permission_classes = [IsAuthenticated, MayCommand]
    queryset = Command.objects.all()
    lookup_value_regex = "[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Command]:
        """Those of the node in the path; 404 where there is none."""
        if getattr(self, "swagger_fake_view", False):
            return super().get_queryset()
        return super().get_queryset().filter(node=get_object_or_404(Node, pk=self.kwargs["node_id"]))

    @extend_schema(
        summary="Ask something of a node's agent",
        parameters=_OF_NODE,
        request=AskSerializer,
        responses={201: CommandSerializer}
        | problem(400, "What of the request does not fit, by parameter.")
        | problem(403, "The caller may not ask.")
        | problem(413, "The request is too large.")
        | problem(409, "A command of this kind is under way for the node, or the node plays a recording.")
        | _UNKNOWN,
        examples=[
            OpenApiExample(
                "Before a profiler",
                {"what": "pause_profiling", "seconds": 1800, "reason": "Nsight Compute on job 4711"},
                request_only=True,
            )
        ],
    )
    def create(self, request: Request, node_id: str) -> Response:
        """Keep the command; the process that holds the agent's connection sends it at once, or as soon as the node comes.

        It expires where the node does not come, or does not answer, in time. A node has one open command of a kind.
        """
        node = get_object_or_404(Node, pk=node_id)
        asked = AskSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        assert isinstance(request.user, User)  # noqa: S101 - IsAuthenticated
        row = ask(
            node, asked.validated_data["what"], asked.validated_data.get("seconds"), asked.validated_data["reason"], request.user
        )
        return Response(CommandSerializer(row).data, status=status.HTTP_201_CREATED)
