"""The webhook of a site's Alertmanager: its alerts become events and findings."""

import re
from datetime import datetime
from typing import Any, Final

from django.utils.translation import gettext
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from fleet.api.asked import StrictQuery
from fleet.api.permissions import MayTellEvents
from fleet.api.problems import problem
from fleet.watch.told_alerts import Told, moment, take

MOST: Final = 2_000
"""Alerts in one request; a group of more is sent in parts with `max_alerts`, or grouped by more labels."""
MOST_WORDS: Final = 100
LONGEST: Final = 4_000
_FINGERPRINT: Final = re.compile(r"[0-9a-zA-Z_-]{1,64}", re.ASCII)


class _Words(serializers.DictField):
    """Labels or annotations: texts by name. What is longer than LONGEST is cut: it is shown, not compared."""

    child = serializers.CharField(allow_blank=True, trim_whitespace=False)

    def to_internal_value(self, data: Any) -> dict[str, str]:
        """At most MOST_WORDS of them."""
        if isinstance(data, dict) and len(data) > MOST_WORDS:
            raise serializers.ValidationError(gettext("There are more than {most} of them.").format(most=MOST_WORDS))
        if isinstance(data, dict) and not all(isinstance(value, str) for value in data.values()):
            raise serializers.ValidationError(gettext("Labels and annotations are texts."))
        found: dict[str, str] = super().to_internal_value(data)
        return {name[:LONGEST]: value[:LONGEST] for name, value in found.items()}


@extend_schema_field({"type": "string", "format": "date-time"})
class _Moment(serializers.Field[datetime | None, Any, str, Any]):
    """A time as Go writes it; its zero, of an alert that has not ended, is None."""

    def to_internal_value(self, data: Any) -> datetime | None:
        """The time."""
        text = data[:60] if isinstance(data, str) else ""
        found = moment(text)
        if found is None and not text.startswith("0001-01-01"):
            raise serializers.ValidationError(gettext("Write a time with its zone (2026-11-30T12:00:00Z)."))
        return found

    def to_representation(self, value: datetime | None) -> str:
        """As RFC 3339 writes it."""
        return "" if value is None else value.isoformat()


class AlertSerializer(serializers.Serializer[Any]):
    """One alert. Fields that are not named here are left out."""

    status = serializers.ChoiceField(choices=("firing", "resolved"))
    labels = _Words()
    annotations = _Words(required=False, default=dict)
    startsAt = _Moment()  # noqa: N815 - Alertmanager's name
    endsAt = _Moment(required=False, allow_null=True, default=None)  # noqa: N815
    fingerprint = serializers.CharField(max_length=64, help_text="Alertmanager's name of the alert, by its labels.")

    def validate_fingerprint(self, value: str) -> str:
        """Letters and digits."""
        if not _FINGERPRINT.fullmatch(value):
            raise serializers.ValidationError(gettext("A fingerprint has letters and digits."))
        return value

    def validate_startsAt(self, value: Any) -> Any:  # noqa: N802
        """An alert began at some time."""
        if value is None:
            raise serializers.ValidationError(gettext("Write a time with its zone (2026-11-30T12:00:00Z)."))
        return value


class WebhookSerializer(serializers.Serializer[Any]):
    """What Alertmanager posts to a `webhook_config`, version 4. Fields that are not named here are left out."""

    version = serializers.ChoiceField(choices=("4",))
    alerts = AlertSerializer(many=True)

    def validate_alerts(self, value: list[Any]) -> list[Any]:
        """Not more than are read at a time."""
        if len(value) > MOST:
            says = gettext("There are more than {most} alerts: set max_alerts, or group by more labels.")
            raise serializers.ValidationError(says.format(most=MOST))
        return value


class AlertsTakenSerializer(serializers.Serializer[Any]):
    """What became of the alerts."""

    opened = serializers.IntegerField(help_text="Alerts that are news.")
    ended = serializers.IntegerField(help_text="Alerts whose findings ended.")
    repeated = serializers.IntegerField(help_text="Alerts that were known so.")
    loops = serializers.IntegerField(help_text="Alerts of our own that came back; they were dropped.")


class AlertmanagerView(StrictQuery):
    """Where a site's Alertmanager sends its alerts."""

    permission_classes = [IsAuthenticated, MayTellEvents]
    serializer_class = WebhookSerializer

    @extend_schema(
        summary="Take Alertmanager's alerts",
        operation_id="alertmanager_create",
        request=WebhookSerializer,
        responses={200: AlertsTakenSerializer}
        | problem(400, "What of the body does not fit.")
        | problem(401, "The caller is not known.")
        | problem(403, "The caller may not tell of events.")
        | problem(413, "The body is too large."),
        examples=[
            OpenApiExample(
                "One alert that fires",
                {
                    "version": "4",
                    "status": "firing",
                    "alerts": [
                        {
                            "status": "firing",
                            "labels": {"alertname": "DiskFull", "instance": "gpu-17:9100", "severity": "warning"},
                            "annotations": {"summary": "The scratch disk is 97 % full."},
                            "startsAt": "2026-11-30T12:00:00Z",
                            "endsAt": "0001-01-01T00:00:00Z",
                            "fingerprint": "5ef77f1f8a3ecf8d",
                        }
                    ],
                },
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        """An event and a finding for each alert; told again, it is the same. A resolved one ends its finding."""
        asked = WebhookSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        alerts = [
            Told(
                fingerprint=one["fingerprint"],
                firing=one["status"] == "firing",
                labels=one["labels"],
                annotations=one["annotations"],
                starts_at=one["startsAt"],
                ends_at=one["endsAt"],
            )
            for one in asked.validated_data["alerts"]
        ]
        return Response(AlertsTakenSerializer(take(alerts)).data)
