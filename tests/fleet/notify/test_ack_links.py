"""Links that acknowledge: they name the alert and the route, cannot be forged, and end."""

from datetime import timedelta

import pytest
from django.core import signing
from django.utils import timezone
from pytest_django import Settings

from fleet.findings import lifecycle
from fleet.findings.lifecycle import Place
from fleet.notify.ack_links import AckLinkError, ack_link, opened
from fleet.notify.models import Delivery, Route
from tests.fleet.notify.telling import tell
from tests.fleet.rows import found, gpu, node

pytestmark = pytest.mark.django_db


@pytest.fixture
def delivery(settings: Settings) -> Delivery:
    """One that fires."""
    settings.FETTLE_BASE_URL = "https://fettle.example.org"
    card = gpu(node())
    Route.objects.create(name="chat", url="json://127.0.0.1:9/")
    lifecycle.report(timezone.now(), found(str(card.pk), severity="critical"), Place(card.node_id, (card.pk,)))
    (pk,) = tell()
    return Delivery.objects.get(pk=pk)


def token(delivery: Delivery) -> str:
    """Of its link."""
    return ack_link(delivery).rstrip("/").rpartition("/")[2]


def test_a_link_leads_back_to_its_alert_and_route(delivery: Delivery) -> None:
    """And to its message, which may tell of more."""
    link = opened(token(delivery))

    assert (link.finding_id, link.route_id, link.delivery_id) == (delivery.transition.finding_id, delivery.route_id, delivery.pk)


def test_a_link_can_stand_in_an_address(delivery: Delivery) -> None:
    """No chat breaks it."""
    path = ack_link(delivery).removeprefix("https://fettle.example.org")

    assert all(sign.isalnum() or sign in "/:_-" for sign in path)
    assert len(path) < 200


@pytest.mark.parametrize(
    "change",
    [lambda text: text[:-1], lambda text: "x" + text, lambda text: text.replace(":", "x"), lambda _: "", lambda _: ":::"],
)
def test_a_changed_link_is_refused(change: object, delivery: Delivery) -> None:
    """With a sentence that says what to do."""
    with pytest.raises(AckLinkError, match="not valid"):
        opened(change(token(delivery)))  # type: ignore[operator]


def test_what_is_signed_for_something_else_is_refused(delivery: Delivery) -> None:
    """Each use has a salt of its own; and what names nothing is no link."""
    names = {"f": 1, "r": 1, "d": 1, "h": 999_999_999}
    for forged in (
        signing.dumps(names),
        signing.dumps(names, salt="other"),
        signing.dumps({"f": 1}, salt="fleet.notify.ack_links"),
    ):
        with pytest.raises(AckLinkError, match="not valid"):
            opened(forged)


def test_a_link_ends(delivery: Delivery, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many hours as are set, and what is left of the one that runs."""
    settings.FETTLE_ACK_LINK_H = 2
    kept = token(delivery)
    now = timezone.now().timestamp()
    monkeypatch.setattr("fleet.notify.ack_links.time.time", lambda: now + timedelta(hours=2).total_seconds())
    assert opened(kept).finding_id == delivery.transition.finding_id

    monkeypatch.setattr("fleet.notify.ack_links.time.time", lambda: now + timedelta(hours=3).total_seconds())
    with pytest.raises(AckLinkError, match="too old"):
        opened(kept)


def test_without_an_address_of_the_pages_there_is_no_link(delivery: Delivery, settings: Settings) -> None:
    """A path alone would lead nowhere."""
    settings.FETTLE_BASE_URL = ""

    assert ack_link(delivery) == ""
