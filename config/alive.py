"""Signs of life of the Celery programs, for health checks that must not cost a Python start each time.

A worker touches FETTLE_ALIVE_FILE from its event loop, which stands still while it has lost the broker; beat touches it each time
that a task was taken by the broker.
"""

from pathlib import Path
from typing import Any, Final

from celery import Celery, bootsteps, signals

EVERY_S: Final = 5.0


class Alive(bootsteps.StartStopStep):
    """The worker's part: a timer of its event loop."""

    requires = ("celery.worker.components:Timer",)

    def start(self, parent: Any) -> None:
        """Touch the file from now on."""
        touch()
        parent.timer.call_repeatedly(EVERY_S, touch)

    def stop(self, parent: Any) -> None:
        """Nothing: the timer ends with the worker."""


def touch(**_: Any) -> None:
    """Make the file new; does nothing where the setting is empty."""
    from django.conf import settings

    if settings.FETTLE_ALIVE_FILE:
        Path(settings.FETTLE_ALIVE_FILE).touch()


def _in_beat(**_: Any) -> None:
    signals.after_task_publish.connect(touch)


def show(app: Celery) -> None:
    """Have the application's workers and its beat show that they live."""
    app.steps["worker"].add(Alive)
    signals.beat_init.connect(_in_beat)
