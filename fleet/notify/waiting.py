"""Where deliveries wait for each other: their groups, and when those leave."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from fleet.notify import hours
from fleet.notify.decisions import Alert, group_of, key_of, release_at
from fleet.notify.models import Delivery, Group

RATE: Final = timedelta(minutes=1)
"""What a route's `max_per_minute` counts over."""


def sent_lately(now: datetime) -> Counter[int]:
    """By route the messages made within the last minute."""
    return Counter(Delivery.objects.filter(lead=None, released_at__gt=now - RATE).values_list("route_id", flat=True))


class Waiting:
    """The groups that some deliveries are put into, each read once and written once."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._known: dict[tuple[int, str], Group] = {}
        self._changed: dict[int, Group] = {}
        self._lately = sent_lately(now)

    def put(self, delivery: Delivery, alert: Alert, *, not_before: datetime | None = None) -> None:
        """Let the delivery wait in its group as long as the alert may; `not_before`: when the route's hours begin."""
        route, group = delivery.route, self._group(delivery, group_of(delivery.route, alert.labels))
        at = release_at(alert, route, group.sent_at, self._now, sent_lately=self._lately[route.pk])
        self._leaves(group, max(at, not_before or at))

    def hurry(self, delivery: Delivery, labels: Mapping[str, tuple[str, ...]]) -> None:
        """Let the delivery leave as soon as its route takes any."""
        group = self._group(delivery, group_of(delivery.route, labels))
        self._leaves(group, hours.begins(delivery.route.active_times, self._now))

    def write(self) -> None:
        """Store when the groups leave."""
        Group.objects.bulk_update(self._changed.values(), ["release_at"], batch_size=500)

    def _group(self, delivery: Delivery, labels: Mapping[str, str]) -> Group:
        name = delivery.route.pk, key_of(labels)
        if name not in self._known:
            made = {"labels": dict(labels)}
            self._known[name], _ = Group.objects.get_or_create(route=delivery.route, key=name[1], defaults=made)
        delivery.group = self._known[name]
        return self._known[name]

    def _leaves(self, group: Group, at: datetime) -> None:
        if group.release_at is None or at < group.release_at:
            group.release_at = at
            self._changed[group.pk] = group
