"""What the API answers with; names carry the units."""

from datetime import timedelta
from typing import Any, cast

from django.utils import timezone
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from advisor.finding import SEVERITIES
from fleet.accounts.plain_text import plain_text
from fleet.api import readings
from fleet.api.asked import AskedSerializer
from fleet.api.explained import ExplainedSerializer
from fleet.api.finding_gpus import FindingList
from fleet.api.target_names import name_of
from fleet.findings import cost, words
from fleet.findings.advised import MOVES
from fleet.findings.content import Rendered, render
from fleet.findings.models import ADVICE, CONDITIONS, Diagnosis, Finding, Transition
from fleet.inventory.models import STILL_THERE, Engine, Gpu, Node, Process
from fleet.notify.models import Acknowledgement
from wire.metrics import REASONS

STATES = ("ok", "stale", "unknown")
"""ok: stored lately; stale: not any more; unknown: never, or the GPU is no longer listed by its agent."""


def state_of(node: Node) -> str:
    """One of STATES."""
    if node.last_seen_at is None:
        return "unknown"
    return "stale" if node.is_stale else "ok"


class NodeSerializer(serializers.ModelSerializer[Node]):
    """A machine with GPUs."""

    state = serializers.SerializerMethodField()
    gpus_total = serializers.IntegerField(read_only=True, help_text="GPUs that the agent lists now.")
    findings_open = serializers.IntegerField(read_only=True, help_text="Findings that fire now.")

    class Meta:
        model = Node
        fields: tuple[str, ...] = (
            "id", "name", "state", "recording", "source", "gpus_total", "findings_open", "cores", "mem_total_bytes", "kernel",
            "driver_version", "cuda_driver_version", "nvidia_module_version", "cpu_governor", "rdma_ready", "agent_version",
            "interval_s", "connected_at", "disconnected_at", "last_seen_at", "last_received_at", "said_bye_at", "clock_skew_s", "created_at",
        )  # fmt: skip

    @extend_schema_field(serializers.ChoiceField(choices=STATES))
    def get_state(self, node: Node) -> str:
        """ok, stale or unknown."""
        return state_of(node)


class LatestSerializer(serializers.Serializer[Any]):
    """The newest readings: `ts` in epoch seconds, values by metric, null where absent."""

    ts = serializers.IntegerField()
    values = serializers.DictField(child=serializers.FloatField(allow_null=True))


class EngineSerializer(serializers.ModelSerializer[Engine]):
    """A serving engine; its id is the `entity` of its series, its name where its agent asks it."""

    absent = serializers.DictField(child=serializers.CharField(), help_text="Why a metric has no value, by its name.")
    latest = serializers.SerializerMethodField()

    class Meta:
        model = Engine
        fields = ("id", "name", "kind", "model", "pid", "why_silent", "absent", "first_seen_at", "last_seen_at", "latest")

    @extend_schema_field(LatestSerializer(allow_null=True))
    def get_latest(self, engine: Engine) -> readings.Latest | None:
        """The newest readings; null when nothing was stored in the last minute."""
        found: readings.Latest | None = self.context["latest_of_engines"].get(engine.pk)
        return found


class ProcessSerializer(serializers.ModelSerializer[Process]):
    """What is known of a process in words; `wire.labels` lists the keys of `labels`."""

    labels = serializers.DictField(child=serializers.CharField())

    class Meta:
        model = Process
        fields = ("pid", "name", "labels", "first_seen_at", "last_seen_at")


class NodeDetailSerializer(NodeSerializer):
    """A machine with GPUs, the serving engines that it had in the last day, and the processes of which words are known."""

    engines = serializers.SerializerMethodField()
    processes = serializers.SerializerMethodField()
    numa_distances = serializers.DictField(
        child=serializers.ListField(child=serializers.IntegerField()),
        help_text="From each NUMA node to all of them, in their order; 10 is its own memory.",
    )
    nvidia_parameters = serializers.DictField(
        child=serializers.CharField(), help_text="Parameters of the NVIDIA module, as they were told last."
    )
    facts_absent = serializers.DictField(
        child=serializers.ChoiceField(choices=REASONS), help_text="Why a fact is not told, by its name."
    )

    class Meta(NodeSerializer.Meta):
        fields = (
            *NodeSerializer.Meta.fields, "numa_distances", "nvidia_parameters", "facts_absent", "engines", "processes",
        )  # fmt: skip

    @extend_schema_field(EngineSerializer(many=True))
    def get_engines(self, node: Node) -> Any:
        """Those told of in the last day, by name; null readings where nothing comes of one any more."""
        engines = list(node.engines.filter(last_seen_at__gte=timezone.now() - timedelta(days=1)).order_by("name"))
        latest = readings.latest([engine.pk for engine in engines], "engine")
        return EngineSerializer(engines, many=True, context={"latest_of_engines": latest}).data

    @extend_schema_field(ProcessSerializer(many=True))
    def get_processes(self, node: Node) -> Any:
        """Those that hold a GPU now, by pid; none of a silent node."""
        there = node.processes.filter(last_seen_at__gte=timezone.now() - STILL_THERE).order_by("pid", "last_seen_at")
        newest = {process.pid: process for process in there}  # a pid may be given anew within that time
        return ProcessSerializer(list(newest.values()), many=True).data


class DiagnosisSerializer(serializers.ModelSerializer[Diagnosis]):
    """The newest bottleneck; an empty one means that too little was measured to say."""

    shares = serializers.DictField(child=serializers.FloatField(), help_text="Fractions of the window that sum to 1.")

    class Meta:
        model = Diagnosis
        fields = ("bottleneck", "confidence", "shares", "window_start", "window_end")


class GpuList(serializers.ListSerializer[Gpu]):
    """Reads the store once for a whole page."""

    def to_representation(self, data: Any) -> list[Any]:
        """The page's GPUs with their latest readings."""
        gpus = list(data)
        cast(dict[str, Any], self.context)["latest"] = readings.latest([gpu.pk for gpu in gpus])
        return super().to_representation(gpus)


class GpuSerializer(serializers.ModelSerializer[Gpu]):
    """One GPU; its id is the `entity` of its series."""

    node_name = serializers.CharField(source="node.name", read_only=True)
    recording = serializers.CharField(source="node.recording", read_only=True)
    state = serializers.SerializerMethodField()
    bottleneck = DiagnosisSerializer(source="diagnosis", read_only=True, allow_null=True)
    latest = serializers.SerializerMethodField()
    labels = serializers.DictField(
        child=serializers.CharField(), help_text="Who uses it, as the kubelet or dcgm-exporter says: keys of `GPU_LABELS`."
    )

    class Meta:
        model = Gpu
        list_serializer_class = GpuList
        fields = (
            "id", "node", "node_name", "recording", "uuid", "index", "model", "state", "present", "bottleneck", "latest",
            "pci_bus_id", "compute_capability", "mem_total_bytes", "power_limit_w", "power_limit_default_w",
            "sm_clock_max_mhz", "mem_clock_max_mhz", "pcie_link_gen_max", "pcie_link_width_max", "nvlink_links",
            "nvlink_bytes_per_s_per_link", "mig_mode", "parent_uuid", "mig_profile", "mig_gpu_instance", "mig_compute_instance", "memory_kind",
            "power_scope", "power_average_s", "accounting_mode", "numa_node", "labels", "created_at",
        )  # fmt: skip

    @extend_schema_field(serializers.ChoiceField(choices=STATES))
    def get_state(self, gpu: Gpu) -> str:
        """ok, stale or unknown."""
        return state_of(gpu.node) if gpu.present else "unknown"

    @extend_schema_field(LatestSerializer(allow_null=True))
    def get_latest(self, gpu: Gpu) -> readings.Latest | None:
        """The newest readings; null when nothing was stored in the last minute."""
        if "latest" not in self.context:
            cast(dict[str, Any], self.context)["latest"] = readings.latest([gpu.pk])
        found: readings.Latest | None = self.context["latest"].get(gpu.pk)
        return found


class EvidenceSerializer(serializers.Serializer[Any]):
    """One measured number beside the threshold that it passed."""

    name = serializers.CharField()
    value = serializers.FloatField(allow_null=True)
    unit = serializers.CharField(allow_blank=True)
    threshold = serializers.FloatField(allow_null=True)
    comparison = serializers.CharField(allow_blank=True)


class ChangeSerializer(serializers.Serializer[Any]):
    """One step to take; nothing is run by itself."""

    kind = serializers.ChoiceField(choices=("diff", "flag", "env", "command", "config"))
    text = serializers.CharField()
    placeholders = serializers.ListField(
        child=serializers.CharField(), help_text="What in `text` stands for the reader's own, such as `train.py`."
    )


class GainSerializer(serializers.Serializer[Any]):
    """The speed to expect as a ratio to today's."""

    low = serializers.FloatField()
    high = serializers.FloatField()
    basis = serializers.CharField(allow_blank=True)


class RenderedSerializer(serializers.Serializer[Any]):
    """What a finding says, in the language that the request accepts."""

    title = serializers.CharField()
    summary = serializers.CharField(allow_blank=True)
    evidence = EvidenceSerializer(many=True)
    change = ChangeSerializer(many=True)
    expected_gain = GainSerializer(allow_null=True)
    risk = serializers.CharField(allow_blank=True)
    rollback = serializers.CharField(allow_blank=True)
    verify = serializers.CharField(allow_blank=True)
    sources = serializers.ListField(child=serializers.CharField())


class AcknowledgementSerializer(serializers.ModelSerializer[Acknowledgement]):
    """Somebody looks after an alert."""

    via = serializers.ChoiceField(choices=["page", "api", "link"], read_only=True)

    class Meta:
        model = Acknowledgement
        fields = ("by_name", "via", "comment", "at")
        read_only_fields = fields


class AcknowledgeSerializer(AskedSerializer):
    """What somebody says while acknowledging."""

    comment = serializers.CharField(max_length=300, required=False, allow_blank=True, default="", validators=[plain_text])


class FindingSerializer(ExplainedSerializer):
    """One rule's verdict on one target, from its opening to its end."""

    severity = serializers.ChoiceField(choices=SEVERITIES, read_only=True)
    condition = serializers.ChoiceField(choices=CONDITIONS, read_only=True)
    advice = serializers.ChoiceField(choices=ADVICE, read_only=True)
    node_name = serializers.CharField(source="node.name", read_only=True, allow_null=True, default=None)
    target_name = serializers.SerializerMethodField()
    gpus = serializers.SerializerMethodField()
    gpus_left_out = serializers.SerializerMethodField()
    state = serializers.SerializerMethodField()
    says = serializers.SerializerMethodField()
    cost_a_day = serializers.SerializerMethodField()
    recoverable = serializers.FloatField(
        read_only=True,
        help_text="Share of the target's time that could be won back, 0 to 1: 1 - 1/gain at the geometric middle of `says.expected_gain`, where it has"
        " one; 0 where it becomes no faster.",
    )
    currency = serializers.SerializerMethodField()
    acknowledged = serializers.SerializerMethodField()

    class Meta(ExplainedSerializer.Meta):
        list_serializer_class = FindingList
        fields = (
            "id", "rule", "severity", "scope", "target", "target_name", "node", "node_name", "gpus", "gpus_left_out", "state", "bottleneck", "confidence",
            "recoverable", "gpus_total", "gpu_hours_a_day", "cost_a_day", "currency", "condition", "advice", "says", "origin",
            "seen_total", "opened_at", "last_seen_at", "resolved_at", "shadow", "acknowledged",
            *ExplainedSerializer.Meta.fields,
        )  # fmt: skip

    @extend_schema_field(AcknowledgementSerializer(allow_null=True))
    def get_acknowledged(self, finding: Finding) -> Any:
        """Who looks after the alert as it is now; null where nobody does, or it grew worse since."""
        held = [one for one in finding.acknowledgements.all() if one.severity_rank >= finding.severity_rank]
        return AcknowledgementSerializer(held[0]).data if held else None

    def get_target_name(self, finding: Finding) -> str:
        """The name of the GPU, the node, the service or the job; the target itself where that is gone."""
        return name_of(self.context, finding)

    def get_gpus(self, finding: Finding) -> list[int]:
        """The ids of the GPUs that it is about; in lists the first 64, and `gpus_left_out` says how many more there are."""
        if "first_gpus" not in self.context:
            return list(finding.gpus.values_list("pk", flat=True))
        ids: list[int] = self.context["first_gpus"].get(finding.pk, ((), 0))[0]
        return list(ids)

    def get_gpus_left_out(self, finding: Finding) -> int:
        """How many of them are not listed; /findings/{id}/ lists all."""
        left: int = self.context.get("first_gpus", {}).get(finding.pk, ((), 0))[1]
        return left

    @extend_schema_field(serializers.ChoiceField(choices=STATES))
    def get_state(self, finding: Finding) -> str:
        """ok, stale or unknown: whether its node still reports."""
        return state_of(finding.node) if finding.node else "unknown"

    def get_cost_a_day(self, finding: Finding) -> float | None:
        """What the GPU-hours to win back cost a day, by FETTLE_GPU_HOUR_PRICE; null where the price or they are not known."""
        return cost.a_day(finding.gpu_hours_a_day)

    def get_currency(self, finding: Finding) -> str | None:
        """The currency of `cost_a_day`; null where the site told no price."""
        return cost.currency()

    @extend_schema_field(RenderedSerializer)
    def get_says(self, finding: Finding) -> dict[str, Any]:
        """Title, summary, evidence, the exact change, gain, risk, rollback, verification."""
        says: Rendered = render(finding)
        return dict(RenderedSerializer(says).data)


class TransitionSerializer(serializers.ModelSerializer[Transition]):
    """A finding changed state."""

    by = serializers.CharField(source="by.username", read_only=True, allow_null=True, default=None)
    note = serializers.SerializerMethodField()

    class Meta:
        model = Transition
        fields = ("id", "axis", "before", "after", "at", "by", "note")

    def get_note(self, row: Transition) -> str:
        """A person's words as they wrote them; the server's in the language that the request accepts."""
        return row.note if row.by_id else words.note(row.note)


class MoveSerializer(AskedSerializer):
    """What a person makes of the advice."""

    after = serializers.ChoiceField(choices=sorted({after for allowed in MOVES.values() for after in allowed}))
    note = serializers.CharField(max_length=500, required=False, allow_blank=True, default="", validators=[plain_text])
    applied_at = serializers.DateTimeField(
        required=False, allow_null=True, default=None, help_text="With `applied`: when that was, where it was before now."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The move; ValidationError where a time is given that cannot be when it was applied."""
        at = attrs.get("applied_at")
        if at is not None and attrs["after"] != "applied":
            raise serializers.ValidationError({"applied_at": gettext("A time goes with applied alone.")})
        if at is not None and at > timezone.now() + timedelta(minutes=1):
            raise serializers.ValidationError({"applied_at": gettext("That is still to come; tell of it when it is done.")})
        return attrs
