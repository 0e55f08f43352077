"""What a site sets of the rules: which are on, other thresholds, rules of its own, and who changed what when."""

from typing import Any, Final, NoReturn

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext, pgettext_lazy

STATES: Final = ("on", "shadow", "off")
"""on: judged and told; shadow: judged, kept for its page, told to nobody; off: not judged."""
MATCHERS: Final = ("site", "gpu_model", "partition", "node", "job_family", "job")
"""What an override holds for, from the widest to the narrowest; but for `site` a pattern says which."""


class RulesVersion(models.Model):
    """One row, whose token is another after every change: whoever keeps what is in force looks at it first."""

    token = models.CharField(max_length=32)

    class Meta:
        verbose_name = pgettext_lazy("model", "version of the rules")
        verbose_name_plural = pgettext_lazy("model", "versions of the rules")

    def __str__(self) -> str:
        return self.token


class RuleState(models.Model):
    """A rule that is not as it was shipped: on, in shadow, or off."""

    rule = models.CharField(max_length=60, unique=True)
    state = models.CharField(max_length=10)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    by_name = models.CharField(max_length=150)
    at = models.DateTimeField(default=timezone.now)
    comment = models.CharField(max_length=300, blank=True)

    class Meta:
        verbose_name = pgettext_lazy("model", "state of a rule")
        verbose_name_plural = pgettext_lazy("model", "states of rules")

    def __str__(self) -> str:
        return f"{self.rule}: {self.state}"


class Override(models.Model):
    """Another value of one threshold, for the whole site or for what a pattern matches (`*` any characters, `?` one)."""

    rule = models.CharField(max_length=60, db_index=True)
    threshold = models.CharField(max_length=80)
    matcher = models.CharField(max_length=10)
    pattern = models.CharField(
        max_length=300,
        blank=True,
        help_text="Of the GPU's model, the partition, the node's name, the job's family or the job; empty for the site.",
    )
    value = models.FloatField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    by_name = models.CharField(max_length=150)
    at = models.DateTimeField(default=timezone.now)
    comment = models.CharField(max_length=300, blank=True)

    class Meta:
        verbose_name = pgettext_lazy("model", "override")
        verbose_name_plural = pgettext_lazy("model", "overrides")
        ordering = ("rule", "threshold", "matcher", "pattern")
        constraints = [models.UniqueConstraint(fields=("rule", "threshold", "matcher", "pattern"), name="one_override")]

    def __str__(self) -> str:
        return f"{self.rule} {self.threshold} {self.matcher} {self.pattern}: {self.value}"


class XidOverride(models.Model):
    """What an XID (or an NVSwitch's SXid) means here, for the whole site or for what a pattern matches: another rule, severity, or nothing."""

    kind = models.CharField(max_length=4, help_text="xid, or sxid of an NVSwitch.")
    code = models.PositiveIntegerField()
    matcher = models.CharField(max_length=10)
    pattern = models.CharField(
        max_length=300, blank=True, help_text="Of the GPU's model, the partition or the node's name; empty for the site."
    )
    rule = models.CharField(max_length=60, blank=True, help_text="The rule that it is evidence for; empty: as shipped.")
    severity = models.CharField(max_length=10, blank=True, help_text="Of its findings; empty: as shipped.")
    ignored = models.BooleanField(default=False, help_text="It opens nothing; the event is kept.")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    by_name = models.CharField(max_length=150)
    at = models.DateTimeField(default=timezone.now)
    comment = models.CharField(max_length=300, blank=True)

    class Meta:
        verbose_name = pgettext_lazy("model", "override of an XID")
        verbose_name_plural = pgettext_lazy("model", "overrides of XIDs")
        ordering = ("kind", "code", "matcher", "pattern")
        constraints = [models.UniqueConstraint(fields=("kind", "code", "matcher", "pattern"), name="one_xid_override")]

    def __str__(self) -> str:
        return f"{self.kind} {self.code} {self.matcher} {self.pattern}"


class OwnRule(models.Model):
    """A rule that the site wrote. It is off until somebody sets its state, and comes on only after it was tried."""

    slug = models.CharField(max_length=60, unique=True)
    scope = models.CharField(max_length=10)
    severity = models.CharField(max_length=10)
    group = models.CharField(max_length=15)
    opens = models.TextField()
    clears = models.TextField()
    title = models.CharField(max_length=200)
    summary = models.CharField(max_length=1000)
    change = models.TextField(blank=True, help_text="What to do, in words or as a command; `{feature}` fields are filled in.")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    by_name = models.CharField(max_length=150)
    at = models.DateTimeField(default=timezone.now, help_text="When it was changed last.")
    error = models.CharField(max_length=500, blank=True, help_text="Why the newest judgement could not use it.")

    class Meta:
        verbose_name = pgettext_lazy("model", "own rule")
        verbose_name_plural = pgettext_lazy("model", "own rules")
        ordering = ("slug",)

    def __str__(self) -> str:
        return self.slug


class Trial(models.Model):
    """An own rule tried against the last day: at so many windows, which targets it would have fired on."""

    rule = models.ForeignKey(OwnRule, on_delete=models.CASCADE, related_name="trials")
    digest = models.CharField(max_length=64, help_text="Of the conditions that were tried.")
    by_name = models.CharField(max_length=150)
    asked_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=500, blank=True)
    windows_total = models.PositiveSmallIntegerField()
    windows_looked_at = models.PositiveSmallIntegerField(default=0)
    windows_with_data = models.PositiveSmallIntegerField(default=0)
    judged_total = models.PositiveIntegerField(default=0, help_text="Targets judged, summed over the windows.")
    fired_total = models.PositiveIntegerField(default=0, help_text="Of them those on which it would have fired.")
    targets = models.JSONField(default=dict, help_text="By target, in how many windows it would have fired.")
    of_now = models.JSONField(
        default=list, help_text="Features that it took as they are now, whatever the window: nobody keeps what they were."
    )

    class Meta:
        verbose_name = pgettext_lazy("model", "trial")
        verbose_name_plural = pgettext_lazy("model", "trials")
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.rule}: {self.windows_looked_at} of {self.windows_total}"


class RuleChanges(models.QuerySet["RuleChange"]):
    """What is written stays as it is."""

    def update(self, **_: Any) -> NoReturn:
        """Never."""
        raise TypeError(gettext("The audit trail of rules is only ever added to."))

    def delete(self) -> NoReturn:
        """Never."""
        raise TypeError(gettext("The audit trail of rules is only ever added to."))


class RuleChange(models.Model):
    """One change of what the site sets of a rule. Rows are added and never changed; a person that is deleted leaves the name."""

    rule = models.CharField(max_length=60)
    what = models.CharField(max_length=10, help_text="state, override, rule (an own one was written), removed, or xid")
    before = models.JSONField(null=True, help_text="What it was; null where there was nothing.")
    after = models.JSONField(null=True, help_text="What it is; null where nothing is left.")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    by_name = models.CharField(max_length=150)
    at = models.DateTimeField(default=timezone.now)
    comment = models.CharField(max_length=300, blank=True)

    objects = RuleChanges.as_manager()

    class Meta:
        verbose_name = pgettext_lazy("model", "change of a rule")
        verbose_name_plural = pgettext_lazy("model", "changes of rules")
        ordering = ("-id",)
        indexes = [models.Index(fields=("rule", "-id"), name="rulechange_of_rule")]

    def __str__(self) -> str:
        return f"{self.rule}: {self.what} by {self.by_name}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Write it once."""
        if not self._state.adding:
            raise TypeError(gettext("The audit trail of rules is only ever added to."))
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Never."""
        raise TypeError(gettext("The audit trail of rules is only ever added to."))
