"""What is known of targets beyond the last minutes: runs of jobs with their figures, and frames of features for the judge."""

from django.db import models
from django.utils.translation import pgettext_lazy

from fleet.inventory.models import Node


class JobRun(models.Model):
    """One run of a job, from the start of its first process to the end of its last.

    `job` is what the pages call it (`node/user/program`), `program` its family: the same without the node and without
    what tells one run from the next (advisor/job_family.py). Figures are medians over its minutes; `parts` has the counts of
    minutes that they are made of, by measure and by step of a logarithmic scale (summary.py).
    """

    job = models.CharField(max_length=300)
    program = models.CharField(max_length=300)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="job_runs")
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField(help_text="Right to a minute while it is there.")
    merged_to = models.BigIntegerField(help_text="Second up to which its minutes are counted; none is counted twice.")
    pids = models.JSONField(default=list, help_text="Processes that held its GPUs in the last minute.")
    gpu_ids = models.JSONField(default=list)
    gpu_model = models.CharField(max_length=100, blank=True)
    gpus = models.PositiveIntegerField(default=0, help_text="The most that it held in a minute.")
    told = models.JSONField(default=dict, help_text="Versions, flags and variables of its first process that told any.")
    parts = models.JSONField(default=dict)
    ooms = models.JSONField(
        default=dict,
        help_text="Errors of GPU memory that it reported: hours, counts by the hour's first second; seen, each process's counter as read last. "
        "Empty: it reports none.",
    )
    minutes = models.PositiveIntegerField(default=0, help_text="Minutes with reported steps.")
    step_time_s = models.FloatField(null=True, blank=True)
    step_time_mad_s = models.FloatField(null=True, blank=True)
    samples_per_s = models.FloatField(null=True, blank=True)
    energy_j_per_sample = models.FloatField(null=True, blank=True)
    busy = models.FloatField(null=True, blank=True)

    class Meta:
        verbose_name = pgettext_lazy("model", "run of a job")
        verbose_name_plural = pgettext_lazy("model", "runs of jobs")
        ordering = ("-last_seen",)
        indexes = [
            models.Index(fields=("job", "-last_seen"), name="job_run_newest"),
            models.Index(fields=("program", "-last_seen"), name="job_run_program"),
            models.Index(fields=("last_seen",), name="job_run_seen"),
        ]

    def __str__(self) -> str:
        return f"{self.job} {self.first_seen:%Y-%m-%d %H:%M}"


class SlowFrame(models.Model):
    """The features of one scope's targets, as the newest run of the task made them; `part`: now, or day."""

    scope = models.CharField(max_length=10)
    part = models.CharField(max_length=5)
    at = models.DateTimeField()
    payload = models.BinaryField(help_text="Arrow IPC of a Polars frame, zstd.")

    class Meta:
        verbose_name = pgettext_lazy("model", "frame of features")
        verbose_name_plural = pgettext_lazy("model", "frames of features")
        constraints = [models.UniqueConstraint(fields=("scope", "part"), name="slow_frame_once")]

    def __str__(self) -> str:
        return f"{self.scope} {self.part}"
