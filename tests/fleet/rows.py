"""Rows that tests of findings, notify and api stand on; each call makes one, with what matters given by name."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from django.utils import timezone

from advisor.finding import Change, Evidence, Finding, Gain, Severity
from advisor.text import Text
from fleet.accounts.models import ApiToken, User
from fleet.inventory.models import Event, Gpu, Node

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
_seq = count()


def node(name: str = "n1", **more: Any) -> Node:
    """A node that reported just now."""
    return Node.objects.create(**{"name": name, "last_seen_at": timezone.now(), "cores": 32, **more})


def gpu(of: Node, index: int = 0, **more: Any) -> Gpu:
    """A GPU of the node."""
    defaults = {"uuid": f"GPU-{of.name}-{index}", "index": index, "model": "NVIDIA H200", "mem_total_bytes": 150_754_820_096}
    return Gpu.objects.create(node=of, **{**defaults, **more})


def event(of: Gpu, code: int | None = 79, kind: str = "xid", at: datetime | None = None, text: str = "") -> Event:
    """An event of the GPU, not handled yet."""
    return Event.objects.create(
        node=of.node, gpu=of, boot="b", seq=next(_seq), kind=kind, code=code, text=text, observed_at=at or timezone.now()
    )


def found(
    target: str = "1", rule: str = "power-cap-limited", severity: Severity = "warn", scope: Any = "gpu", **more: Any
) -> Finding:
    """What a rule says of one target."""
    said: dict[str, Any] = {
        "rule": rule,
        "severity": severity,
        "scope": scope,
        "target": target,
        "bottleneck": "clocks",
        "confidence": "high",
        "title": Text("The power limit takes the speed"),
        "summary": Text("At {power_w:.0f} W the clocks fall for {share:.0%} of the time.", {"power_w": 500.4, "share": 0.25}),
        "evidence": (Evidence("sm_active", 0.913, "ratio", 0.5, ">="), Evidence("power_w", 500.4, "watts")),
        "change": (Change("command", "nvidia-smi -i GPU-1 -pl 700"),),
        "expected_gain": Gain(1.05, 1.2, Text("Measured on one card.")),
        "recoverable": 0.1,
        "risk": Text("More heat."),
        "rollback": Text("Set the limit back."),
        "verify": Text("The clocks hold."),
        "sources": ("https://example.org/power",),
    }
    return Finding(**{**said, **more})


def person(name: str = "alice", *, changes: bool = False) -> User:
    """Alice may change findings when `changes`; others read."""
    user = User.objects.create_user(name, password="correct horse")
    if changes:
        from django.contrib.auth.models import Permission

        user.user_permissions.add(Permission.objects.get(codename="change_finding"))
    return user


def token(of: User, *, write: bool = False) -> str:
    """An API token in the clear."""
    return ApiToken.issue(user=of, name="test", may_write=write)[1]


def minutes(number: float) -> timedelta:
    """So many minutes."""
    return timedelta(minutes=number)
