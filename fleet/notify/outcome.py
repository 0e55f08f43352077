"""What became of an attempt to send, and what the delivery's row is to say of it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from django.utils import timezone

from fleet.notify.models import Delivery

Failure: TypeAlias = Literal["", "later", "limited", "never"]
"""later: try again. limited: try again, and hold back what else goes to this route meanwhile. never: as it is, it will not be taken."""
MAX_ATTEMPTS: Final = 16
"""Attempts before a delivery is dead: an hour and more of an unreachable chat."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one attempt. `unsure`: it failed here, and may have arrived all the same."""

    sent: bool
    error: str = ""
    unsure: bool = False
    failure: Failure = ""
    status: int | None = None
    """HTTP status of the newest answer; None where there was none."""
    retry_after_s: float | None = None
    """How long the target asks us to wait, an hour at most; None where it asks for nothing."""
    arrived: tuple[str, ...] = ()
    """Digests of the parts that were taken, those of earlier attempts too: the next attempt leaves them out."""


def fields(outcome: Outcome, delivery: Delivery, wait: Callable[[int], timedelta]) -> dict[str, Any]:
    """What to store of a delivery after an attempt: its state and, where it is tried again, when; `wait`: how long after so many attempts."""
    now: datetime = timezone.now()
    row = {"status": outcome.status, "arrived": list(outcome.arrived), "error": outcome.error}
    if outcome.sent:
        return row | {"state": "sent", "sent_at": now}
    if outcome.failure == "never" or delivery.attempts >= MAX_ATTEMPTS:
        return row | {"state": "dead", "may_repeat": delivery.may_repeat or outcome.unsure}
    pause = max(wait(delivery.attempts), timedelta(seconds=outcome.retry_after_s or 0.0))
    return row | {"state": "failed", "may_repeat": delivery.may_repeat or outcome.unsure, "next_try_at": now + pause}
