"""What is known of targets beyond the last minutes: runs of jobs with their figures, and frames of features for the judge."""

from django.db import models
from django.utils.translation import pgettext_lazy

from fleet.inventory.models import Node
from fleet.jobs.models import Job


class JobRun(models.Model):
    """One run of a job, from the start of its first process to the end of its last.

    `job` is what the pages call it (`node/user/program`), `program` its family: the same without the node and without
    what tells one run from the next (advisor/job_family.py). Figures are medians over its minutes; `parts` has the counts of
    minutes that they are made of, by measure and by step of a logarithmic scale (summary.py).
    """

    job = models.CharField(max_length=300)
    job_row = models.ForeignKey(
        Job, on_delete=models.SET_NULL, null=True, blank=True, related_name="runs",
        help_text="The job as its scheduler told of it, or as its processes show it. One that starts its program again has several runs.",
    )  # fmt: skip
    program = models.CharField(max_length=420)
    node = models.ForeignKey(
        Node, on_delete=models.CASCADE, related_name="job_runs", help_text="The first of its nodes, whose processes `pids` has."
    )
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


class Coverage(models.Model):
    """How much of one minute of the fleet is known to be whose: GPUs that reported, and the seconds in which their engines had work.

    A GPU that nobody holds and that does nothing is in `present` alone.
    """

    start = models.BigIntegerField(unique=True, help_text="The minute's first second.")
    present = models.PositiveIntegerField(help_text="GPUs that reported.")
    scheduled = models.PositiveIntegerField(help_text="Of these, given to a job by its scheduler, shared ones too.")
    processes = models.PositiveIntegerField(help_text="Whose job only processes show.")
    unknown = models.PositiveIntegerField(help_text="That worked, nobody knows for whom.")
    busy_scheduled_s = models.FloatField()
    busy_processes_s = models.FloatField()
    busy_unknown_s = models.FloatField()

    class Meta:
        verbose_name = pgettext_lazy("model", "minute of attribution")
        verbose_name_plural = pgettext_lazy("model", "minutes of attribution")
        ordering = ("-start",)

    def __str__(self) -> str:
        return str(self.start)


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
