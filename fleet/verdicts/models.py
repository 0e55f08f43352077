"""Verdicts on advice that was applied, each with what it was made of."""

from django.db import models
from django.utils.translation import pgettext_lazy

from fleet.findings.models import Finding


class Verification(models.Model):
    """Advice that was applied once, and what was measured before and after. It stays when its finding's time is over: rules are
    judged by it.

    `ratio` is of speeds, whatever the measure: above 1 is faster. While `verdict` is empty it waits for a run to compare with;
    `reason` then says why the runs so far would not do.
    """

    finding = models.ForeignKey(Finding, on_delete=models.SET_NULL, null=True, blank=True, related_name="verifications")
    rule = models.CharField(max_length=60, db_index=True)
    scope = models.CharField(max_length=10)
    target = models.CharField(max_length=300)
    family = models.CharField(max_length=420, blank=True, help_text="What its runs are found by; empty: not a job's.")
    applied_at = models.DateTimeField()
    by_advisor = models.BooleanField(default=False, help_text="Nobody said so: a later run showed that the change was made.")
    due_at = models.DateTimeField(help_text="With nothing to compare by then, it cannot be told.")
    gpu_model = models.CharField(max_length=100, blank=True)
    gpus = models.PositiveIntegerField(default=0)
    told = models.JSONField(default=dict, help_text="Versions, flags and variables of the run before.")
    promised_low = models.FloatField(null=True, blank=True)
    promised_high = models.FloatField(null=True, blank=True)
    before_from = models.DateTimeField(null=True, blank=True)
    before_until = models.DateTimeField(null=True, blank=True)
    after_from = models.DateTimeField(null=True, blank=True)
    after_until = models.DateTimeField(null=True, blank=True)
    before_side = models.JSONField(
        default=dict, help_text="Its phases, its program, whether others worked beside it, and of the whole fleet the GPUs."
    )
    before_samples = models.BinaryField(
        null=True, blank=True, help_text="Arrow IPC of what was measured, zstd: raw telemetry goes."
    )
    looked = models.JSONField(
        default=dict,
        blank=True,
        help_text="Of the time after a change that is no program's: `to`, up to when it was looked at; `alike`, the times too unsure by themselves.",
    )
    after_samples = models.BinaryField(null=True, blank=True)
    measure = models.CharField(max_length=20, blank=True)
    before = models.FloatField(null=True, blank=True)
    after = models.FloatField(null=True, blank=True)
    ratio = models.FloatField(null=True, blank=True)
    ratio_low = models.FloatField(null=True, blank=True)
    ratio_high = models.FloatField(null=True, blank=True)
    p = models.FloatField(null=True, blank=True, help_text="Of the rank test: how likely ranks as far apart would be by chance.")
    verdict = models.CharField(max_length=12, blank=True, help_text="helped, no_effect, worse or cannot_tell; empty: it waits.")
    reason = models.JSONField(default=dict, help_text="A message id with parameters.")
    rollback = models.JSONField(default=dict, help_text="The finding's, kept for one that made it worse.")
    measured_at = models.DateTimeField(null=True, blank=True)
    recovered_gpu_hours = models.FloatField(
        null=True,
        blank=True,
        help_text="GPU-hours that the runs since then would have taken more, of what helped; less than zero: lost.",
    )

    class Meta:
        verbose_name = pgettext_lazy("model", "verification")
        verbose_name_plural = pgettext_lazy("model", "verifications")
        ordering = ("-applied_at", "-pk")
        constraints = [
            models.UniqueConstraint(fields=("finding", "applied_at"), name="verification_once"),
        ]
        indexes = [
            models.Index(fields=("verdict", "due_at"), name="verification_waiting"),
            models.Index(fields=("family", "-applied_at"), name="verification_family"),
        ]

    def __str__(self) -> str:
        return f"{self.rule} on {self.target}: {self.verdict or 'waits'}"
