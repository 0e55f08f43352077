"""Where findings are announced, and one row for each attempt to do so."""

from django.db import models
from django.utils import timezone
from django.utils.translation import pgettext_lazy

from fleet.findings.models import Transition

DELIVERY_STATES = ("pending", "sending", "sent", "failed", "dead")


class Route(models.Model):
    """A chat, mail or webhook target, as an Apprise URL. The URL holds secrets: it is never shown or logged."""

    name = models.CharField(max_length=100, unique=True)
    url = models.CharField(max_length=2000)
    min_severity = models.CharField(max_length=10, default="warn")
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name = pgettext_lazy("model", "route")
        verbose_name_plural = pgettext_lazy("model", "routes")

    def __str__(self) -> str:
        return self.name


class Delivery(models.Model):
    """One transition to one route: pending -> sending -> sent, or failed (tried again) and at last dead.

    Transitions of one kind that are routed together share one message: that of their `lead`.
    """

    route = models.ForeignKey(Route, on_delete=models.CASCADE, related_name="deliveries")
    transition = models.ForeignKey(Transition, on_delete=models.CASCADE, related_name="deliveries")
    lead = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="others",
        help_text="The delivery whose message tells of this one too; its state is this one's. Null: a message of its own.",
    )
    state = models.CharField(max_length=10, default="pending")
    attempts = models.PositiveSmallIntegerField(default=0)
    next_try_at = models.DateTimeField(default=timezone.now)
    queued_at = models.DateTimeField(null=True, blank=True, help_text="When it was handed to a messenger that has not begun yet.")
    claimed_at = models.DateTimeField(null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    may_repeat = models.BooleanField(
        default=False, help_text="An earlier attempt may have arrived without our knowing; the message says so."
    )
    error = models.CharField(max_length=500, blank=True)
    key = models.CharField(max_length=64, unique=True, help_text="Stays the same over retries; receivers may drop repeats by it.")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name = pgettext_lazy("model", "delivery")
        verbose_name_plural = pgettext_lazy("model", "deliveries")
        constraints = [models.UniqueConstraint(fields=("route", "transition"), name="one_delivery")]
        indexes = [models.Index(fields=("state", "next_try_at"), name="delivery_due")]

    def __str__(self) -> str:
        return f"{self.transition} to {self.route}: {self.state}"
