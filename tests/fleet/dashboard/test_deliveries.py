"""The delivery log with its dead letters, and the report of noise."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from fleet.findings.models import Transition
from fleet.notify.models import Acknowledgement, Delivery
from fleet.notify.sayings import said
from tests.fleet.dashboard.alerting import EVIL, alert, delivery, person, route, text

pytestmark = pytest.mark.django_db


def test_each_row_says_what_became_of_it_and_why(viewer: Client) -> None:
    """Muted and why, dead with its error and status, a possible repeat marked."""
    finding = alert()
    delivery(finding, route("a"), "muted", why_muted=said("silence", comment=EVIL).kept())
    delivery(finding, route("b"), "dead", error="HTTP 404", status=404, attempts=16)
    delivery(finding, route("c"), may_repeat=True)
    page = text(viewer, "/alerts/deliveries/")

    assert "3 deliveries" in page
    assert "It is silenced: &lt;script&gt;" in page
    assert EVIL not in page
    assert "It was given up: HTTP 404" in page
    assert page.count("possible repeat") == 1
    assert "1 dead letter" in page


@pytest.mark.parametrize(
    ("query", "total"),
    [("state=sent", 1), ("state=dead", 1), ("kind=repeat", 1), ("route={route}", 2), ("finding={finding}", 2), ("from=2999-01-01T00:00", 0),
     ("to=2999-01-01T00:00", 2), ("state=bogus&route=x&finding=", 2), ("from=x", 2), ("state=%00", 2)],
)  # fmt: skip
def test_it_is_narrowed(viewer: Client, query: str, total: int) -> None:
    """By state, kind, route, finding and time; what is no filter is none."""
    finding, to = alert(), route()
    delivery(finding, to, "dead")
    delivery(finding, to, kind="repeat")

    assert f"{total} deliver" in text(viewer, "/alerts/deliveries/?" + query.format(route=to.pk, finding=finding.pk))


def test_a_dead_letter_is_sent_again(db: None) -> None:
    """By its button, or all that a page shows; its message's others go with it; one that is not dead stays."""
    operator, finding, to = person("operator"), alert(), route()
    dead = delivery(finding, to, "dead", error="x", attempts=16)
    other = delivery(finding, to, "dead", kind="repeat", lead=dead)
    sent = delivery(finding, to, kind="escalation")
    assert "Send again" in text(operator, "/alerts/deliveries/?state=dead")
    operator.post("/alerts/deliveries/send-again/", {"delivery": [dead.pk, sent.pk]})

    states = dict(Delivery.objects.values_list("pk", "state"))
    assert states == {dead.pk: "pending", other.pk: "pending", sent.pk: "sent"}
    assert "1 message is tried again." in text(operator, "/alerts/deliveries/")


def test_a_viewer_sends_nothing_again(viewer: Client, client: Client) -> None:
    """No button, and a refusal; a stranger is led to the login."""
    dead = delivery(alert(), route(), "dead")

    assert "Send again" not in text(viewer, "/alerts/deliveries/?state=dead")
    assert viewer.post("/alerts/deliveries/send-again/", {"one": dead.pk}).status_code == 403
    assert client.get("/alerts/deliveries/").status_code == 302
    assert Delivery.objects.get().state == "dead"


def test_the_noise_report_names_the_rules_that_nobody_acts_on(db: None) -> None:
    """With a way to put them into shadow; one that somebody acknowledged once is not among them."""
    for number in range(5):
        alert(f"a{number}", "warn", "fp32-without-tensor-cores")
        heeded = alert(f"b{number}", "warn", "clocks-locked-low")
    Acknowledgement.objects.create(finding=heeded, severity_rank=2, by_name="ann", via="page")
    page = text(person("operator"), "/alerts/noise/")
    idle, _, table = page.partition("<table")

    assert "/rules/fp32-without-tensor-cores/#state-title" in idle
    assert "Put it into shadow" in idle
    assert "clocks-locked-low" not in idle
    assert "1 (20" in table
    assert "10 alerts, 1 of them acknowledged" in page


def test_the_noise_report_looks_as_far_back_as_it_is_asked(viewer: Client) -> None:
    """What fired six weeks ago is of eight weeks, and not of four; without any the page says so."""
    finding = alert()
    Transition.objects.filter(finding=finding).update(at=timezone.now() - timedelta(weeks=6))

    assert "Nothing fired in these weeks." in text(viewer, "/alerts/noise/")
    assert "xid-79" in text(viewer, "/alerts/noise/?weeks=8")
    assert "Nothing fired in these weeks." in text(viewer, "/alerts/noise/?weeks=bogus")
