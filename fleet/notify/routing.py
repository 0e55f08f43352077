"""From transitions to messages: which route tells what, what waits for what, and what stays quiet.

Every transition that is news makes a delivery for each route that takes it, also where it is muted: that nobody was told, and why, is
a row. Deliveries of a group wait for each other and leave together: each keeps its row, the rows name the one that is sent.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from django.db import connection, transaction
from django.db.models import Max
from django.utils import timezone

from fleet.findings.models import Finding, Transition
from fleet.notify import acknowledging, quieting
from fleet.notify.alert_labels import labels_of
from fleet.notify.decisions import Alert, decide, takers, why_follows, why_quiet
from fleet.notify.matchers import Labels
from fleet.notify.models import Delivery, Group, Route
from fleet.notify.sayings import said
from fleet.notify.waiting import Waiting, sent_lately

AT_ONCE: Final = 500
MEASURED: Final = frozenset({"helped", "no_effect", "worse"})
"""Verdicts that say something."""
DIGEST_EVERY: Final = timedelta(seconds=30)
"""Above that rate everything that waits leaves as one message, so often."""
UNTOLD: Final = ("waiting", "muted")
LEAVES: Final = ("state", "why_muted", "released_at", "next_try_at", "lead", "is_digest")


def route(limit: int = AT_ONCE) -> int:
    """Make the deliveries of transitions that have none yet; how many transitions were routed."""
    if not Transition.objects.filter(routed_at=None).exists():  # do not take the write lock for nothing
        return 0
    with transaction.atomic():
        now = timezone.now()
        waiting = Transition.objects.filter(routed_at=None).select_related("finding__node", "finding__cause").order_by("at", "id")
        locked = waiting.select_for_update(skip_locked=connection.features.has_select_for_update_skip_locked, of=("self",))
        transitions = list(locked[:limit])
        news = [one for one in transitions if is_news(one)]
        made = _made(news, now) if news else []
        Delivery.objects.bulk_create(made, batch_size=500)
        Transition.objects.filter(pk__in=[transition.pk for transition in transitions]).update(routed_at=now)
    return len(transitions)


def is_news(transition: Transition) -> bool:
    """True for what people are told: it fires, it grew worse, it flaps, it is over, and what was measured of advice that was applied.

    What never fired or is in shadow is not, nor that something cannot be told.
    """
    if transition.finding.shadow:
        return False
    if transition.axis == "advice":
        return transition.after in MEASURED
    return transition.after in ("firing", "noisy") or (
        transition.after == "resolved" and transition.before in ("firing", "noisy")
    )


def alert_of(transition: Transition, labels: Mapping[int, Labels]) -> Alert:
    """What is decided about: the transition with its finding's labels and cause."""
    finding = transition.finding
    return Alert(finding.pk, transition.after, finding.severity_rank, labels[finding.pk], cause_of(finding, labels))


def cause_of(finding: Finding, labels: Mapping[int, Labels]) -> Alert | None:
    """The alert that explains the finding, while people are told of it."""
    cause = told_cause(finding)
    return Alert(cause.pk, "firing", cause.severity_rank, labels[cause.pk]) if cause else None


def with_causes(findings: Iterable[Finding]) -> list[Finding]:
    """The findings and those that explain them, each once."""
    rows = {row.pk: row for row in findings}
    causes = [cause for row in rows.values() if (cause := told_cause(row)) is not None]
    return [*rows.values(), *({cause.pk: cause for cause in causes if cause.pk not in rows}).values()]


def told_cause(finding: Finding) -> Finding | None:
    """The finding that explains this one, while people are told of it; None for one that is milder, which a route may leave out.

    A cause that is over counts until findings take it away: what lasts is then told, what ends with its cause never is.
    """
    cause = finding.cause
    if cause is None or cause.shadow or cause.severity_rank < finding.severity_rank:
        return None
    return cause if cause.resolved_at is not None or cause.condition in quieting.FIRES else None


def _made(news: Sequence[Transition], now: datetime) -> list[Delivery]:
    """The deliveries of new transitions, in their groups; those that end what nobody was told of are muted."""
    routes = list(Route.objects.order_by("position", "pk"))
    labels = labels_of(with_causes(one.finding for one in news), now)
    quiet = quieting.now(now)
    waiting = Waiting(now)
    untold = _untold(news)
    made = []
    for one in news:
        alert = alert_of(one, labels)
        for decision in decide(alert, routes, quiet, now):
            if decision.what == "not_taken":
                continue
            delivery = Delivery(route=decision.route, transition=one, key=uuid4().hex, state="waiting")
            made.append(delivery)
            why = decision.why
            if one.axis == "condition" and one.after == "resolved" and (decision.route.pk, one.finding_id) in untold:
                why = said("beginning_untold")
            if why is not None:
                delivery.state, delivery.why_muted = "muted", why.kept()
            else:
                waiting.put(delivery, alert, not_before=decision.not_before)
    _over([one.finding_id for one in news if one.after == "resolved"])
    waiting.write()
    return made


def _untold(news: Sequence[Transition]) -> set[tuple[int, int]]:
    """Route and finding where nothing of an alert that is over was sent or is being sent: its end need not be told."""
    over = [one.finding_id for one in news if one.axis == "condition" and one.after == "resolved"]
    if not over:
        return set()
    told = set(
        Delivery.objects.filter(transition__finding__in=over, transition__axis="condition")
        .exclude(state__in=UNTOLD)
        .values_list("route_id", "transition__finding_id")
    )
    pairs = {(pk, finding) for pk in Route.objects.values_list("pk", flat=True) for finding in over}
    return pairs - told


def _over(findings: Sequence[int]) -> None:
    """What still waits to be told of alerts that are over is not told any more."""
    if findings:
        waiting = Delivery.objects.filter(state="waiting", transition__finding__in=findings, transition__axis="condition")
        waiting.update(state="muted", why_muted=said("over").kept())


def release(now: datetime | None = None) -> list[int]:
    """Let the groups leave whose time has come, each as one message; the ids of the deliveries to send.

    A route that has sent its `max_per_minute` sends one digest of all that waits, at most every half a minute.
    """
    now = now or timezone.now()
    if not Group.objects.filter(release_at__lte=now).exists():
        return []
    with transaction.atomic():
        locked = Group.objects.select_for_update(skip_locked=connection.features.has_select_for_update_skip_locked, of=("self",))
        due: dict[int, list[Group]] = defaultdict(list)
        for group in locked.filter(release_at__lte=now).select_related("route").order_by("release_at", "pk")[:AT_ONCE]:
            due[group.route_id].append(group)
        messages = list(_parted(due, now))
        return _leave([groups for groups, _ in messages], {id(groups) for groups, together in messages if together}, now)


def _parted(due: Mapping[int, Sequence[Group]], now: datetime) -> Iterable[tuple[Sequence[Group], bool]]:
    """The groups of each message that leaves now, and whether it is a digest."""
    lately = sent_lately(now)
    digests = dict(
        Delivery.objects.filter(route__in=due, is_digest=True, lead=None)
        .values_list("route_id")
        .annotate(newest=Max("released_at"))
    )
    for pk, groups in due.items():
        room = groups[0].route.max_per_minute - lately[pk]
        if len(groups) <= room:
            yield from (([group], False) for group in groups)
        elif pk not in digests or now - digests[pk] >= DIGEST_EVERY:
            yield groups, True


def _leave(messages: Sequence[Sequence[Group]], digests: Collection[int], now: datetime) -> list[int]:
    """Make each message of what waits in its groups, less what is quiet by now; the ids of the leads, the strongest first."""
    every = [group for groups in messages for group in groups]
    about = ("transition__finding__node", "transition__finding__cause", "route")
    waiting = Delivery.objects.filter(group__in=every, state="waiting").select_related(*about).order_by("pk")
    by_group: dict[int, list[Delivery]] = defaultdict(list)
    for delivery in waiting:
        if delivery.group_id is not None:
            by_group[delivery.group_id].append(delivery)
    quiet_now(list(waiting), now)
    leads: list[Delivery] = []
    others: list[Delivery] = []
    for groups in messages:
        rows = [row for group in groups for row in by_group[group.pk]]
        told = sorted((row for row in rows if row.state == "waiting"), key=lambda row: -row.transition.finding.severity_rank)
        for place, row in enumerate(told):
            row.state, row.released_at, row.next_try_at = "pending", now, now
            row.lead = told[0] if place else None
            row.is_digest = id(groups) in digests
        leads += told[:1]
        others += [row for row in rows if row not in told[:1]]
        for group in groups:
            group.release_at = None
            group.sent_at = now if any(row in told for row in by_group[group.pk]) else group.sent_at
    Delivery.objects.bulk_update([*leads, *others], LEAVES, batch_size=200)
    Group.objects.bulk_update(every, ["release_at", "sent_at"], batch_size=500)
    leads.sort(key=lambda row: -row.transition.finding.severity_rank)
    return [row.pk for row in leads]


def quiet_now(waiting: Sequence[Delivery], now: datetime) -> dict[int, Labels]:
    """Mute, in memory, what something keeps quiet by now, of what is told again also what somebody looks after; the findings' labels."""
    labels = labels_of(with_causes(row.transition.finding for row in waiting), now)
    quiet = quieting.now(now)
    looked_after = acknowledging.acknowledged([row.transition.finding_id for row in waiting if row.kind != "news"])
    routes = list(Route.objects.all())
    for row in waiting:
        alert = alert_of(row.transition, labels)
        follows = alert.cause and why_follows(alert, row.route, takers(alert.cause, routes))
        why = follows or why_quiet(alert, quiet)
        if why is None and row.kind != "news" and row.transition.finding_id in looked_after:
            why = said("acknowledged")
        if why is None and not row.route.enabled:
            why = said("route_off")
        if why is not None:
            row.state, row.why_muted = "muted", why.kept()
    return labels
