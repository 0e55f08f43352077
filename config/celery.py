"""The Celery application; each app's tasks.py registers its own, beat's schedule stands here."""

import os
from typing import Any

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
app = Celery("fettle")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@app.on_after_configure.connect  # once the settings are read: the periods are settings too
def schedule(sender: Celery, **_: Any) -> None:
    """Fill in beat's schedule. A tick that no worker took before the next one is dropped: each task looks at all that is due."""
    from django.conf import settings

    periods = {
        "fleet.findings.tasks.advise": settings.FETTLE_ADVISOR_EVERY_S,
        "fleet.findings.tasks.sweep_events": 5,
        "fleet.notify.tasks.route_transitions": 2,
        "fleet.notify.tasks.sweep_deliveries": 2,
        "fleet.store.tasks.compact": 60,
        "fleet.store.tasks.prune": 3600,
    }
    sender.conf.beat_schedule = {
        name: {"task": name, "schedule": float(period), "options": {"expires": max(period, 1)}}
        for name, period in periods.items()
    }
