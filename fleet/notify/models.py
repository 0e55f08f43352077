"""Where alerts are announced, what keeps them quiet, and one row for each message.

An alert is a finding whose condition fires. Each change of it that people are told becomes a `Delivery` for each route that takes it;
deliveries of one route that belong together wait in a `Group` and leave as one message.
"""

from typing import Final

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import pgettext_lazy

from fleet.findings.models import Finding, Transition

DELIVERY_STATES: Final = ("waiting", "pending", "sending", "sent", "failed", "dead", "muted")
KINDS: Final = ("news", "repeat", "escalation")
"""Of deliveries: a change of state, the same alert still firing, an alert that nobody acknowledged."""
LABELS: Final = (
    "severity", "rule", "group", "scope", "cluster", "partition", "node", "gpu_model", "rack", "owner", "team", "job", "service",
)  # fmt: skip
"""What matchers, groups and inhibitions may name of an alert (alert_labels.py)."""
OPERATORS: Final = ("in", "not_in")


class Route(models.Model):
    """A chat, mail or webhook target, as an Apprise URL, and what it takes. The URL holds secrets: it is never shown or logged.

    Every enabled route whose matchers fit takes an alert, in the order of `position`, up to and with the first that is `last`.
    """

    name = models.CharField(max_length=100, unique=True)
    url = models.CharField(max_length=2000)
    min_severity = models.CharField(max_length=10, default="warn")
    enabled = models.BooleanField(default=True)
    position = models.PositiveSmallIntegerField(default=100, help_text="Routes are asked from the smallest to the greatest.")
    last = models.BooleanField(default=False, help_text="Routes after it do not get what it takes.")
    matchers = models.JSONField(
        default=list,
        blank=True,
        help_text='What it takes, all of: [{"label": "partition", "op": "in", "values": ["prod*"]}]; `op` is in or not_in, `*` stands for '
        "any characters and `?` for one. Empty: everything.",
    )
    active_times = models.JSONField(
        default=list,
        blank=True,
        help_text='When it takes them, any of: [{"days": [0, 1, 2, 3, 4], "from": "09:00", "to": "18:00", "timezone": "Asia/Shanghai"}], '
        "Monday is 0. What comes outside is held until they begin. Empty: always.",
    )
    group_by = models.JSONField(
        default=list, blank=True, help_text="Labels by which alerts share a message. Empty: rule and severity."
    )
    group_wait_s = models.FloatField(
        default=10.0,
        help_text="How long the first alert of a group waits for more of its kind, in seconds. A critical one never waits.",
    )
    group_interval_s = models.FloatField(
        default=60.0, help_text="Seconds between two messages of one group; critical ones never wait."
    )
    repeat_every_s = models.FloatField(
        null=True,
        blank=True,
        default=14_400.0,
        help_text="An alert that still fires and nobody acknowledged is told again after so many seconds. Empty: never.",
    )
    send_resolved = models.BooleanField(default=True, help_text="Whether it is told of an alert's end.")
    max_per_minute = models.PositiveSmallIntegerField(
        default=12, help_text="Messages a minute; what is more is told as a digest. Critical ones count and never wait."
    )
    language = models.CharField(max_length=10, blank=True, help_text="en or zh-hans; empty: the site's.")
    escalate_after_s = models.FloatField(
        null=True,
        blank=True,
        help_text="An alert that it told and that nobody acknowledged goes to `escalate_to` after so many seconds.",
    )
    escalate_to = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name = pgettext_lazy("model", "route")
        verbose_name_plural = pgettext_lazy("model", "routes")
        ordering = ("position", "pk")

    def __str__(self) -> str:
        return self.name


class Group(models.Model):
    """Alerts of one route that have the values of its `group_by` in common: where their deliveries wait for each other."""

    route = models.ForeignKey(Route, on_delete=models.CASCADE, related_name="groups")
    key = models.CharField(max_length=64, help_text="Digest of the labels.")
    labels = models.JSONField(default=dict, help_text="What its alerts have in common, by label.")
    release_at = models.DateTimeField(null=True, blank=True, help_text="When what waits leaves; empty: nothing waits.")
    sent_at = models.DateTimeField(null=True, blank=True, help_text="When its newest message was made.")

    class Meta:
        verbose_name = pgettext_lazy("model", "group of alerts")
        verbose_name_plural = pgettext_lazy("model", "groups of alerts")
        constraints = [models.UniqueConstraint(fields=("route", "key"), name="group_once")]
        indexes = [models.Index(fields=("release_at",), name="group_due")]

    def __str__(self) -> str:
        return f"{self.route}: {', '.join(f'{label}={value}' for label, value in self.labels.items())}"


class Delivery(models.Model):
    """One transition to one route: waiting -> pending -> sending -> sent, or failed (tried again) and at last dead; or muted.

    Those that leave together share one message: that of their `lead`.
    """

    route = models.ForeignKey(Route, on_delete=models.CASCADE, related_name="deliveries")
    transition = models.ForeignKey(Transition, on_delete=models.CASCADE, related_name="deliveries")
    kind = models.CharField(max_length=10, default="news")
    round = models.PositiveIntegerField(default=0, help_text="Of repeats and escalations: the how-manieth.")
    group = models.ForeignKey(Group, on_delete=models.SET_NULL, null=True, blank=True, related_name="deliveries")
    lead = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="others",
        help_text="The delivery whose message tells of this one too; its state is this one's. Null: a message of its own.",
    )
    state = models.CharField(max_length=10, default="pending")
    why_muted = models.CharField(
        max_length=300, blank=True, help_text="What kept it quiet: a silence, an inhibition, a cause that was told; a sentence."
    )
    is_digest = models.BooleanField(
        default=False, help_text="Its message tells of alerts of several groups, because its route is above its rate."
    )
    released_at = models.DateTimeField(
        null=True, blank=True, help_text="When it left its group; empty while it waits or is muted."
    )
    attempts = models.PositiveSmallIntegerField(default=0)
    next_try_at = models.DateTimeField(default=timezone.now)
    queued_at = models.DateTimeField(null=True, blank=True, help_text="When it was handed to a messenger that has not begun yet.")
    claimed_at = models.DateTimeField(null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    may_repeat = models.BooleanField(
        default=False, help_text="An earlier attempt may have arrived without our knowing; the message says so."
    )
    status = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="HTTP status of the newest answer, where there was one."
    )
    error = models.CharField(max_length=500, blank=True)
    arrived = models.JSONField(
        default=list, blank=True, help_text="Digests of the parts that the target took; the next attempt leaves them out."
    )
    key = models.CharField(max_length=64, unique=True, help_text="Stays the same over retries; receivers may drop repeats by it.")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name = pgettext_lazy("model", "delivery")
        verbose_name_plural = pgettext_lazy("model", "deliveries")
        constraints = [models.UniqueConstraint(fields=("route", "transition", "kind", "round"), name="one_delivery")]
        indexes = [
            models.Index(fields=("state", "next_try_at"), name="delivery_due"),
            models.Index(fields=("-created_at",), name="delivery_newest"),
            models.Index(fields=("released_at",), name="delivery_released"),
        ]

    def __str__(self) -> str:
        return f"{self.transition} to {self.route}: {self.state}"


class Silence(models.Model):
    """From `starts_at` to `ends_at` alerts that its matchers fit are told to nobody; they are kept, and shown as silenced."""

    matchers = models.JSONField(help_text="As a route's; at least one.")
    starts_at = models.DateTimeField(default=timezone.now)
    ends_at = models.DateTimeField(help_text="What still fires then is told.")
    comment = models.CharField(max_length=300, help_text="Why; people ask at three in the morning.")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    by_name = models.CharField(max_length=150)
    created_at = models.DateTimeField(default=timezone.now)
    ended_by_name = models.CharField(max_length=150, blank=True, help_text="Who ended it before its time; empty: nobody.")

    class Meta:
        verbose_name = pgettext_lazy("model", "silence")
        verbose_name_plural = pgettext_lazy("model", "silences")
        ordering = ("-ends_at", "-pk")
        indexes = [models.Index(fields=("ends_at",), name="silence_end")]

    def __str__(self) -> str:
        return f"{self.comment} ({self.by_name})"


class Inhibition(models.Model):
    """While an alert that `source` fits fires, those that `target` fits and that have the `equal` labels in common are not told."""

    name = models.CharField(max_length=100, unique=True)
    source = models.JSONField(help_text="Matchers, as a route's; at least one.")
    target = models.JSONField(help_text="Matchers, as a route's; at least one.")
    equal = models.JSONField(default=list, blank=True, help_text="Labels whose values both have, and have alike.")
    enabled = models.BooleanField(default=True)

    class Meta:
        verbose_name = pgettext_lazy("model", "inhibition")
        verbose_name_plural = pgettext_lazy("model", "inhibitions")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Acknowledgement(models.Model):
    """Somebody looks after an alert: no repeat and no escalation, until it grows worse than it was then."""

    finding = models.ForeignKey(Finding, on_delete=models.CASCADE, related_name="acknowledgements")
    severity_rank = models.PositiveSmallIntegerField(help_text="Of the finding when it was acknowledged.")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    by_name = models.CharField(
        max_length=150, help_text="Of a link in a message: the route's name, for whoever reads there may press it."
    )
    via = models.CharField(max_length=4, help_text="page, api or link")
    comment = models.CharField(max_length=300, blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name = pgettext_lazy("model", "acknowledgement")
        verbose_name_plural = pgettext_lazy("model", "acknowledgements")
        ordering = ("-at", "-pk")
        constraints = [models.UniqueConstraint(fields=("finding", "severity_rank"), name="acknowledged_once")]

    def __str__(self) -> str:
        return f"{self.finding} by {self.by_name}"
