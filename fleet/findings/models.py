"""Findings with their life cycle as rows, and the bottleneck that the advisor sees for each GPU and job."""

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import pgettext_lazy

from fleet.inventory.models import Gpu, Node

CONDITIONS = ("pending", "firing", "noisy", "resolved")
RANK = (
    models.Case(models.When(severity="critical", then=0), default=1),
    models.F("gpu_hours_a_day").desc(nulls_last=True),
    models.F("severity_rank").desc(),
    "rule",
)
"""Strongest first, as the advisor's `Finding.order`: critical, then by GPU-hours to win back, then by severity and rule."""
ADVICE = ("proposed", "accepted", "dismissed", "applied", "helped", "no_effect", "worse", "cannot_tell")


class Finding(models.Model):
    """One rule's verdict on one target, from its opening to its end.

    `condition` is what telemetry says; `advice` is what people made of it. Every change of either is a Transition.
    """

    fingerprint = models.CharField(max_length=400)
    rule = models.CharField(max_length=60, db_index=True)
    severity = models.CharField(max_length=10)
    severity_rank = models.PositiveSmallIntegerField(help_text="0 info to 3 critical, for ordering.")
    scope = models.CharField(max_length=10)
    target = models.CharField(max_length=300)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, null=True, blank=True, related_name="findings")
    gpus = models.ManyToManyField(Gpu, blank=True, related_name="findings")
    bottleneck = models.CharField(max_length=20, blank=True)
    confidence = models.CharField(max_length=10)
    recoverable = models.FloatField(default=0, help_text="Share of the target's time that could be won back.")
    gpus_total = models.PositiveIntegerField(
        null=True, blank=True, help_text="How many GPUs the target stands for. Null: not known."
    )
    gpu_hours_a_day = models.FloatField(
        null=True, blank=True, help_text="GPU-hours a day that could be won back: 0 where nothing could. Null: not known."
    )
    condition = models.CharField(max_length=10, default="pending")
    advice = models.CharField(max_length=15, default="proposed")
    content = models.JSONField(
        help_text="Message ids with parameters: title, summary, evidence, change, gain, risk, rollback, verify, sources."
    )
    origin = models.CharField(
        max_length=5, default="rule", help_text="rule: seen in a window; event: reported by an event (an XID)."
    )
    opened_at = models.DateTimeField(help_text="The end of the window that first showed it, or the event's time.")
    last_seen_at = models.DateTimeField()
    judged_at = models.DateTimeField(null=True, blank=True, help_text="The end of the newest window that saw it or saw it clear.")
    streak = models.IntegerField(default=1, help_text="Judgements of one kind in a row: positive seen, negative clear.")
    streak_since = models.DateTimeField(null=True, blank=True, help_text="The end of the window that began the streak.")
    seen_total = models.PositiveIntegerField(default=1, help_text="Windows that saw it, or events merged into it.")
    resolved_at = models.DateTimeField(null=True, blank=True)
    shadow = models.BooleanField(
        default=False, help_text="Its rule was in shadow when it opened: kept for the rule's page, told to nobody."
    )
    cause = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="consequences",
        help_text="The finding that explains this one; null: none is known, or it is over.",
    )
    cause_place = models.CharField(
        max_length=10, blank=True, help_text="What the two share: gpu, fabric, node, rack, job or cluster; empty without a cause."
    )
    witnesses = models.JSONField(
        default=dict,
        blank=True,
        help_text="Who saw it: a kind of witness to when it first and last did, and how often (first_at, last_at, count).",
    )

    class Meta:
        verbose_name = pgettext_lazy("model", "finding")
        verbose_name_plural = pgettext_lazy("model", "findings")
        ordering = RANK
        constraints = [
            models.UniqueConstraint(fields=("fingerprint",), condition=models.Q(resolved_at=None), name="one_open_finding"),
        ]
        indexes = [
            models.Index(fields=("resolved_at", "-severity_rank"), name="finding_open"),
            models.Index(fields=("fingerprint", "-opened_at"), name="finding_history"),
        ]

    def __str__(self) -> str:
        return f"{self.rule} on {self.target}"


class Transition(models.Model):
    """A finding changed state. Notify reads these rows; nothing is sent from where they are written."""

    finding = models.ForeignKey(Finding, on_delete=models.CASCADE, related_name="transitions")
    axis = models.CharField(
        max_length=10, help_text="condition, advice, or cause: `before` and `after` are then the cause's key, empty for none."
    )
    before = models.CharField(max_length=15, blank=True)
    after = models.CharField(max_length=15)
    at = models.DateTimeField(default=timezone.now)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True)
    note = models.CharField(max_length=500, blank=True)
    routed_at = models.DateTimeField(null=True, blank=True, help_text="When notify made this transition's deliveries.")

    class Meta:
        verbose_name = pgettext_lazy("model", "transition")
        verbose_name_plural = pgettext_lazy("model", "transitions")
        ordering = ("at", "id")
        indexes = [models.Index(fields=("routed_at", "at"), name="transition_unrouted")]

    def __str__(self) -> str:
        return f"{self.finding.rule}: {self.before} -> {self.after}"


class Opened(models.Model):
    """How many findings a rule ever opened. Findings go when their time is over, or with their node; this number stays."""

    rule = models.CharField(max_length=60, unique=True)
    total = models.PositiveBigIntegerField(default=0)

    class Meta:
        verbose_name = pgettext_lazy("model", "findings opened")
        verbose_name_plural = pgettext_lazy("model", "findings opened")

    def __str__(self) -> str:
        return f"{self.rule}: {self.total}"


class Diagnosis(models.Model):
    """The newest bottleneck of one GPU or job, with its shares (fractions of the window that sum to 1)."""

    scope = models.CharField(max_length=10)
    target = models.CharField(max_length=300)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, null=True, blank=True, related_name="diagnoses")
    gpu = models.OneToOneField(Gpu, on_delete=models.CASCADE, null=True, blank=True, related_name="diagnosis")
    bottleneck = models.CharField(max_length=20, blank=True, help_text="Empty: too little was measured to say.")
    confidence = models.CharField(max_length=10, blank=True)
    shares = models.JSONField(default=dict)
    window_start = models.DateTimeField()
    window_end = models.DateTimeField()

    class Meta:
        verbose_name = pgettext_lazy("model", "diagnosis")
        verbose_name_plural = pgettext_lazy("model", "diagnoses")
        constraints = [models.UniqueConstraint(fields=("scope", "target"), name="one_diagnosis")]

    def __str__(self) -> str:
        return f"{self.target}: {self.bottleneck or 'unknown'}"


class Cycle(models.Model):
    """One kind of periodic work: when its newest run began and ended. A run holds the row, so that two never overlap."""

    name = models.CharField(max_length=40, unique=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True, help_text="Null while a run is going, or after one that died.")
    error = models.CharField(max_length=300, blank=True, help_text="Why the newest run failed; empty after a good one.")

    class Meta:
        verbose_name = pgettext_lazy("model", "cycle")
        verbose_name_plural = pgettext_lazy("model", "cycles")

    def __str__(self) -> str:
        return self.name
