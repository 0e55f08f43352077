"""The Celery application; each app's tasks.py registers its own, beat's schedule stands here.

Two workers: `worker` takes the default queue, all of it work on our own database and store; `messenger` takes the queue
`notify`, where tasks wait for others' servers. Neither can hold up the other. The first runs by config/worker.py.
"""

import gc
import os
from typing import Any

from celery import Celery
from celery.signals import worker_process_init

from config import alive

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
app = Celery("fettle")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.task_routes = {"fleet.notify.tasks.deliver": {"queue": "notify"}}
# A judgement of a large fleet takes memory that Polars keeps; a child that has grown past this is replaced after its task.
# One of 10,000 GPUs takes 1.05 GB, and a new child starts cold: a fifth more CPU time.
app.conf.worker_max_memory_per_child = 1_800_000  # KiB; threads know no such limit, and the messenger does not need it
app.autodiscover_tasks(["fleet.store"], related_name="prometheus_tasks")
app.autodiscover_tasks()
alive.show(app)


@app.on_after_configure.connect  # once the settings are read: the periods are settings too
def schedule(sender: Celery, **_: Any) -> None:
    """Fill in beat's schedule. A tick that no worker took before the next one is dropped: each task looks at all that is due."""
    from django.conf import settings

    periods = {
        "fleet.findings.tasks.advise": settings.FETTLE_ADVISOR_EVERY_S,
        "fleet.findings.tasks.sweep_events": 5,
        "fleet.findings.tasks.refresh_slow": 60,
        "fleet.findings.tasks.forget": 3600,
        "fleet.findings.tasks.try_rules": 5,
        "fleet.reports.tasks.summarise_jobs": 60,
        "fleet.verdicts.tasks.verify": 30,
        "fleet.watch.tasks.watch": 5,
        "fleet.notify.tasks.route_transitions": 2,
        "fleet.notify.tasks.sweep_deliveries": 2,
        "fleet.notify.tasks.recur": 15,
        "fleet.store.tasks.compact": 60,
        "fleet.store.tasks.prune": 600,
    }
    if settings.FETTLE_STORE == "prometheus-read":
        periods["fleet.store.prometheus_tasks.discover"] = 10
    sender.conf.beat_schedule = {
        name: {"task": name, "schedule": float(period), "options": {"expires": max(period, 1)}}
        for name, period in periods.items()
    }


@worker_process_init.connect
def settle(**_: Any) -> None:
    """What was imported stays: the collector of garbage need not look at it in every child again.

    A judgement makes hundreds of thousands of small objects that hold each other in no circle: looking for circles after each 700
    of them takes a fifteenth of its CPU time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 50, 50)
    gc.freeze()
