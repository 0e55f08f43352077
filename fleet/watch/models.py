"""What the watch remembers from one look to the next."""

from django.db import models
from django.utils import timezone
from django.utils.translation import pgettext_lazy


class Watch(models.Model):
    """One row: since when the fleet is looked at without a gap, and what was first seen when."""

    since = models.DateTimeField(
        default=timezone.now, help_text="After a gap nobody was looking: silence before it says nothing."
    )
    ran_at = models.DateTimeField(null=True, blank=True)
    seen = models.JSONField(default=dict, help_text="Since when (epoch seconds) a thing looks wrong, by what it is.")
    still = models.JSONField(
        default=dict, help_text="By GPU what its readings were and since when (epoch seconds) they have not moved."
    )
    still_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = pgettext_lazy("model", "watch")
        verbose_name_plural = pgettext_lazy("model", "watches")

    def __str__(self) -> str:
        return f"since {self.since:%Y-%m-%d %H:%M}"
