"""Housekeeping of the store: merges every minute where due, what is old or over the limit out every ten minutes.

A store that refuses is no defect: it is said in one sentence when it begins, counted, and the next run tries again.
"""

import logging
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Final

from celery import shared_task
from django.conf import settings

from fleet.store.compact import is_due
from fleet.store.kept import by_settings
from fleet.store.parquet import ParquetSeries
from fleet.store.series import StoreError, store

TIME_LIMIT_S: Final = 900
"""Of one run that hangs; one that works ends by itself long before (compact.RUN_S)."""

_NUMBER: Final = re.compile(r"\d+")

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Trouble:
    """What is wrong with one kind of work in this process, and how often that was met since it last went well."""

    work: str
    why: str | None = None
    runs: int = 0

    def met(self, error: StoreError) -> None:
        """Say it, unless the run before failed for the same reason: numbers in it differ from try to try."""
        why, self.runs = _NUMBER.sub("", str(error)), self.runs + 1
        if why != self.why:
            self.why = why
            logger.error("%s failed and is tried again: %s", self.work, error)

    def over(self) -> None:
        """It went well."""
        if self.why is not None:
            logger.warning("%s works again; it had failed %d times", self.work, self.runs)
        self.why, self.runs = None, 0


merging = Trouble("Merging telemetry files")
pruning = Trouble("Removing old telemetry")


@shared_task(ignore_result=True, acks_late=True, time_limit=TIME_LIMIT_S + 30)
def compact() -> None:
    """Merge small files where due. Safe to repeat or to lose: a lock lets one run at a time, a killed one leaves no harm.

    The merge runs in a process of its own, because Polars keeps the memory that a merge took (300 MB for an hour
    of any fleet) and a worker lives for days.
    """
    try:
        engine = store()
        if isinstance(engine, ParquetSeries) and _is_due(engine):
            _merge()
    except StoreError as error:
        merging.met(error)
    else:
        merging.over()


def _is_due(engine: ParquetSeries) -> bool:
    try:
        return is_due(engine, time.time())
    except OSError as error:
        raise StoreError(f"{engine.root} cannot be read: {error.strerror or error}.") from error


def _merge() -> None:
    where = settings.FETTLE_STORE_DIR
    path = os.pathsep.join(filter(None, (str(settings.BASE_DIR), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "fleet.store.compact", str(where)]
    environment = os.environ | {"POLARS_MAX_THREADS": "1", "PYTHONPATH": path}
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            command, env=environment, timeout=TIME_LIMIT_S, check=False, stdout=subprocess.PIPE, text=True, errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise StoreError(f"merging {where} took longer than {TIME_LIMIT_S} s and was ended; is its disk slow?") from None
    except OSError as error:
        raise StoreError(f"the program that merges {where} cannot be started: {error.strerror or error}.") from error
    if done.returncode:
        raise StoreError(done.stdout.strip() or f"merging {where} ended with code {done.returncode}; lines above may say why.")


@shared_task(ignore_result=True, acks_late=True)
def prune() -> int:
    """Drop what is past its time or over the limit of the settings; the bytes that it freed, 0 where the store refused."""
    now = int(time.time())
    before = {step_s: now - kept_s for step_s, kept_s in by_settings().items()}
    try:
        freed = store().prune(before, settings.FETTLE_STORE_GB * 10**9 or None)
    except StoreError as error:
        pruning.met(error)
        return 0
    pruning.over()
    return freed
