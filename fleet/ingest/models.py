"""What ingest processes tell of themselves, for whichever process is asked for /metrics."""

from django.db import models
from django.utils.translation import pgettext_lazy


class Intake(models.Model):
    """What one ingest process took in since it started, written with its books every few seconds."""

    process = models.CharField(max_length=32, unique=True)
    seen_at = models.DateTimeField(db_index=True)
    numbers = models.JSONField(default=dict, help_text="Counters and gauges by name; intake.py says which.")

    class Meta:
        verbose_name = pgettext_lazy("model", "intake")
        verbose_name_plural = pgettext_lazy("model", "intakes")

    def __str__(self) -> str:
        return self.process
