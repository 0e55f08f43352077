"""Annotations: what a scheduler, a pipeline or a person tells of a target."""

import math
from datetime import datetime, timedelta
from typing import Any, Final

import django_filters
from django.core.exceptions import ValidationError as NotPlain
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers, status
from rest_framework.mixins import DestroyModelMixin, ListModelMixin, RetrieveModelMixin
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from advisor.annotations import BY_KEY, MAX_TEXT, NOTES, SCOPES, Note, fits
from fleet.accounts.models import User
from fleet.accounts.plain_text import plain_text
from fleet.annotations.models import MAX_TARGET, Annotation
from fleet.annotations.targets import wrong_target
from fleet.annotations.telling import tell
from fleet.api.asked import AskedSerializer, StrictQuery
from fleet.api.filters import Strict
from fleet.api.permissions import MayAnnotate
from fleet.api.problems import problem, rows

MOST: Final = 500
"""Annotations in one request."""
AHEAD: Final = timedelta(minutes=5)
"""Callers' clocks may be ahead of ours by less."""
YEARS: Final = range(1970, 2101)
_VALUE: Final[dict[str, Any]] = {"oneOf": [{"type": "number"}, {"type": "boolean"}, {"type": "string", "maxLength": 200}]}


@extend_schema_field(_VALUE)
class ValueField(serializers.JSONField):
    """A number, a boolean or a text."""

    def to_internal_value(self, data: Any) -> Any:
        """The value; ValidationError for a list, an object or null."""
        if not isinstance(data, bool | int | float | str):
            raise serializers.ValidationError(gettext("A value is a number, true or false, or a text."))
        return data


class AnnotationSerializer(serializers.ModelSerializer[Annotation]):
    """One annotation with who told it."""

    value = ValueField(read_only=True)

    class Meta:
        model = Annotation
        fields = ("id", "scope", "target", "key", "value", "at", "until", "by_name")
        read_only_fields = fields


class TellSerializer(AskedSerializer):
    """One annotation to keep; it replaces the one with the same scope, target and key."""

    scope = serializers.ChoiceField(choices=SCOPES)
    target = serializers.CharField(
        max_length=MAX_TARGET,
        validators=[plain_text],
        help_text="A job as the pages name it, a node's name, a serving engine as `node/address` or by its model, or `fleet`. "
        "Of jobs, nodes and services also a pattern with `*` and `?`.",
    )
    key = serializers.ChoiceField(choices=[note.key for note in NOTES])
    value = ValueField(help_text="What the key takes; docs/reference/annotations.md lists them.")
    at = serializers.DateTimeField(required=False, allow_null=True, default=None, help_text="When it was so; default: now.")
    until = serializers.DateTimeField(
        required=False, allow_null=True, default=None, help_text="From then on it counts no more; default: until it is deleted."
    )

    def validate_at(self, at: datetime | None) -> datetime | None:
        """The same; ValidationError for one in the future."""
        if at is not None and (at.year not in YEARS or at > timezone.now() + AHEAD):
            raise serializers.ValidationError(gettext("This is a time between 1970 and now."))
        return at

    def validate_until(self, until: datetime | None) -> datetime | None:
        """The same; ValidationError for one that the database could not hold."""
        if until is not None and until.year not in YEARS:
            raise serializers.ValidationError(gettext("This is a time between 1970 and 2100."))
        if until is not None and until <= timezone.now():
            says = gettext("This lies in the past, so the annotation would never count; to end one that counts, delete it.")
            raise serializers.ValidationError(says)
        return until

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The same; ValidationError where scope, target or value do not go with the key."""
        note = BY_KEY[attrs["key"]]
        if attrs["scope"] not in note.scopes:
            says = gettext("{key} goes with the scopes: {scopes}.").format(key=note.key, scopes=", ".join(note.scopes))
            raise serializers.ValidationError({"scope": says})
        if (wrong := wrong_target(attrs["scope"], attrs["target"])) is not None:
            raise serializers.ValidationError({"target": wrong})
        if attrs["until"] is not None and attrs["at"] is not None and attrs["until"] <= attrs["at"]:
            raise serializers.ValidationError({"until": gettext("It ends before it begins: until must lie after at.")})
        if isinstance(attrs["value"], str):
            plain_text_of(attrs["value"])
        if not fits(note, attrs["value"]):
            raise serializers.ValidationError({"value": _takes(note)})
        return attrs


def _once(told: list[dict[str, Any]]) -> None:
    """ValidationError where a list tells the same key of the same target twice: which of the two was meant, nobody can say."""
    first: dict[tuple[str, str, str], int] = {}
    wrong: dict[str, list[str]] = {}
    for place, one in enumerate(told):
        at = first.setdefault((one["scope"], one["target"], one["key"]), place)
        if at != place:
            says = gettext("{key} of {target} is told at place {first} of the list already; tell it once.")
            wrong[f"{place}.key"] = [says.format(key=one["key"], target=one["target"], first=at)]
    if wrong:
        raise serializers.ValidationError(wrong)


def _takes(note: Note) -> str:
    """A sentence that says what the key takes."""
    if note.kind == "word":
        return gettext("{key} takes one of: {words}.").format(key=note.key, words=", ".join(note.words))
    if note.kind == "boolean":
        return gettext("{key} takes true or false.").format(key=note.key)
    if note.kind == "text":
        return gettext("{key} takes a text of 1 to {most} characters.").format(key=note.key, most=MAX_TEXT)
    if note.whole:
        return gettext("{key} takes a whole number from {low:g} to {high:g}.").format(key=note.key, low=note.low, high=note.high)
    if math.isinf(note.high):
        return gettext("{key} takes a number from {low:g} up.").format(key=note.key, low=note.low)
    return gettext("{key} takes a number from {low:g} to {high:g}.").format(key=note.key, low=note.low, high=note.high)


def plain_text_of(value: str) -> None:
    """ValidationError under `value` for a text that is no plain line."""
    try:
        plain_text(value)
    except NotPlain as error:
        raise serializers.ValidationError({"value": error.messages}) from None


class AnnotationFilter(Strict):
    """Annotations by what they are told of; `current=true` leaves out those that count no more."""

    scope = django_filters.ChoiceFilter(choices=[(scope, scope) for scope in SCOPES])
    target = django_filters.CharFilter(help_text="The exact target, as it was told.")
    key = django_filters.ChoiceFilter(choices=[(note.key, note.key) for note in NOTES])
    current = django_filters.BooleanFilter(method="still")

    class Meta:
        model = Annotation
        fields: list[str] = []

    def still(self, rows: QuerySet[Annotation], name: str, value: bool) -> QuerySet[Annotation]:
        """Those that count now, or those that count no more."""
        over = Q(until__lte=timezone.now())
        return rows.exclude(over) if value else rows.filter(over)


_ID: Final = [OpenApiParameter("id", OpenApiTypes.INT64, OpenApiParameter.PATH, description="The annotation's id.")]
_UNKNOWN: Final = problem(401, "The caller is not known.")


@extend_schema_view(
    list=extend_schema(
        summary="List annotations",
        responses={200: AnnotationSerializer(many=True)} | problem(400, "What of the query does not fit.") | _UNKNOWN,
    ),
    retrieve=extend_schema(
        summary="One annotation",
        parameters=_ID,
        responses={200: AnnotationSerializer} | problem(404, "No such annotation.") | _UNKNOWN,
    ),
    destroy=extend_schema(
        summary="Delete an annotation",
        parameters=_ID,
        responses={204: None} | problem(403, "The caller may not write.") | problem(404, "No such annotation.") | _UNKNOWN,
    ),
)
class AnnotationViewSet(StrictQuery, ListModelMixin, RetrieveModelMixin, DestroyModelMixin, GenericViewSet[Annotation]):
    """What was told of targets that no sensor can know; rules read it as `note_KEY`."""

    serializer_class = AnnotationSerializer
    filterset_class = AnnotationFilter
    permission_classes = [IsAuthenticated, MayAnnotate]
    queryset = Annotation.objects.all()
    lookup_value_regex = "[0-9]{1,18}"

    @extend_schema(
        summary="Tell annotations",
        request=TellSerializer(many=True),
        responses={200: rows("Annotation", "All replaced others."), 201: rows("Annotation", "Some are new.")}
        | problem(400, "What of the request does not fit, by parameter.")
        | problem(403, "The caller may not write.")
        | problem(409, "The site holds as many annotations as it may.")
        | problem(413, "The request is too large.")
        | _UNKNOWN,
        examples=[
            OpenApiExample(
                "A prolog of Slurm",
                [{"scope": "node", "target": "gpu-12", "key": "expected_gpus", "value": 8}],
                request_only=True,
            )
        ],
    )  # fmt: skip
    def create(self, request: Request) -> Response:
        """Keep a list of annotations, all or none; one may be sent without the list. One with the same scope, target and key is replaced;
        a list that tells the same scope, target and key twice is refused.

        201 when some are new, 200 when all replaced others; sending the same again changes nothing but its time.
        """
        many = request.data if isinstance(request.data, list) else [request.data]
        if not 1 <= len(many) <= MOST:
            raise serializers.ValidationError({"body": [gettext("Send 1 to {most} annotations.").format(most=MOST)]})
        told = [TellSerializer(data=one) for one in many]
        wrong = {
            name if many is not request.data else f"{place}.{name}": says
            for place, one in enumerate(told)
            if not one.is_valid()
            for name, says in one.errors.items()
        }
        if wrong:
            raise serializers.ValidationError(wrong)
        assert isinstance(request.user, User)  # noqa: S101 - IsAuthenticated
        _once([one.validated_data for one in told])
        kept, made = tell([one.validated_data for one in told], request.user)
        code = status.HTTP_201_CREATED if made else status.HTTP_200_OK
        return Response(AnnotationSerializer(kept, many=True).data, status=code)
