"""What stays of a job when its telemetry has aged out."""

from django.db import models
from django.utils.translation import pgettext_lazy

from fleet.jobs.models import Job


class JobSummary(models.Model):
    """The report of one job as it was made last, and the figures of it that lists are sorted by.

    It is made anew while its job runs and for a while after, for readings come late; then it is final. A report that is made anew never takes
    the place of one that saw more of an ended job. One that is final is made anew where something else is told of its job, or of another
    that held the same GPUs, as long as the store has readings of the job.
    """

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="summary")
    made_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True, blank=True, help_text="When it is to be made anew; empty: it is final.")
    outdated_since = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When something else was told of what the job held, and its telemetry had aged out; empty: the report is of what is known.",
    )
    document = models.JSONField(help_text="The report, as fleet/reports/document.py makes it.")
    bottleneck = models.CharField(max_length=20, blank=True, help_text="Empty: not judged.")
    gpu_hours = models.FloatField(help_text="Of devices that were its own.")
    idle_gpu_hours = models.FloatField(null=True, blank=True, help_text="Of these, in which nothing ran; empty: not known.")
    energy_j = models.FloatField(null=True, blank=True, help_text="Empty: not read.")
    coverage = models.FloatField(help_text="The part of its GPU time that has readings.")

    class Meta:
        verbose_name = pgettext_lazy("model", "summary of a job")
        verbose_name_plural = pgettext_lazy("model", "summaries of jobs")
        indexes = [models.Index(fields=("due_at",), name="job_summary_due")]

    def __str__(self) -> str:
        return str(self.job)
