"""A run of a job as the API answers with it: small whatever the job's size."""

from typing import Any, Final, cast

from django.urls import reverse
from rest_framework import serializers

from fleet.api.asked import PageQuery
from fleet.jobs.extent import FIRST, Extent, extents
from fleet.jobs.models import SOURCES, STATES, Allocation, Job


class AllocationSerializer(serializers.ModelSerializer[Allocation]):
    """One device that the job holds, or held; `gpu` is null for one that no agent has told of."""

    gpu_index = serializers.IntegerField(source="gpu.index", read_only=True, allow_null=True, default=None)
    gpu_uuid = serializers.CharField(source="gpu.uuid", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Allocation
        fields = ("node", "node_name", "device", "gpu", "gpu_index", "gpu_uuid", "shared", "from_at", "until_at")
        read_only_fields = fields


class JobList(serializers.ListSerializer[Job]):
    """Counts once for a whole page what its jobs hold."""

    def to_representation(self, data: Any) -> list[Any]:
        """The page's jobs, each with its extent."""
        jobs = list(data)
        cast(dict[str, Any], self.context)["extents"] = extents([job.pk for job in jobs])
        return super().to_representation(jobs)


_NOTHING: Final = Extent()


class JobSerializer(serializers.ModelSerializer[Job]):
    """One run of one job, with how much it holds or held. `target` is what findings call it."""

    target = serializers.CharField(read_only=True)
    source = serializers.ChoiceField(choices=SOURCES, read_only=True)  # type: ignore[assignment] # a field
    state = serializers.ChoiceField(choices=STATES, read_only=True)
    labels = serializers.DictField(child=serializers.CharField(), read_only=True)
    nodes_total = serializers.IntegerField(source="extent.nodes_total", read_only=True, help_text="Of all its allocations.")
    held_total = serializers.IntegerField(source="extent.held_total", read_only=True, help_text="Devices that it holds now.")
    held_nodes_total = serializers.IntegerField(source="extent.held_nodes_total", read_only=True, help_text="Nodes of these.")
    held_unknown_total = serializers.IntegerField(
        source="extent.held_unknown_total", read_only=True, help_text="Of these devices those that no agent has told of."
    )
    allocations = AllocationSerializer(
        source="extent.first",
        many=True,
        read_only=True,
        help_text=f"The first {FIRST} by node and device, what it holds before what it gave back.",
    )
    allocations_total = serializers.IntegerField(
        source="extent.allocations_total", read_only=True, help_text="How many there are."
    )
    allocations_url = serializers.SerializerMethodField(help_text="Where all of them are.")

    class Meta:
        model = Job
        list_serializer_class = JobList
        fields: tuple[str, ...] = (
            "id", "cluster", "job_id", "target", "source", "state", "started_at", "ended_at", "exit_code", "name", "user", "account",
            "partition", "family", "gpus_total", "array_job_id", "restarts", "labels", "told_at", "nodes_total",
            "held_total", "held_nodes_total", "held_unknown_total", "allocations", "allocations_total", "allocations_url",
        )  # fmt: skip
        read_only_fields = fields

    def to_representation(self, job: Job) -> dict[str, Any]:
        """The job with its extent, which a page's jobs have together."""
        known = self.context.get("extents")
        job.extent = (extents([job.pk]) if known is None else known).get(job.pk, _NOTHING)  # type: ignore[attr-defined] # for the fields
        return super().to_representation(job)

    def get_allocations_url(self, job: Job) -> str:
        """A path of this server."""
        return f"{url_of(job)}allocations/"


def url_of(job: Job) -> str:
    """The run's path in this API."""
    return reverse("job-detail", args=[job.pk])


TOLD: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["id", "cluster", "job_id", "started_at", "state", "url", "created", "warnings"],
    "properties": {
        "id": {"type": "integer"},
        "cluster": {"type": "string"},
        "job_id": {"type": "string"},
        "started_at": {"type": "string", "format": "date-time"},
        "state": {"$ref": "#/components/schemas/JobStateEnum"},
        "url": {"type": "string", "description": "A path of this server."},
        "created": {"type": "boolean", "description": "Nobody had told of this run before."},
        "warnings": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What is odd about the devices that it holds, such as one that its node does not list.",
        },
    },
}
"""What a program learns of the run that it told of. One that may read gets all of the run beside it, as GET shows it."""
TOLD_ROWS: Final[dict[str, Any]] = {
    "type": "array",
    "items": {"anyOf": [{"allOf": [{"$ref": "#/components/schemas/Job"}, TOLD]}, TOLD]},
}


class AllocationQuery(PageQuery):
    """Which allocations of a run."""

    node = serializers.CharField(required=False, max_length=200, help_text="A node's name.")
    open = serializers.BooleanField(required=False, help_text="Those that it holds now; false: those that are over.")


class _Brief(serializers.ModelSerializer[Job]):
    """The key of a run and its state."""

    class Meta:
        model = Job
        fields = ("id", "cluster", "job_id", "started_at", "state")


BRIEF: Final = _Brief()
