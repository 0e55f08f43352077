"""What a finding follows from, what follows from it, and who saw it, as the API answers."""

from typing import Any, cast

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from advisor.causes import PLACES
from fleet.findings import consequences
from fleet.findings.models import Finding
from fleet.findings.witnesses import KINDS


class WitnessSerializer(serializers.Serializer[consequences.Witness]):
    """A kind of witness of a finding's trouble."""

    kind = serializers.ChoiceField(choices=KINDS)
    first_at = serializers.DateTimeField()
    last_at = serializers.DateTimeField()
    count = serializers.IntegerField(help_text="How often it said so: events, or windows of telemetry.")


class ExplainedSerializer(serializers.ModelSerializer[Finding]):
    """The part of a finding that tells of causes and witnesses."""

    cause = serializers.IntegerField(
        source="cause_id",
        read_only=True,
        allow_null=True,
        help_text="The id of the finding that it follows from; null: none is known.",
    )
    cause_place = serializers.ChoiceField(
        choices=PLACES, read_only=True, allow_blank=True, help_text="What the two share; empty without a cause."
    )
    consequences_total = serializers.SerializerMethodField()
    witnesses = serializers.SerializerMethodField()

    class Meta:
        model = Finding
        fields: tuple[str, ...] = ("cause", "cause_place", "consequences_total", "witnesses")

    def get_consequences_total(self, finding: Finding) -> int:
        """How many findings follow from it, open or over."""
        counted: int | None = getattr(finding, "consequences_total", None)
        return finding.consequences.count() if counted is None else counted

    @extend_schema_field(WitnessSerializer(many=True))
    def get_witnesses(self, finding: Finding) -> Any:
        """Who saw it, the first first; empty where it was found before witnesses were kept."""
        return WitnessSerializer(cast(Any, consequences.seen_by(finding)), many=True).data
