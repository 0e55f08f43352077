"""From transitions to deliveries: who is told what."""

from datetime import timedelta

import pytest

from fleet.findings.lifecycle import Judged, advise_transition, reconcile
from fleet.findings.models import Finding, Transition
from fleet.notify import outcome, sending
from fleet.notify.models import Delivery, Route
from tests.fleet.notify.telling import tell
from tests.fleet.rows import NOON, found

pytestmark = pytest.mark.django_db
TEN_S = timedelta(seconds=10)
SEEN = Judged(rules=frozenset(["power-cap-limited"]), targets=frozenset([("gpu", "1")]))


def fire(**more: object) -> None:
    """A finding that fires."""
    for step in range(2):
        reconcile(NOON + step * TEN_S, [found(**more)], SEEN, {})  # type: ignore[arg-type]


def clear() -> None:
    """It resolves."""
    for step in range(2, 4):
        reconcile(NOON + step * TEN_S, [], SEEN, {})


def test_firing_and_resolving_are_told_to_each_route() -> None:
    """One delivery a route and transition; pending is not news."""
    Route.objects.create(name="a", url="json://a/")
    Route.objects.create(name="b", url="json://b/")
    fire()
    clear()
    tell()

    told = Delivery.objects.values_list("route__name", "transition__after").order_by("id")
    assert list(told) == [("a", "firing"), ("b", "firing"), ("a", "resolved"), ("b", "resolved")]
    assert not Transition.objects.filter(routed_at=None).exists()


def test_routing_again_makes_nothing_more() -> None:
    """A transition is routed once."""
    Route.objects.create(name="a", url="json://a/")
    fire()

    assert len(tell()) == 1
    assert tell() == []


@pytest.mark.parametrize(("least", "told"), [("info", 1), ("advice", 1), ("warn", 1), ("critical", 0)])
def test_a_route_hears_of_its_severity_and_above(least: str, told: int) -> None:
    """A warning is told to those who asked for warnings or less."""
    Route.objects.create(name="a", url="json://a/", min_severity=least)
    fire(severity="warn")

    assert len(tell()) == told


def test_a_route_that_is_off_hears_nothing() -> None:
    """What happens meanwhile is not sent later."""
    route = Route.objects.create(name="a", url="json://a/", enabled=False)
    fire()
    tell()
    route.enabled = True
    route.save()

    assert tell() == []
    assert not Delivery.objects.exists()


def test_what_never_fired_is_not_resolved_to_anybody() -> None:
    """A suspicion that passes makes no message."""
    Route.objects.create(name="a", url="json://a/")
    reconcile(NOON, [found()], SEEN, {})
    clear()

    assert tell() == []


def test_that_a_finding_is_noisy_is_told_once() -> None:
    """The fourth opening within the hour says that it flaps; then nothing until it keeps still."""
    Route.objects.create(name="a", url="json://a/")
    at = NOON
    for _ in range(4):
        for seen in (True, True, False, False):
            reconcile(at, [found()] if seen else [], SEEN, {})
            at += TEN_S
            tell()

    assert list(Delivery.objects.values_list("transition__after", flat=True)) == [*["firing", "resolved"] * 3, "noisy"]


def test_peoples_moves_are_not_announced() -> None:
    """The chat hears of machines."""
    Route.objects.create(name="a", url="json://a/")
    reconcile(NOON, [found()], SEEN, {})
    advise_transition(Finding.objects.get(), "accepted", None)

    assert tell() == []


def test_a_growing_severity_is_told() -> None:
    """From warning to critical, those who want only critical ones hear of it first."""
    Route.objects.create(name="a", url="json://a/", min_severity="critical")
    fire(severity="warn")
    assert tell() == []
    reconcile(NOON + 2 * TEN_S, [found(severity="critical")], SEEN, {})
    tell()

    assert Delivery.objects.get().transition.note == "warn -> critical"


def test_waits_double_up_to_a_quarter_of_an_hour() -> None:
    """Never less than half of the step, never more than the step, never more than the cap."""
    for attempts in range(1, 20):
        step = min(5 * 2 ** (attempts - 1), 900)
        for _ in range(20):
            assert step / 2 <= sending.wait(attempts).total_seconds() <= step


def test_all_attempts_together_span_a_long_outage() -> None:
    """A chat that is away for an hour gets its messages."""
    least = sum(min(5 * 2 ** (n - 1), 900) / 2 for n in range(1, outcome.MAX_ATTEMPTS))

    assert least > 3600
