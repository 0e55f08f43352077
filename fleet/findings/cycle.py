"""One run at a time of each periodic work, over any number of workers, by a row that a run holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from fleet.findings.models import Cycle


@contextmanager
def only_run(name: str, limit_s: float) -> Iterator[bool]:
    """True when this run holds the work, False when another does; one older than `limit_s` counts as dead."""
    Cycle.objects.get_or_create(name=name)
    started_at = timezone.now()
    free = Q(started_at=None) | Q(ended_at__isnull=False) | Q(started_at__lt=started_at - timedelta(seconds=limit_s))
    mine = Cycle.objects.filter(free, name=name).update(started_at=started_at, ended_at=None)
    if not mine:
        yield False
        return
    held = Cycle.objects.filter(name=name, started_at=started_at)
    try:
        yield True
    except BaseException as error:
        held.update(ended_at=timezone.now(), error=f"{type(error).__name__}: {error}"[:300])
        raise
    held.update(ended_at=timezone.now(), error="")
