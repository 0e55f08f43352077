"""What a request for series asks for, checked."""

import time
from datetime import UTC, datetime
from typing import Any, Final

from django.conf import settings
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from fleet.api.asked import Query
from fleet.inventory.models import Engine, Gpu, Node
from fleet.store.series import rounded
from wire import metrics

MAX_POINTS: Final = 11_000
MAX_METRICS: Final = 50
DEFAULT_SPAN_S: Final = 3600
DEFAULT_POINTS: Final = 720
LAST_TS: Final = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp())


@extend_schema_field(OpenApiTypes.STR)
class Moment(serializers.Field[int, str, int, Any]):
    """A time as epoch seconds or ISO 8601 with its offset; epoch seconds inside."""

    default_error_messages = {
        "invalid": _("“{value}” is no time: give epoch seconds or ISO 8601 with an offset, such as 2026-11-30T12:00:00Z."),
        "range": _("“{value}” is outside 1970 to 2100."),
    }

    def to_internal_value(self, data: str) -> int:
        """Whole epoch seconds."""
        try:
            seconds = float(data)
        except ValueError:
            seconds = self._iso(data)
        if not 0 <= seconds <= LAST_TS:
            self.fail("range", value=data[:40])
        return int(seconds)

    def to_representation(self, value: int) -> int:
        """Epoch seconds."""
        return value

    def _iso(self, data: str) -> float:
        try:
            moment = parse_datetime(data.replace(" ", "+"))  # an unescaped plus sign arrives as a space
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            self.fail("invalid", value=data[:40])
        return moment.timestamp()


class SeriesQuery(Query):
    """The query of `series`; `validated_data` has scope, entity, metrics (a tuple), start, end and step_s."""

    scope = serializers.ChoiceField(
        choices=("gpu", "host", "engine"), help_text="gpu: entity is a GPU's id; host: a node's; engine: an engine's."
    )
    entity = serializers.IntegerField(min_value=1, max_value=(1 << 63) - 1)
    metrics = serializers.CharField(help_text=f"Names of the scope's metrics, with commas between; at most {MAX_METRICS}.")
    start = Moment(required=False, help_text="Epoch seconds or ISO 8601; an hour before `end` when left out.")
    end = Moment(required=False, help_text="Epoch seconds or ISO 8601, itself left out; now when left out.")
    step_s = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=86_400 * 31,
        help_text=f"Bucket width; at most {MAX_POINTS:,} buckets. Left out: some {DEFAULT_POINTS} buckets, of whole roll-ups.",
    )

    def validate_metrics(self, value: str) -> tuple[str, ...]:
        """The names, each once, in the order given."""
        names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
        if not names:
            raise serializers.ValidationError(gettext("Name at least one metric."))
        if len(names) > MAX_METRICS:
            says = gettext("{named} metrics were named; at most {most} are answered at once.")
            raise serializers.ValidationError(says.format(named=len(names), most=MAX_METRICS))
        return names

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The query made whole; an error that says what does not fit together."""
        scope = attrs["scope"]
        known = {metric.name for metric in metrics.sent(scope)}
        if strange := [name[:60] for name in attrs["metrics"] if name not in known]:
            raise serializers.ValidationError(
                {"metrics": gettext("Scope {scope} has no metric {names}.").format(scope=scope, names=", ".join(strange))}
            )
        end = attrs.get("end", int(time.time()))
        start = attrs.get("start", max(end - DEFAULT_SPAN_S, 0))
        if start >= end:
            raise serializers.ValidationError({"start": gettext("The start must lie before the end.")})
        kept_d = settings.FETTLE_RETAIN_1H_D
        if end - start > (kept_d + 1) * 86_400:
            says = gettext("That is {days:,} days; telemetry is kept for {most:,} at most, so shorten the span.")
            raise serializers.ValidationError({"start": says.format(days=(end - start) // 86_400, most=kept_d)})
        step_s = attrs.get("step_s", rounded(-(-(end - start) // DEFAULT_POINTS)))
        points = -(-end // step_s) - start // step_s
        if points > MAX_POINTS:
            says = gettext("That is {points:,} buckets; at most {most:,} are answered. Widen step_s or shorten the span.")
            raise serializers.ValidationError({"step_s": says.format(points=points, most=MAX_POINTS)})
        return {**attrs, "start": start, "end": end, "step_s": step_s}


def exists(scope: str, entity: int) -> bool:
    """True when there is such a GPU, node or engine."""
    models = {"gpu": Gpu.objects, "host": Node.objects, "engine": Engine.objects}
    return models[scope].filter(pk=entity).exists()
