"""What a site's Alertmanager tells: an event and a finding for each alert, on the node and the GPU that its labels name.

An alert is known by its fingerprint and the time at which it began: told again it is the same. Alerts that Fettle itself pushed there bear
the label `source` with the value `fettle`, and are dropped when they come back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext_noop

from advisor.event_rule import told
from advisor.finding import Finding, Scope, Severity
from advisor.xid_catalog import BY_RULE
from fleet.findings import lifecycle
from fleet.findings.models import Finding as Row
from fleet.ingest.cleaning import clean
from fleet.inventory.models import Event, Gpu, Node, Refusal
from fleet.tuning.in_force import InForce, in_force

RULE: Final = "told-by-alertmanager"
KIND: Final = "alertmanager"
OURS: Final = ("source", "fettle")
LOOP: Final = "alertmanager_loop"
"""The code under which alerts of our own that came back are counted."""
RESOLVED: Final = gettext_noop("Alertmanager says that it is resolved.")
NODE_LABELS: Final = ("node", "Hostname", "hostname", "nodename", "kubernetes_node", "exported_instance", "instance", "host")
GPU_LABELS: Final = ("UUID", "uuid", "gpu_uuid", "GPU_UUID", "gpu", "GPU", "device")
SEVERITIES: Final[Mapping[str, Severity]] = {
    "critical": "critical", "page": "critical", "error": "critical", "emergency": "critical", "disaster": "critical", "fatal": "critical",
    "high": "critical", "warning": "warn", "warn": "warn", "major": "warn", "medium": "warn", "minor": "advice", "advice": "advice",
    "low": "advice", "notice": "info", "info": "info", "information": "info", "none": "info", "debug": "info",
}  # fmt: skip
"""What sites write into the label `severity`; another word, or none, is a warning."""
_AHEAD: Final = timedelta(minutes=5)
_TEXT: Final = 700


@dataclass(frozen=True, slots=True)
class Told:
    """One alert as Alertmanager tells it."""

    fingerprint: str
    firing: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: datetime
    ends_at: datetime | None = None


@dataclass(slots=True)
class Taken:
    """How many alerts opened something, ended something, said nothing new, and were our own."""

    opened: int = 0
    ended: int = 0
    repeated: int = 0
    loops: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    node: Node | None = None
    gpu: Gpu | None = None

    @property
    def scope(self) -> Scope:
        return "gpu" if self.gpu is not None else "node" if self.node is not None else "fleet"

    def target(self, fingerprint: str) -> str:
        """Several alerts may be told of one device: each is a finding of its own."""
        key = self.gpu.pk if self.gpu is not None else self.node.pk if self.node is not None else "fleet"
        return f"{key}/{fingerprint}"


def take(alerts: Sequence[Told], at: datetime | None = None) -> Taken:
    """Take alerts in; safe to repeat."""
    now, force, done = at or timezone.now(), in_force(), Taken()
    for one in alerts:
        if one.labels.get(OURS[0]) == OURS[1]:
            done.loops += 1
            continue
        with transaction.atomic():
            place = _place(one.labels)
            if one.firing:
                new = _fires(one, place, now, force)
                done.opened, done.repeated = done.opened + new, done.repeated + (not new)
            else:
                over = _ends(one, place, now)
                done.ended, done.repeated = done.ended + over, done.repeated + (not over)
    if done.loops:
        Refusal.objects.get_or_create(node_name="", code=LOOP)
        detail = "alerts of our own came back from Alertmanager"
        Refusal.objects.filter(node_name="", code=LOOP).update(total=F("total") + done.loops, last_at=now, last_detail=detail)
    return done


def _fires(one: Told, place: _Place, now: datetime, force: InForce) -> bool:
    """True where it is news."""
    started = min(one.starts_at, now)
    found = _finding(one, place)
    is_new = _keep(one, place, found, now)
    same = Row.objects.filter(rule=RULE, target__endswith=f"/{one.fingerprint}")
    if not same.filter(resolved_at=None).exists():
        # What ended and began at this time, or after it, is this alert: it is told late or again.
        if RULE in force.off or same.filter(opened_at__gte=started).exists():
            return False
        lifecycle.report(
            now, found, lifecycle.Place(place.node.pk if place.node else None, (place.gpu.pk,) if place.gpu else ()), since=started,
            shadow=RULE in force.shadow,
        )  # fmt: skip
        return True
    return is_new


def _ends(one: Told, place: _Place, now: datetime) -> bool:
    """True where it ended something."""
    _keep(one, place, _finding(one, place), now)
    rows = Row.objects.filter(
        rule=RULE, target__endswith=f"/{one.fingerprint}", resolved_at=None, opened_at__lte=one.starts_at + _AHEAD
    )
    return sum(lifecycle.end(fingerprint, now, RESOLVED) for fingerprint in rows.values_list("fingerprint", flat=True)) > 0


def _keep(one: Told, place: _Place, found: Finding, now: datetime) -> bool:
    """Keep it as an event of its node, once; False where it was kept before, or no node is known."""
    if place.node is None:
        return False
    begun = int(one.starts_at.timestamp() * 1000)
    params = found.summary.params
    row, is_new = Event.objects.get_or_create(
        node=place.node,
        boot=f"am-{one.fingerprint}"[:64],
        seq=2 * begun + (not one.firing),
        defaults={
            "gpu": place.gpu,
            "kind": KIND,
            "severity": {"advice": "info"}.get(found.severity, found.severity),
            "text": f"{params['alertname']}: {params['said']}" + ("" if one.firing else " (resolved)"),
            "details": {"fatal": int(found.severity == "critical")} if one.firing else {},
            "observed_at": min(one.starts_at if one.firing else one.ends_at or now, now),
            "received_at": now,
            "handled_at": now,
        },
    )
    return is_new and row.pk is not None


def _finding(one: Told, place: _Place) -> Finding:
    name = clean(one.labels.get("alertname", ""), 120) or "alert"
    said = next(
        (text for key in ("summary", "description", "message") if (text := clean(one.annotations.get(key, ""), _TEXT).strip())),
        name,
    )
    severity = SEVERITIES.get(one.labels.get("severity", "").strip().lower(), "warn")

    rule = replace(BY_RULE[RULE], scope=place.scope)
    return told(
        rule, place.target(one.fingerprint), {"alertname": name, "said": said}, (), node=place.node.name if place.node else "",
        severity=severity,
    )  # fmt: skip


def _place(labels: Mapping[str, str]) -> _Place:
    """The node and the GPU that the labels name, as far as they are known here."""
    node = next((found for key in NODE_LABELS if (found := _node(labels.get(key, ""))) is not None), None)
    named = [labels[key] for key in GPU_LABELS if labels.get(key)]
    uuids = [value for value in named if value.upper().startswith(("GPU-", "MIG-"))]
    if uuids:
        rows = Gpu.objects.filter(uuid__in=uuids).select_related("node")
        cards = list((rows.filter(node=node) if node is not None else rows)[:2])
        if len(cards) == 1:
            return _Place(cards[0].node, cards[0])
    if node is not None:
        numbers = [int(digits) for value in named if (digits := value.removeprefix("nvidia")).isdecimal() and len(digits) < 4]
        if numbers and (card := node.gpus.filter(index=numbers[0], present=True, parent_uuid="").first()) is not None:
            return _Place(node, card)
    return _Place(node)


def _node(value: str) -> Node | None:
    """The node of that name, with its port or domain or without; None where no node is called so, or several are."""
    name = value.strip()[:300]
    if not name:
        return None
    host = name.rpartition(":")[0] if name.count(":") == 1 else name
    for wanted in dict.fromkeys((name, host)):
        if (exact := Node.objects.filter(name=wanted).first()) is not None:
            return exact
    if host.replace(".", "").isdecimal() or ":" in host:
        return None  # an address: its first part is no name
    short = host.partition(".")[0]
    near = list(Node.objects.filter(name=short)[:2]) or list(Node.objects.filter(name__startswith=f"{short}.")[:2])
    return near[0] if len(near) == 1 else None


def moment(text: str) -> datetime | None:
    """A time as Go writes it, with nanoseconds; None for its zero, or for none."""
    text = text.strip()
    head, dot, rest = text.partition(".")
    if dot:
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        text = f"{head}.{digits[:6]}{rest[len(digits) :]}"
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.tzinfo is None or found.year < 1990:
        return None
    return found.astimezone(UTC)
