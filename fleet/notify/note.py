"""What is to be told, whatever carries it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["info", "success", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert as data, for programs that keep alerts of their own: the same `key` from its beginning to its end."""

    fingerprint: str
    firing: bool
    severity: str
    title: str
    summary: str
    link: str
    starts_at: datetime
    ends_at: datetime | None = None
    """When it ended; None while it fires."""
    labels: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)
    """What may change while it fires, to be shown."""
    is_relabelling: bool = False
    """Not its end, but that of the labels that it had: told where labels name an alert, and nowhere else."""

    @property
    def key(self) -> str:
        """Names the alert to those who merge by it: 64 letters and digits at most."""
        return sha256(self.fingerprint.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Message:
    """What to send, as plain text (see `plain`); `key` goes along where the target takes headers, so that a receiver may drop a repeat."""

    title: str
    body: str
    kind: Kind
    key: str
    extras: Mapping[str, Any] | None = None
    """Further fields of the body, where the target is a program that takes JSON."""
    short: str = ""
    """All of it in a line, for targets that take no more; "" for the title."""
    link: str = ""
    notice: str = ""
    """What each part begins with: that it may be a repeat."""
    tail: str = ""
    """What each part ends with: the link and the key."""
    alerts: tuple[Alert, ...] = ()
    """The same as data, where the target is a program that keeps alerts."""
