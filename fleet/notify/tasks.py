"""Celery's side of notify. A task that is lost costs time alone: the sweeps find whatever is due.

`deliver` waits for others' servers. It has a queue and a worker of its own (config/celery.py), so that a chat that
hangs holds up neither the advisor nor an event; and of one route only a few deliveries are under way at once, so that
it does not hold up the other chats either.
"""

import logging

from celery import Task, shared_task
from kombu.exceptions import OperationalError

from fleet.notify import recurring, routing, sending
from fleet.notify.models import Delivery

log = logging.getLogger(__name__)


@shared_task(ignore_result=True, acks_late=True, time_limit=60)
def route_transitions() -> None:
    """Make deliveries of new transitions, let the groups leave whose time has come, and hand them to messengers."""
    while routing.route() == routing.AT_ONCE:
        pass
    if routing.release():
        hand_out()


@shared_task(ignore_result=True, acks_late=True, time_limit=60)
def recur() -> None:
    """Let wait what is to be told again."""
    recurring.recur()


@shared_task(ignore_result=True, acks_late=True, time_limit=60)
def sweep_deliveries() -> None:
    """Hand to messengers what is due: retries, what a dead one had claimed, what a lost message named."""
    hand_out()


@shared_task(ignore_result=True, acks_late=True, time_limit=120)
def deliver(delivery_id: int) -> None:
    """Try once to send a delivery. Safe to repeat: only the worker that claims it sends."""
    state = sending.attempt(delivery_id)
    if state in ("failed", "dead"):
        route = Delivery.objects.filter(pk=delivery_id).values_list("route__name", flat=True).first()
        log.warning("Delivery %d to %s is %s; its row says why.", delivery_id, route, state)
    hand_out()  # its place in the route's lane is free


def hand_out() -> None:
    """Send a task for each delivery whose turn it is."""
    for delivery_id in sending.take():
        if not enqueue(deliver, delivery_id):
            sending.put_back(delivery_id)


def enqueue(task: Task, *args: object) -> bool:  # type: ignore[type-arg] # Celery has no parameter at run time
    """Send a task; without a broker say so and go on, for the sweeps will find the work. True when it was sent."""
    try:
        task.apply_async(args=args, expires=sending.QUEUED.total_seconds(), retry=False)
    except OperationalError as error:
        log.warning("The broker does not take %s: %s", task.name, error)
        return False
    return True
