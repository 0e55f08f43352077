"""What XIDs mean: the catalogue, and what the site says of a code."""

from typing import Any, Final

from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from advisor.finding import SEVERITIES
from fleet.accounts.models import User
from fleet.accounts.plain_text import plain_text
from fleet.api.asked import AskedSerializer, Query, StrictQuery
from fleet.api.permissions import MayTune
from fleet.api.problems import problem
from fleet.findings import xid_codes
from fleet.findings.xid_codes import FAULTS, Code
from fleet.tuning.models import XidOverride
from fleet.tuning.xid_changes import WantedXid, set_xid
from fleet.tuning.xids import KINDS, MATCHERS, RULES


class XidOverrideSerializer(serializers.ModelSerializer[XidOverride]):
    """What the site says of a code, and for what it holds; an empty rule or severity is the catalogue's."""

    matcher = serializers.ChoiceField(choices=MATCHERS, read_only=True)
    severity = serializers.ChoiceField(choices=SEVERITIES, allow_blank=True, read_only=True)

    class Meta:
        model = XidOverride
        fields = ("matcher", "pattern", "rule", "severity", "ignored", "by_name", "at", "comment")
        read_only_fields = fields


class XidSerializer(serializers.Serializer[Any]):
    """One code as it was shipped, and what the site says of it."""

    id = serializers.CharField(help_text="xid-31, or sxid-20034 of an NVSwitch.")
    kind = serializers.ChoiceField(choices=KINDS)
    code = serializers.IntegerField()
    meaning = serializers.CharField(help_text="Empty: the catalogue does not have it.")
    rule = serializers.CharField(help_text="The rule that it is evidence for; empty where it asks for nothing.")
    severity = serializers.ChoiceField(choices=SEVERITIES, allow_blank=True)
    fault = serializers.ChoiceField(choices=FAULTS, help_text="Where the fault is to be sought.")
    action = serializers.CharField(help_text="NVIDIA's name for what to do at once; empty: none is published.")
    with_others = serializers.BooleanField(help_text="It opens nothing unless another fault of the GPU is near.")
    since_driver = serializers.CharField(help_text="The first driver that has it, where that is after 515.")
    sources = serializers.ListField(child=serializers.CharField())
    events_30d = serializers.IntegerField(help_text="Events with it in the last thirty days.")
    overrides = XidOverrideSerializer(many=True)


class WantedXidSerializer(AskedSerializer):
    """An override as it is wanted."""

    matcher = serializers.ChoiceField(choices=MATCHERS, default="site")
    pattern = serializers.CharField(
        max_length=300, allow_blank=True, default="", validators=[plain_text],
        help_text="Of the GPU's model, the partition or the node's name; * stands for any characters. Empty for the site.",
    )  # fmt: skip
    rule = serializers.ChoiceField(choices=RULES, allow_blank=True, default="")
    severity = serializers.ChoiceField(choices=SEVERITIES, allow_blank=True, default="")
    ignored = serializers.BooleanField(default=False)
    removed = serializers.BooleanField(default=False, help_text="Take the override away.")


class XidChangeSerializer(AskedSerializer):
    """What the site says of a code; all or nothing."""

    overrides = WantedXidSerializer(many=True, allow_empty=False)
    comment = serializers.CharField(
        max_length=300, allow_blank=True, default="", validators=[plain_text], help_text="Why; it stays in the audit trail."
    )


class XidQuery(Query):
    """What the codes are narrowed by."""

    kind = serializers.ChoiceField(choices=KINDS, required=False)
    rule = serializers.CharField(required=False, max_length=60)
    fault = serializers.ChoiceField(choices=FAULTS, required=False)


_ID: Final = OpenApiParameter("id", OpenApiTypes.STR, OpenApiParameter.PATH, description="xid-31, or sxid-20034.")
_UNKNOWN: Final = problem(401, "The caller is not known.") | problem(404, "No such code.")


class XidViewSet(StrictQuery, ViewSet):
    """Every code that NVIDIA publishes, that came from a node, or of which the site said something."""

    permission_classes = [IsAuthenticated, MayTune]
    lookup_value_regex = "s?xid-[0-9]{1,9}"
    queries = {"list": XidQuery}
    serializer_class = XidSerializer

    @extend_schema(
        summary="List XIDs",
        operation_id="xids_list",
        parameters=[XidQuery],
        responses={200: XidSerializer(many=True)}
        | problem(400, "What of the query does not fit.")
        | problem(401, "The caller is not known."),
    )
    def list(self, request: Request) -> Response:
        """By kind and number, all on one page."""
        asked = self.query.items()
        found = [one for one in xid_codes.codes() if all(getattr(one, name) == value for name, value in asked)]
        return Response(XidSerializer(found, many=True).data)

    @extend_schema(summary="One XID", parameters=[_ID], responses={200: XidSerializer} | _UNKNOWN)
    def retrieve(self, request: Request, pk: str) -> Response:
        """What it means, and what the site says of it."""
        return Response(XidSerializer(_code(pk)).data)

    @extend_schema(
        summary="Say what an XID means here",
        parameters=[_ID],
        request=XidChangeSerializer,
        responses={200: XidSerializer}
        | problem(400, "What cannot be set so, in a sentence.")
        | problem(403, "The caller may not change rules.")
        | _UNKNOWN,
        examples=[
            OpenApiExample(
                "No alert for a code on one model",
                {"overrides": [{"matcher": "gpu_model", "pattern": "*L4*", "ignored": True}], "comment": "Known, harmless here."},
                request_only=True,
            ),
        ],
    )
    def partial_update(self, request: Request, pk: str) -> Response:
        """All of what is asked, or nothing; each change is a line of the audit trail. A code that nobody knows yet may be told of too."""
        kind, _, number = pk.partition("-")
        if not 0 < int(number) < 1 << 31:
            raise Http404
        asked = XidChangeSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        assert isinstance(request.user, User)  # noqa: S101 - IsAuthenticated
        said = asked.validated_data
        set_xid(kind, int(number), [WantedXid(**one) for one in said["overrides"]], request.user, said["comment"])
        return Response(XidSerializer(_code(pk)).data)


def _code(key: str) -> Code:
    found = next((one for one in xid_codes.codes() if one.id == key), None)
    if found is None:
        raise Http404
    return found
