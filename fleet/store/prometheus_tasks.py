"""Looking for nodes and GPUs in a Prometheus, every few seconds."""

import time
from typing import Final

from celery import shared_task
from django.conf import settings

from fleet.store.series import StoreError, store
from fleet.store.tasks import Trouble

EVERY_S: Final = 10
looking = Trouble("Looking for nodes in Prometheus")


@shared_task(ignore_result=True, acks_late=True)
def discover() -> int:
    """Bring inventory and events up to the series of dcgm-exporter; how many GPUs go on, 0 where the store is another or refused."""
    if settings.FETTLE_STORE != "prometheus-read":
        return 0
    from fleet.store.prometheus import PrometheusSeries
    from fleet.store.prometheus_events import notice
    from fleet.store.prometheus_inventory import discover

    engine = store()
    assert isinstance(engine, PrometheusSeries)  # noqa: S101 - as the setting says
    try:
        now = time.time()
        found = discover(engine, now)
        notice(engine, now)
    except StoreError as error:
        looking.met(error)
        return 0
    looking.over()
    return found
