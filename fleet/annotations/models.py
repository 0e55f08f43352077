"""What schedulers, pipelines and people told of a target: advisor/annotations.py has the keys."""

from typing import Final

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import pgettext_lazy

MAX_TARGET: Final = 300
"""Characters of a target or of a pattern for targets."""


class Annotation(models.Model):
    """One value for one key of one target, or of all targets that a pattern fits. Telling it anew replaces it.

    A target is a job as the pages name it (`node/user/program`), a node's name, a serving engine (`node/address`,
    or the name of its model) or `fleet`. Of jobs, nodes and services it may be a pattern with `*` and `?`.
    """

    scope = models.CharField(max_length=10)
    target = models.CharField(max_length=MAX_TARGET)
    key = models.CharField(max_length=60)
    value = models.JSONField(help_text="A number, true or false, or a short text; advisor/annotations.py says which.")
    at = models.DateTimeField(default=timezone.now, help_text="When it was so.")
    until = models.DateTimeField(null=True, blank=True, help_text="From then on it counts no more; empty: until it is deleted.")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    by_name = models.CharField(max_length=150, blank=True)

    class Meta:
        verbose_name = pgettext_lazy("model", "annotation")
        verbose_name_plural = pgettext_lazy("model", "annotations")
        ordering = ("scope", "target", "key")
        constraints = [models.UniqueConstraint(fields=("scope", "target", "key"), name="annotation_once")]

    def __str__(self) -> str:
        return f"{self.scope} {self.target}: {self.key}"
