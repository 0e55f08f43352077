"""Jobs, and which GPUs each of them held from when until when.

A scheduler's word (REST, Slurm's prolog and epilog, Kubernetes' pod resources) is the base: a job holds what it was given, whether or
not a process is seen there. Where no scheduler tells, whoever's processes hold a GPU are a job, with the source `processes`.
"""

from typing import Final

from django.core.validators import RegexValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy, pgettext_lazy

from fleet.inventory.models import Gpu, Node

SOURCES: Final = ("slurm", "kubernetes", "api", "processes")
OPEN_STATES: Final = ("pending", "running", "suspended")
"""Of a job that has not ended."""
END_STATES: Final = (
    "completed", "failed", "cancelled", "timeout", "out_of_memory", "node_fail", "preempted", "requeued", "ended", "lost",
)  # fmt: skip
"""Of one that has; `ended`: its end was seen, and nobody told how it ended; `lost`: its scheduler does not know it any more, and nobody
saw its end."""
STATES: Final = (*OPEN_STATES, *END_STATES)

cluster_name = RegexValidator(
    r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z",
    gettext_lazy("A cluster's name has letters, digits, dots, dashes and underscores only, and begins with a letter or a digit."),
)
job_number = RegexValidator(
    r"\A[A-Za-z0-9][A-Za-z0-9._+-]{0,199}\Z",
    gettext_lazy("A job's id has letters, digits and . _ + - only, such as 4711 or namespace.pod."),
)


class Job(models.Model):
    """One run of one job: a requeued job, and a job id that is used again, is another row with another start.

    `target` is what findings call it. A run of processes that no scheduler told of has no cluster, and as its id the name that the pages
    give it (`node/user/program`).
    """

    cluster = models.CharField(max_length=100, blank=True)
    job_id = models.CharField(
        max_length=300,
        help_text="As its scheduler numbers it. Slurm's own number, of a task or a component too: 4714, whose label `slurm_id` is 4711_3.",
    )
    started_at = models.DateTimeField(help_text="When it was given its GPUs, by its scheduler's clock.")
    ended_at = models.DateTimeField(null=True, blank=True, help_text="Empty while it runs.")
    source = models.CharField(max_length=12, choices=[(name, name) for name in SOURCES])
    state = models.CharField(max_length=14, choices=[(name, name) for name in STATES], default="running")
    exit_code = models.IntegerField(null=True, blank=True)
    name = models.CharField(max_length=200, blank=True)
    user = models.CharField(max_length=100, blank=True)
    account = models.CharField(max_length=100, blank=True)
    partition = models.CharField(max_length=100, blank=True)
    family = models.CharField(
        max_length=420, help_text="Runs of the same program by the same user: their baseline (families.py)."
    )
    gpus_total = models.PositiveIntegerField(
        null=True, blank=True, help_text="GPUs that the scheduler gave it, known by name or not; empty: it did not say."
    )
    array_job_id = models.CharField(max_length=100, blank=True, help_text="The job of which this is a task or a component.")
    restarts = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Times that its scheduler put it back into the queue before this run; empty: it did not say.",
    )
    labels = models.JSONField(default=dict, blank=True, help_text="Short texts by name, as its scheduler told them.")
    told_at = models.DateTimeField(
        default=timezone.now, help_text="When its scheduler last told of it, or its processes were seen."
    )

    class Meta:
        verbose_name = pgettext_lazy("model", "job")
        verbose_name_plural = pgettext_lazy("model", "jobs")
        ordering = ("-started_at", "-pk")
        constraints = [models.UniqueConstraint(fields=("cluster", "job_id", "started_at"), name="job_once")]
        indexes = [
            models.Index(fields=("ended_at", "-started_at"), name="job_open"),
            models.Index(fields=("family", "-started_at"), name="job_family"),
            models.Index(fields=("-started_at",), name="job_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.target} {self.started_at:%Y-%m-%d %H:%M}"

    @property
    def target(self) -> str:
        """What findings and pages call it: the same for all runs of one job id."""
        return f"{self.cluster}/{self.job_id}" if self.cluster else self.job_id


class Allocation(models.Model):
    """From `from_at` to `until_at` a job held one device, or what its scheduler called so; `until_at` is empty while it does.

    `gpu` is empty for a device that no agent has told of (yet): it counts as given, and nothing is known of it. A `shared` device is
    held by other jobs at the same time (time-slicing, MPS): its readings are nobody's share, and are never summed.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="allocations")
    node = models.ForeignKey(Node, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    node_name = models.CharField(max_length=200)
    gpu = models.ForeignKey(Gpu, on_delete=models.SET_NULL, null=True, blank=True, related_name="allocations")
    device = models.CharField(max_length=100, help_text="As its scheduler names it: an index, or a UUID.")
    from_at = models.DateTimeField()
    until_at = models.DateTimeField(null=True, blank=True)
    shared = models.BooleanField(default=False)

    class Meta:
        verbose_name = pgettext_lazy("model", "allocation")
        verbose_name_plural = pgettext_lazy("model", "allocations")
        ordering = ("node_name", "device")
        constraints = [models.UniqueConstraint(fields=("job", "node_name", "device", "from_at"), name="allocation_once")]
        indexes = [
            models.Index(fields=("until_at", "gpu"), name="allocation_open"),
            models.Index(fields=("gpu", "from_at"), name="allocation_of_gpu"),
        ]

    def __str__(self) -> str:
        return f"{self.job.target}: {self.node_name} {self.device}"
