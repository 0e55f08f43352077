"""What people ask of agents: who, when, why, and what came of it. The rows are the audit log; nobody edits them."""

from typing import Final

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import pgettext_lazy

from fleet.inventory.models import Node

WHAT: Final = ("pause_profiling", "resume_profiling", "release_driver", "take_driver_back")
TIMED: Final = ("pause_profiling", "release_driver")
"""Those that last for `seconds`; the other two end them."""
STATES: Final = ("waiting", "sent", "done", "refused", "expired")
OPEN: Final = ("waiting", "sent")
LONGEST_S: Final = 24 * 3600
"""An agent takes no longer time."""


class Command(models.Model):
    """One command to the agent of one node.

    waiting: its node has not come; sent: its agent has it; done or refused: it answered; expired: it did not come, or did not
    answer, in time. A node or a person that is deleted leaves its name here.
    """

    node = models.ForeignKey(Node, on_delete=models.SET_NULL, null=True, related_name="commands")
    node_name = models.CharField(max_length=200)
    what = models.CharField(max_length=30)
    seconds = models.PositiveIntegerField(null=True, blank=True, help_text="How long it lasts; null for what ends another.")
    reason = models.CharField(max_length=300, help_text="Why, in the words of who asked.")
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    asked_by_name = models.CharField(max_length=150)
    asked_at = models.DateTimeField(default=timezone.now)
    state = models.CharField(max_length=10, default="waiting")
    answer = models.CharField(max_length=1000, blank=True, help_text="The agent's own words.")
    boot = models.CharField(max_length=64, blank=True, help_text="The boot of the agent that it was sent to.")
    expires_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)
    answered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = pgettext_lazy("model", "command")
        verbose_name_plural = pgettext_lazy("model", "commands")
        ordering = ("-id",)
        constraints = [
            models.UniqueConstraint(fields=("node", "what"), condition=models.Q(state__in=OPEN), name="command_one_open")
        ]
        indexes = [
            models.Index(fields=("expires_at",), condition=models.Q(state__in=OPEN), name="command_open"),
            models.Index(fields=("node", "-id"), name="command_of_node"),
        ]

    def __str__(self) -> str:
        return f"{self.what} on {self.node_name}"
