"""The planners: what each takes, and what each says of what it is given. Formulas alone: no row is read."""

from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound, ParseError, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from advisor.planners.answer import Answer, answer, read
from advisor.planners.inputs import InputError
from advisor.planners.planner import Planner, Shown
from fleet import planning
from fleet.api.asked import Query, StrictQuery
from fleet.api.bodies import Json
from fleet.api.problems import problem
from fleet.inventory.site_card import card_of


class AnyNumbers(Json):
    """JSON in which NaN and Infinity are read too, so that what refuses them can name the input that they were given for."""

    strict = False


class InputSerializer(serializers.Serializer[Any]):
    """One input of a planner; numbers are plain, in `unit`."""

    name = serializers.CharField()
    about = serializers.CharField()
    kind = serializers.CharField(help_text="number, whole, choice, words or flag.")
    unit = serializers.CharField()
    needed = serializers.BooleanField(help_text="Must be given, unless a card tells it.")
    default = serializers.JSONField(allow_null=True)
    minimum = serializers.FloatField(allow_null=True)
    maximum = serializers.FloatField(allow_null=True)
    slider = serializers.ListField(child=serializers.FloatField(), allow_null=True, help_text="The usual range.")
    choices = serializers.ListField(child=serializers.CharField())
    suggested = serializers.ListField(child=serializers.CharField())
    of_card = serializers.BooleanField(help_text="The card table tells it, where `card` names a GPU.")


class PlannerSerializer(serializers.Serializer[Any]):
    """A planner and what it takes; `example` is a worked one, with units as they may be typed."""

    id = serializers.CharField()
    title = serializers.CharField()
    about = serializers.CharField()
    formula = serializers.ListField(child=serializers.CharField())
    assumptions = serializers.ListField(child=serializers.CharField())
    sources = serializers.ListField(child=serializers.CharField())
    inputs = InputSerializer(many=True)
    example = serializers.DictField(child=serializers.CharField())


class LineSerializer(serializers.Serializer[Any]):
    """One line of a result: `value` is plain, in `unit`, null where it does not apply; `text` is what people read."""

    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment] # a field of the answer, not DRF's own label of a serializer
    unit = serializers.CharField()
    value = serializers.JSONField(allow_null=True)
    text = serializers.CharField()


class PlanSerializer(serializers.Serializer[Any]):
    """A plan: what was planned with, the result, what to be careful of, and what it rests on."""

    planner = serializers.CharField()
    input = serializers.DictField(help_text="What was given, what a card told, and defaults.")
    results = LineSerializer(many=True)
    lines = serializers.ListField(child=serializers.CharField(), help_text="The results that apply, as a person reads them.")
    warnings = serializers.ListField(child=serializers.CharField())
    notes = serializers.ListField(child=serializers.CharField(), help_text="What a card told, and the planner's assumptions.")


class NoInputs(Query):
    """Inputs in the address would be left out in silence."""

    takes_none = _("The address takes no parameter {name}: send the inputs by POST, as one JSON object.")


class PlannersView(StrictQuery):
    """The planners."""

    queries = {"get": NoInputs}

    @extend_schema(
        operation_id="planners_list",
        summary="List planners",
        responses={200: PlannerSerializer(many=True)} | problem(401, "The caller is not known."),
    )
    def get(self, request: Request) -> Response:
        """Every planner with its inputs, by name."""
        return Response([_described(planner) for planner in planning.planners().values()])


_ID: Final = [OpenApiParameter("id", OpenApiTypes.STR, OpenApiParameter.PATH, description="The planner's id.")]
_UNKNOWN: Final = problem(401, "The caller is not known.") | problem(404, "There is no such planner.")


class PlannerView(StrictQuery):
    """One planner."""

    parser_classes = [AnyNumbers]
    queries = {"get": NoInputs, "post": NoInputs}

    @extend_schema(summary="One planner and what it takes", parameters=_ID, responses={200: PlannerSerializer} | _UNKNOWN)
    def get(self, request: Request, id: str) -> Response:
        """Its inputs with kind, unit, default, bounds and choices."""
        planner = _named(id)
        return Response(_described(planner))

    @extend_schema(
        summary="Plan",
        parameters=_ID,
        request=OpenApiTypes.OBJECT,
        responses={200: PlanSerializer}
        | problem(400, "What of the inputs cannot be, by input.")
        | problem(413, "The request is too large.")
        | _UNKNOWN,
        examples=[
            OpenApiExample(
                "How often a job of 1,024 GPUs should save", {"gpus": 1024, "stall_s": "60s", "restart_s": 600}, request_only=True
            )
        ],
    )
    def post(self, request: Request, id: str) -> Response:
        """The plan for one JSON object of inputs by name. Nothing is kept.

        Numbers are plain, in the unit of their input, or text with another unit: `"80GiB"`, `"12ms"`.
        """
        planner = _named(id)
        given = request.data
        if not isinstance(given, Mapping):
            raise ParseError(gettext("Send the inputs as one JSON object, by name."))
        values, wrong = read(planner, given)
        if wrong:
            raise ValidationError({name: [planning.refusal(error)] for name, error in wrong.items()})
        try:
            said = answer(planner, values, card_of(planner))
        except InputError as error:
            if error.name:
                raise ValidationError({error.name: [planning.refusal(error)]}) from None
            raise ParseError(planning.refusal(error)) from None
        return Response(_plan(planner, values, said))


def _named(name: str) -> Planner:
    planner = planning.planners().get(name)
    if planner is None:
        says = gettext("There is no planner {name}; there are {known}.")
        raise NotFound(says.format(name=name[:60], known=", ".join(planning.planners())))
    return planner


def _described(planner: Planner) -> dict[str, Any]:
    return {
        "id": planner.name,
        "title": planning.told(planner.title),
        "about": planning.told(planner.about),
        "formula": [planning.told(text) for text in planner.formula],
        "assumptions": [planning.told(text) for text in planner.assumptions],
        "sources": planner.sources,
        "inputs": [planning.described(one) for one in planner.accepted],
        "example": dict(planner.example),
    }


def _plan(planner: Planner, values: Mapping[str, Any], said: Answer) -> dict[str, Any]:
    results = [_line(line) for line in said.lines]
    return {
        "planner": planner.name,
        "input": {**values, **said.taken},
        "results": results,
        "lines": [f"{line['label']}: {line['text']}" for line in results if line["text"]],
        "warnings": [planning.sentence(text) for text in said.cautions],
        "notes": planning.of_card(said) + [planning.told(text) for text in planner.assumptions],
    }


def _line(line: Shown) -> dict[str, Any]:
    shown = planning.reading(line)
    return {
        "name": line.name,
        "label": planning.told(line.label),
        "unit": "" if line.unit in ("words", "flag", "sentences") else line.unit,
        "value": shown if line.unit == "sentences" else line.plain,
        "text": " ".join(shown) if isinstance(shown, list) else shown or "",
    }
