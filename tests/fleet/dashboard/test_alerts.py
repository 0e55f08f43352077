"""The page of alerts: what fires, who was told and why nobody, who looks after it; its buttons and the number beside “Alerts”."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet.annotations.models import Annotation
from fleet.findings.models import Finding
from fleet.notify.models import Acknowledgement, Silence
from fleet.notify.sayings import said
from tests.fleet.dashboard.alerting import EVIL, alert, delivery, person, route, text
from tests.fleet.dashboard.fleet_rows import make_finding

pytestmark = pytest.mark.django_db
BADGE = '<span class="waiting"'


def test_it_says_who_was_told_and_why_nobody_else(viewer: Client) -> None:
    """The route that was told, with its time; of the others each reason once, with the routes it holds for."""
    finding = alert()
    delivery(finding, route("ops"))
    for name in ("a", "b"):
        delivery(finding, route(name), "muted", why_muted=said("maintenance", node="gpu-01").kept())
    delivery(finding, route("lost"), "dead", error="HTTP 404")
    page = text(viewer, "/alerts/")

    assert "1 alert fires" in page
    assert 'title="ops">ops</span>' in page
    assert page.count("Somebody works on gpu-01.</span>") == 1
    assert 'title="a, b"' in page
    assert "It was given up: HTTP 404" in page


def test_one_that_nobody_takes_or_that_is_not_routed_yet_says_so(viewer: Client) -> None:
    """Two reasons for an alert without any delivery."""
    alert()
    assert "It is not routed yet." in text(viewer, "/alerts/")
    Finding.objects.get().transitions.update(routed_at=timezone.now())

    page = text(viewer, "/alerts/")
    assert "No route takes it." in page
    assert "<strong>nobody</strong>" in page


def test_what_follows_is_folded_under_its_cause(viewer: Client) -> None:
    """Also what follows from that; and where a filter leaves the cause out, what follows stands by itself."""
    cause = alert("gpu-01", rule="xid-79")
    middle = alert("gpu-02", "warn", "link-down", cause=cause)
    alert("gpu-03", "warn", "job-stalled", cause=middle)
    page = text(viewer, "/alerts/")

    assert "3 alerts fire" in page
    assert "2 alerts follow from it" in page
    assert page.count("<tr class=") == 1
    alert("gpu-04", "critical", "gpu-lost", cause=middle)  # graver than what explains it: a route may leave that one out
    assert text(viewer, "/alerts/").count("<tr class=") == 2
    alone = text(viewer, "/alerts/?rule=job-stalled")
    assert alone.count("<tr class=") == 1
    assert f"follows from finding {middle.pk}" in alone


def test_it_shows_warnings_and_worse_of_what_fires(viewer: Client) -> None:
    """Advice only where it is asked for; what is pending, over or in shadow never."""
    alert("n1", "advice", "mild")
    alert("n2", "warn", "pending-one", condition="pending")
    alert("n3", "warn", "shadow-one", shadow=True)
    alert("n4", "warn", "over-one", condition="resolved", resolved_at=timezone.now())
    alert("n5", "warn", "noisy-one", condition="noisy")
    rows = text(viewer, "/alerts/").partition("<tbody>")[2]

    assert "noisy-one" in rows
    assert not any(name in rows for name in ("mild", "pending-one", "shadow-one", "over-one"))
    assert "mild" in text(viewer, "/alerts/?least=advice").partition("<tbody>")[2]


@pytest.mark.parametrize(
    ("query", "rules"),
    [
        ("rule=r1", ["r1"]), ("node=n2", ["r2"]), ("least=critical", ["r1"]), ("acknowledged=yes", ["r2"]), ("acknowledged=no", ["r1", "r3"]),
        ("told=yes", ["r3"]), ("told=no", ["r1", "r2"]), ("label=team&value=nlp*", ["r3"]), ("sort=node&least=warn", ["r1", "r2", "r3"]),
        ("node=%00", []), ("least=bogus&sort=bogus&by=bogus", ["r1", "r2", "r3"]),
    ],
)  # fmt: skip
def test_it_is_narrowed(viewer: Client, query: str, rules: list[str]) -> None:
    """By each filter; what is no filter is none."""
    alert("n1", "critical", "r1")
    second, third = alert("n2", "warn", "r2"), alert("n3", "warn", "r3")
    Acknowledgement.objects.create(finding=second, severity_rank=2, by_name="ann", via="page")
    delivery(third, route())
    Annotation.objects.create(scope="node", target="n3", key="team", value="nlp-1")
    rows = text(viewer, f"/alerts/?{query}").partition("<tbody>")[2]

    assert [rule for rule in ("r1", "r2", "r3") if f'code">{rule}<' in rows] == rules


def test_it_is_grouped_by_node(viewer: Client) -> None:
    """A row for each node with its numbers, and a way to its alerts that keeps the other filters."""
    first = alert("n1", "critical", "r1")
    make_finding(first.node, rule="r2", severity="warn", target="x")
    Acknowledgement.objects.create(finding=first, severity_rank=3, by_name="ann", via="page")
    page = text(viewer, "/alerts/?by=node&told=no")

    assert "?told=no&amp;node=n1" in page
    assert [cell.partition("</td>")[0] for cell in page.split('data-label="Alerts">')[1:]] == ["2"]
    assert [cell.partition("</td>")[0] for cell in page.split('data-label="Not acknowledged">')[1:]] == ["1"]


def test_a_silence_that_holds_now_is_said(viewer: Client) -> None:
    """By its comment, also before anything was muted by it."""
    alert()
    Silence.objects.create(
        matchers=[{"label": "node", "op": "in", "values": ["gpu-*"]}],
        ends_at=timezone.now() + timedelta(hours=1),
        comment=EVIL,
        by_name="ann",
    )
    page = text(viewer, "/alerts/")

    assert "It is silenced: &lt;script&gt;" in page
    assert EVIL not in page


def test_an_operator_acknowledges_and_takes_back(db: None) -> None:
    """One by its button, several that were ticked; the comment is kept, and the person comes back to where they were."""
    operator = person("operator")
    first, second = alert("n1"), alert("n2")
    asked = {"what": f"acknowledge {first.pk}", "comment": "I look", "finding": [second.pk], "next": "/alerts/?sort=node"}
    answer = operator.post("/alerts/acknowledge/", asked)

    row = Acknowledgement.objects.get()
    assert (row.finding, row.by_name, row.via, row.comment) == (first, "the operator", "page", "I look")
    assert answer["Location"] == "/alerts/?sort=node"
    page = text(operator, "/alerts/")
    assert "Acknowledged 1 alert." in page
    assert "“I look”" in page or "I look</q>" in page
    operator.post("/alerts/acknowledge/", {"what": "take-back", "finding": [first.pk, second.pk]})
    assert not Acknowledgement.objects.exists()


@pytest.mark.parametrize("away", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "\x00"])
def test_acknowledging_leads_to_no_other_site(db: None, away: str) -> None:
    """Whatever the form says."""
    assert person("operator").post("/alerts/acknowledge/", {"what": "acknowledge", "next": away})["Location"] == "/alerts/"


def test_what_is_over_is_not_acknowledged(db: None) -> None:
    """And said; neither is a comment kept that steers how others are shown."""
    operator, finding = person("operator"), alert()
    operator.post("/alerts/acknowledge/", {"what": f"acknowledge {finding.pk}", "comment": "a\x1b[2J"})
    Finding.objects.update(condition="resolved", resolved_at=timezone.now())
    operator.post("/alerts/acknowledge/", {"what": f"acknowledge {finding.pk}"})

    assert not Acknowledgement.objects.exists()
    assert "1 alert does not fire any more." in text(operator, "/alerts/")


def test_a_viewer_may_look_and_not_acknowledge(viewer: Client, client: Client) -> None:
    """No button, and a refusal; a stranger is led to the login."""
    finding = alert()

    assert f"acknowledge {finding.pk}" not in text(viewer, "/alerts/")
    assert viewer.post("/alerts/acknowledge/", {"what": f"acknowledge {finding.pk}"}).status_code == 403
    assert client.get("/alerts/").status_code == 302
    assert not Acknowledgement.objects.exists()


def test_the_number_beside_alerts_counts_what_waits_for_somebody(viewer: Client) -> None:
    """Warnings and worse that nobody looks after and that follow from no other; none is no number."""
    assert BADGE not in text(viewer, "/")
    cause = alert("n1")
    alert("n2", "warn", cause=cause)
    alert("n3", "advice")
    looked_after = alert("n4", "warn")
    Acknowledgement.objects.create(finding=looked_after, severity_rank=2, by_name="ann", via="page")
    assert f"{BADGE}" in text(viewer, "/")
    assert 'acknowledged">1</span>' in text(viewer, "/")
    Finding.objects.filter(pk=looked_after.pk).update(severity="critical", severity_rank=3)

    assert 'acknowledged">2</span>' in text(viewer, "/")


def test_a_page_of_many_alerts_asks_as_often_as_one_of_few(viewer: Client) -> None:
    """Fifty rows of 60 cost no more queries than two: nothing is asked row by row."""
    to = route()
    first = alert("n0")
    for number in range(1, 3):
        delivery(make_finding(first.node, rule=f"r{number}", severity="warn", target=str(number)), to)
    with CaptureQueriesContext(connection) as few:
        viewer.get("/alerts/")
    for number in range(3, 60):
        delivery(make_finding(first.node, rule=f"r{number}", severity="warn", target=str(number)), to)
    with CaptureQueriesContext(connection) as many:
        assert "Page 1 of 2" in text(viewer, "/alerts/")

    assert len(many) <= len(few)


def test_the_findings_page_tells_of_the_alert(db: None) -> None:
    """Deliveries with why, who looks after it, the way to the dry run; and buttons for who may."""
    operator = person("operator")
    finding = alert()
    delivery(finding, route("ops"), "muted", why_muted=said("off").kept())
    path = f"/findings/{finding.pk}/"
    page = text(operator, path)
    assert "told to nobody" in page
    assert f"/alerts/routes/try/?finding={finding.pk}" in page
    assert f'value="acknowledge {finding.pk}"' in page
    operator.post("/alerts/acknowledge/", {"what": f"acknowledge {finding.pk}", "next": path})

    page = text(operator, path)
    assert "the operator acknowledged it at" in page
    assert f'value="take-back {finding.pk}"' in page
