"""Verdicts on advice that was applied: /api/v1/verifications/, and the record of each rule at this site."""

from typing import Any

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet, ReadOnlyModelViewSet

from advisor.verification.compare import VERDICTS
from fleet.api.asked import StrictQuery
from fleet.api.filters import Moment, Strict
from fleet.api.target_names import TargetList, name_of
from fleet.findings import cost
from fleet.findings.content import sentence
from fleet.verdicts import words
from fleet.verdicts.models import Verification
from fleet.verdicts.recovered import Record, records


class VerificationSerializer(serializers.ModelSerializer[Verification]):
    """Advice that was applied, and what was measured of it. `ratio` is of speeds: above 1 is faster, whatever the measure."""

    target_name = serializers.SerializerMethodField()
    verdict = serializers.ChoiceField(choices=VERDICTS, read_only=True, allow_blank=True, help_text="Empty: it waits for a run.")
    reason = serializers.SerializerMethodField()
    rollback = serializers.SerializerMethodField()
    is_estimate = serializers.SerializerMethodField()
    recovered_cost = serializers.SerializerMethodField()
    currency = serializers.SerializerMethodField()

    class Meta:
        model = Verification
        list_serializer_class = TargetList
        fields = (
            "id", "finding", "rule", "scope", "target", "target_name", "family", "applied_at", "by_advisor", "due_at", "gpu_model", "gpus",
            "promised_low", "promised_high", "before_from", "before_until", "after_from", "after_until", "measure", "is_estimate",
            "before", "after", "ratio", "ratio_low", "ratio_high", "p", "verdict", "reason", "rollback", "measured_at",
            "recovered_gpu_hours", "recovered_cost", "currency",
        )  # fmt: skip

    def get_target_name(self, row: Verification) -> str:
        """The name of the GPU, the node, the service or the job; the target itself where that is gone."""
        return name_of(self.context, row)

    def get_reason(self, row: Verification) -> str:
        """Why the verdict is as it is, or why there is none yet, in the language that the request accepts."""
        return words.reason(row)

    def get_rollback(self, row: Verification) -> str:
        """How to undo the change, of one that made it worse; empty otherwise."""
        return sentence(row.rollback) if row.verdict == "worse" else ""

    def get_is_estimate(self, row: Verification) -> bool:
        """Whether counters of the GPU stand for the speed, because the program reports none."""
        return words.is_estimate(row.measure)

    def get_recovered_cost(self, row: Verification) -> float | None:
        """What the recovered GPU-hours cost, by FETTLE_GPU_HOUR_PRICE; null where the price or they are not known."""
        return cost.a_day(row.recovered_gpu_hours)

    def get_currency(self, row: Verification) -> str | None:
        """The currency of `recovered_cost`; null where the site told no price."""
        return cost.currency()


class VerificationFilter(Strict):
    """Verdicts by rule, finding, target and time; `waiting=true` those that have none yet."""

    rule = django_filters.CharFilter()
    verdict = django_filters.MultipleChoiceFilter(choices=[(one, one) for one in VERDICTS])
    waiting = django_filters.BooleanFilter(method="those_waiting")
    finding = django_filters.NumberFilter(min_value=1, max_value=(1 << 63) - 1, help_text="A finding's id.")
    target = django_filters.CharFilter()
    family = django_filters.CharFilter()
    by_advisor = django_filters.BooleanFilter()
    applied_after = Moment(field_name="applied_at", lookup_expr="gte")
    applied_before = Moment(field_name="applied_at", lookup_expr="lt")

    class Meta:
        model = Verification
        fields: list[str] = []

    def those_waiting(self, rows: QuerySet[Verification], name: str, value: bool) -> QuerySet[Verification]:
        """Without a verdict, or with one."""
        return rows.filter(verdict="") if value else rows.exclude(verdict="")


@extend_schema_view(list=extend_schema(summary="List verifications"), retrieve=extend_schema(summary="One verification"))
class VerificationViewSet(StrictQuery, ReadOnlyModelViewSet[Verification]):
    """Advice that was applied, the newest first: verdict, ratio with its 95 % interval, and the reason."""

    serializer_class = VerificationSerializer
    filterset_class = VerificationFilter
    lookup_value_regex = "[0-9]{1,18}"
    queryset = Verification.objects.defer("before_samples", "after_samples").order_by("-applied_at", "-pk")


class RecordSerializer(serializers.Serializer[Any]):
    """What the advice of one rule came to at this site."""

    rule = serializers.CharField()
    helped = serializers.IntegerField()
    no_effect = serializers.IntegerField()
    worse = serializers.IntegerField()
    cannot_tell = serializers.IntegerField()
    waiting = serializers.IntegerField()
    ratio = serializers.FloatField(allow_null=True, help_text="Median ratio of speeds of those that could be told.")
    recovered_gpu_hours = serializers.FloatField(allow_null=True)
    recovered_cost = serializers.SerializerMethodField()
    currency = serializers.SerializerMethodField()

    @extend_schema_field(serializers.FloatField(allow_null=True))
    def get_recovered_cost(self, found: Record) -> float | None:
        """What the recovered GPU-hours cost; null where the price or they are not known."""
        return cost.a_day(found.recovered_gpu_hours)

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_currency(self, found: Record) -> str | None:
        """The currency of `recovered_cost`; null where the site told no price."""
        return cost.currency()


@extend_schema_view(list=extend_schema(summary="The record of each rule"))
class RecordViewSet(StrictQuery, ListModelMixin, GenericViewSet[Any]):
    """What the advice of each rule came to at this site, the most recovered GPU-hours first. A rule that was never applied is not there."""

    serializer_class = RecordSerializer
    permission_classes = [IsAuthenticated]
    pagination_class = None
    queryset = Verification.objects.none()

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """All of them: there are no more than rules."""
        return Response(RecordSerializer(records(), many=True).data)
