"""Who may speak: people, API tokens, agents' tokens. Tokens are kept as digests only."""

import hashlib
import secrets
from datetime import timedelta
from typing import Final, Self

from django.contrib.auth.models import AbstractUser
from django.core.validators import RegexValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import pgettext_lazy

node_name = RegexValidator(
    r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z",
    "A node's name has letters, digits, dots, dashes and underscores only, and begins with a letter or a digit.",
)


class User(AbstractUser):
    """A person; roles are Django groups."""


def digest(token: str) -> str:
    """SHA-256 of a token; tokens carry 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(token.encode()).hexdigest()


class Token(models.Model):
    """What agents' and API tokens share: shown once when made, kept as a digest, revocable."""

    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True

    @classmethod
    def issue(cls, **owner: object) -> tuple[Self, str]:
        """A new row and its token in the clear, which is never to be had again."""
        token = secrets.token_urlsafe(32)
        return cls._default_manager.create(digest=digest(token), **owner), token

    @classmethod
    def of(cls, token: str) -> Self | None:
        """The live row of a token, or None."""
        return cls._default_manager.filter(digest=digest(token), revoked_at=None).first()


class AgentToken(Token):
    """Lets one agent speak for one node."""

    node_name = models.CharField(max_length=200, db_index=True, validators=[node_name])

    class Meta:
        verbose_name = pgettext_lazy("model", "agent token")
        verbose_name_plural = pgettext_lazy("model", "agent tokens")

    def __str__(self) -> str:
        return f"agent of {self.node_name}"


SCOPES: Final[dict[str, str]] = {
    "read": "reads everything",
    "health": "reads the health of nodes and GPUs, and placements",
    "metrics": "reads /metrics and /metrics/gpus",
    "jobs": "tells of jobs; reads health and placements",
    "findings": "moves advice",
    "alerts": "acknowledges and silences alerts, and decides where they go",
    "annotations": "tells and deletes annotations",
    "reports": "sends bench runs and profiles",
    "rules": "sets rules and thresholds, and writes own rules",
    "commands": "asks agents",
    "events": "tells of alerts, as Alertmanager's webhook",
}
"""What a token may be narrowed to, whatever else its person may."""


class ApiToken(Token):
    """Lets a program call the REST API as one person: what that person may, within the token's scopes."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    may_write = models.BooleanField(default=False, help_text="Where it has no scopes: it changes what its person may change.")
    scopes = models.JSONField(
        default=list, blank=True, help_text="All that it may do; empty: it reads everything, and writes if `may_write` says so."
    )
    expires_at = models.DateTimeField(null=True, blank=True, help_text="From then on it is refused; empty: never.")

    class Meta:
        verbose_name = pgettext_lazy("model", "API token")
        verbose_name_plural = pgettext_lazy("model", "API tokens")

    def __str__(self) -> str:
        return f"{self.name} of {self.user}"

    @classmethod
    def of(cls, token: str) -> Self | None:
        """The live row of a token, or None."""
        row = super().of(token)
        return None if row is None or (row.expires_at is not None and row.expires_at <= timezone.now()) else row

    def allows(self, scope: str) -> bool:
        """Whether it may do what belongs to one of SCOPES."""
        if self.scopes:
            return scope in self.scopes
        return self.may_write or scope in ("read", "health", "metrics")


class EnrolmentCode(models.Model):
    """Lets one new agent fetch its token, once and soon. Kept as a digest; shown once when made."""

    digest = models.CharField(max_length=64, unique=True)
    node_name = models.CharField(
        max_length=200,
        blank=True,
        validators=[node_name],
        help_text="The only node that may use it; empty: any that has no token yet.",
    )
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
    used_by = models.CharField(max_length=200, blank=True, help_text="The node that was enrolled with it.")

    class Meta:
        verbose_name = pgettext_lazy("model", "enrolment code")
        verbose_name_plural = pgettext_lazy("model", "enrolment codes")

    def __str__(self) -> str:
        return f"enrolment of {self.used_by or self.node_name or 'any node'}"

    @classmethod
    def issue(cls, node: str, lifetime: timedelta) -> str:
        """A new code in the clear, which is never to be had again."""
        code = secrets.token_urlsafe(24)
        cls._default_manager.create(digest=digest(code), node_name=node, expires_at=timezone.now() + lifetime)
        return code
