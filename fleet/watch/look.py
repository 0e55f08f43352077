"""One look at the fleet: who is silent, which GPUs are missing, whose sources lag or stand still."""

import logging
from datetime import datetime
from typing import Final

from fleet.store.series import StoreError
from fleet.tuning.in_force import in_force
from fleet.watch import devices, silence, sources
from fleet.watch.alerts import Alerts
from fleet.watch.models import Watch
from fleet.watch.nodes import watched
from fleet.watch.stillness import still

log = logging.getLogger(__name__)

GAP_S: Final = 60.0
"""After so long without a look, or where the clock was set back, it begins anew: agents that wait for the server are no silent nodes."""


def look(at: datetime) -> None:
    """Open and end alerts of the inventory as things are at `at`; safe to repeat."""
    watch, _ = Watch.objects.get_or_create(pk=1, defaults={"since": at})
    if watch.ran_at is None or not 0 <= (at - watch.ran_at).total_seconds() <= GAP_S:
        watch.since, watch.seen = at, {}
    alerts = Alerts(at, in_force(), dict(watch.seen))
    alerts.read()
    nodes = watched(at)
    heard = silence.look(alerts, nodes, watch.since)
    devices.look(alerts, nodes, heard)
    sources.lag(alerts, nodes, heard)
    sources.skew(alerts, nodes, heard)
    try:
        standing = still(watch, at, heard)
    except StoreError:
        standing = {}  # the advisor says that the store cannot be read
    sources.frozen(alerts, nodes, heard, standing)
    alerts.write()
    alerts.forget_unasked()
    watch.ran_at, watch.seen = at, alerts.seen
    watch.save()
