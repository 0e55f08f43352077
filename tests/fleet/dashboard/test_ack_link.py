"""The page behind the link in a message: it asks and tells; only a POST with the page's own token acknowledges."""

import time

import pytest
from django.conf import LazySettings
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from fleet.findings.models import Finding
from fleet.notify.ack_links import ack_link
from fleet.notify.models import Acknowledgement, Delivery
from tests.fleet.dashboard.alerting import EVIL, alert, delivery, route, text

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh_cache(settings: LazySettings) -> None:
    """No count of the test before, and pages that have an address."""
    settings.FETTLE_BASE_URL = "https://fettle.example"
    cache.clear()


def link(of: Delivery) -> str:
    """The path of the link in the message."""
    return ack_link(of).removeprefix("https://fettle.example")


def test_a_look_shows_the_alert_and_acknowledges_nothing(client: Client) -> None:
    """Neither GET nor HEAD: a chat's preview opens links too. It says as whom; nothing of it may be kept by a cache."""
    path = link(delivery(alert(), route(EVIL)))
    page = text(client, path)
    answer = client.head(path)

    assert "gpu-01" in page
    assert "It is noted as “&lt;script&gt;" in page
    assert EVIL not in page
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    assert not Acknowledgement.objects.exists()


def test_the_button_acknowledges_as_the_route(client: Client) -> None:
    """Without a login; asked again, the page says who did."""
    path = link(delivery(alert(), route("ops chat")))
    assert "Acknowledged, as “ops chat”" in client.post(path, {"what": "one"}).content.decode()

    row = Acknowledgement.objects.get()
    assert (row.by_name, row.via, row.by) == ("ops chat", "link", None)
    page = text(client, path)
    assert "ops chat acknowledged it at" in page
    assert 'method="post" class="decide' not in page


def test_a_post_from_elsewhere_is_refused() -> None:
    """It needs the token of the page."""
    stranger = Client(enforce_csrf_checks=True)

    assert stranger.post(link(delivery(alert(), route()))).status_code == 403
    assert not Acknowledgement.objects.exists()


def test_all_alerts_of_the_message_are_acknowledged_at_once(client: Client) -> None:
    """Those that still fire and nobody looks after; not what another message told."""
    to = route()
    lead = delivery(alert("n1"), to)
    other = delivery(alert("n2"), to, lead=lead)
    over = alert("n3")
    delivery(over, to, lead=lead)
    Finding.objects.filter(pk=over.pk).update(condition="resolved", resolved_at=timezone.now())
    delivery(alert("n4"), to)
    assert "1 more of the same message fires" in text(client, link(lead))
    client.post(link(lead), {"what": "all"})

    found = set(Acknowledgement.objects.values_list("finding", flat=True))
    assert found == {lead.transition.finding_id, other.transition.finding_id}


def test_one_for_an_alert_that_is_over_says_so(client: Client) -> None:
    """And keeps nothing."""
    finding = alert()
    path = link(delivery(finding, route()))
    Finding.objects.update(condition="resolved", resolved_at=timezone.now())

    assert "The alert is over" in client.post(path).content.decode()
    assert not Acknowledgement.objects.exists()


def test_one_of_a_route_that_is_gone_says_so(client: Client) -> None:
    """It was deleted with its log."""
    to = route()
    path = link(delivery(alert(), to))
    to.delete()

    assert "there is nothing to acknowledge" in text(client, path, 410)


def test_a_wrong_and_an_old_link_are_no_links(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """404 for one that was changed, 410 for one whose time is over, each with a sentence."""
    path = link(delivery(alert(), route()))
    for wrong in ("/alerts/acknowledge/x/", path[:-3] + "xx/", "/alerts/acknowledge/%00:%F0%9F/"):
        assert "This link is not valid." in text(client, wrong, 404)
        assert client.post(wrong).status_code == 404
    later = time.time() + 30 * 86_400
    monkeypatch.setattr("fleet.notify.ack_links.time.time", lambda: later)

    assert "This link is too old." in text(client, path, 410)
    assert client.post(path).status_code == 410
    assert not Acknowledgement.objects.exists()


def test_a_link_is_opened_so_often_a_minute(client: Client) -> None:
    """30 times, then the page asks to wait; other links are not touched."""
    to = route()
    one, other = link(delivery(alert("n1"), to)), link(delivery(alert("n2"), to))
    codes = [client.get(one).status_code for _ in range(31)]

    assert codes == [200] * 30 + [429]
    assert client.get(other).status_code == 200
