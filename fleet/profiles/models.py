"""Summaries of profiles; rows are written once and go by their age."""

from django.db import models
from django.utils import timezone
from django.utils.translation import pgettext_lazy

from fleet.inventory.models import Node


class JobProfile(models.Model):
    """One profile of a job. While `job` is empty its process has not been seen to hold a GPU."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="job_profiles")
    job = models.CharField(max_length=300, blank=True, help_text="As findings name it; empty: not known yet.")
    pid = models.PositiveIntegerField(null=True, blank=True, help_text="The process that was profiled, where it was sent by it.")
    at = models.DateTimeField(help_text="When the trace was written, by the clock of who sent it.")
    received_at = models.DateTimeField(default=timezone.now)
    digest = models.CharField(max_length=64, help_text="SHA-256 of the summary: the same one comes again.")
    features = models.JSONField(default=dict, help_text="What rules read of it, by the feature's name.")
    summary = models.JSONField(default=dict, help_text="The report as it came (wire/profile.py).")

    class Meta:
        verbose_name = pgettext_lazy("model", "profile")
        verbose_name_plural = pgettext_lazy("model", "profiles")
        ordering = ("-at", "-id")
        constraints = [models.UniqueConstraint(fields=("node", "digest"), name="job_profile_once")]
        indexes = [
            models.Index(fields=("job", "-at"), name="job_profile_newest"),
            models.Index(fields=("received_at",), name="job_profile_received"),
            models.Index(fields=("node", "pid"), condition=models.Q(job=""), name="job_profile_of_nobody"),
        ]

    def __str__(self) -> str:
        return f"{self.job or self.node.name} {self.at:%Y-%m-%d %H:%M}"
