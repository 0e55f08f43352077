"""Housekeeping of the store: merges every minute where due, old days out every hour."""

import os
import subprocess
import sys
import time

from celery import shared_task
from django.conf import settings

from fleet.store.compact import is_due
from fleet.store.parquet import ParquetSeries
from fleet.store.series import StoreError, store

TIME_LIMIT_S = 900


@shared_task(ignore_result=True, acks_late=True, time_limit=TIME_LIMIT_S + 30)
def compact() -> None:
    """Merge small files where due. Safe to repeat or to lose: a lock lets one run at a time, a killed one leaves no harm.

    The merge runs in a process of its own, because Polars keeps the memory that a merge took (300 MB for an hour
    of any fleet) and a worker lives for days.
    """
    engine = store()
    if not (isinstance(engine, ParquetSeries) and is_due(engine, time.time())):
        return
    path = os.pathsep.join(filter(None, (str(settings.BASE_DIR), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "fleet.store.compact", str(settings.FETTLE_STORE_DIR)]
    environment = os.environ | {"POLARS_MAX_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, timeout=TIME_LIMIT_S, check=False)  # noqa: S603 - our own module
    if done.returncode:
        raise StoreError(f"Merging {settings.FETTLE_STORE_DIR} ended with code {done.returncode}; the lines above say why.")


@shared_task(ignore_result=True, acks_late=True)
def prune() -> int:
    """Drop whole days of raw samples older than FETTLE_RETAIN_RAW_H; the bytes that it freed."""
    return store().prune(int(time.time()) - settings.FETTLE_RETAIN_RAW_H * 3600)
