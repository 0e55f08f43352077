"""Celery's side of notify. A task that is lost costs time alone: the sweeps find whatever is due."""

import logging

from celery import Task, shared_task
from kombu.exceptions import OperationalError

from fleet.notify import routing

log = logging.getLogger(__name__)


@shared_task(ignore_result=True, acks_late=True, time_limit=60)
def route_transitions() -> None:
    """Make deliveries of new transitions and hand each to a worker."""
    for delivery_id in routing.route():
        enqueue(deliver, delivery_id)


@shared_task(ignore_result=True, acks_late=True, time_limit=60)
def sweep_deliveries() -> None:
    """Hand to workers what is due: retries, what a dead worker had claimed, what a lost message named."""
    for delivery_id in routing.due_ids():
        enqueue(deliver, delivery_id)


@shared_task(ignore_result=True, acks_late=True, time_limit=120)
def deliver(delivery_id: int) -> None:
    """Try once to send a delivery. Safe to repeat: only the worker that claims it sends."""
    state = routing.attempt(delivery_id)
    if state in ("failed", "dead"):
        log.warning("Delivery %d is %s.", delivery_id, state)


def enqueue(task: Task, *args: object) -> None:  # type: ignore[type-arg]
    """Send a task; without a broker say so and go on, for the sweeps will find the work."""
    try:
        task.apply_async(args=args, expires=60, retry=False)
    except OperationalError as error:
        log.warning("The broker does not take %s: %s", task.name, error)
