"""Accepting, dismissing and marking advice: who may, from which state, and what is written."""

import pytest
from django.test import Client

from fleet.findings.models import Finding, Transition
from tests.fleet.dashboard.fleet_rows import make_finding, make_node

pytestmark = pytest.mark.django_db


@pytest.fixture
def finding(db: None) -> Finding:
    """One open finding."""
    node = make_node("n", 1)
    return make_finding(node, list(node.gpus.all()))


def decide(client: Client, finding: Finding, before: str, after: str, **more: str) -> int:
    """The status of one decision."""
    return client.post(f"/findings/{finding.pk}/decide/", {"before": before, "after": after, **more}).status_code


def test_an_operator_accepts_and_the_step_is_a_row_with_a_name(operator: Client, finding: Finding) -> None:
    """The history says who decided, when, and why."""
    assert decide(operator, finding, "proposed", "accepted", note=" next maintenance ") == 302

    finding.refresh_from_db()
    step = Transition.objects.get(axis="advice")
    page = operator.get(f"/findings/{finding.pk}/").content.decode()
    assert finding.advice == "accepted"
    assert (step.before, step.after, step.note) == ("proposed", "accepted", "next maintenance")
    assert step.by is not None
    assert step.by.username == "olga"
    assert "olga" in page
    assert "next maintenance" in page


def test_a_viewer_sees_no_buttons_and_may_not_post(viewer: Client, finding: Finding) -> None:
    """Looking is not deciding."""
    page = viewer.get(f"/findings/{finding.pk}/").content.decode()

    assert 'name="after"' not in page
    assert decide(viewer, finding, "proposed", "accepted") == 403
    assert not Transition.objects.filter(axis="advice").exists()


def test_a_decision_without_the_token_is_refused(operator: Client, finding: Finding) -> None:
    """CSRF is checked."""
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies

    assert decide(strict, finding, "proposed", "accepted") == 403


def test_a_get_decides_nothing(operator: Client, finding: Finding) -> None:
    """Prefetching browsers press no buttons."""
    assert operator.get(f"/findings/{finding.pk}/decide/").status_code == 405


@pytest.mark.parametrize(
    ("before", "after"),
    [("proposed", "helped"), ("accepted", "applied"), ("proposed", "nonsense"), ("proposed", ""), ("", "accepted")],
)
def test_a_step_that_is_not_open_changes_nothing_and_says_so(operator: Client, finding: Finding, before: str, after: str) -> None:
    """Verdicts are measured, not given; a page that is out of date decides nothing."""
    assert decide(operator, finding, before, after) == 302

    finding.refresh_from_db()
    assert finding.advice == "proposed"
    assert "That was not done" in operator.get(f"/findings/{finding.pk}/").content.decode()


def test_a_stranger_is_sent_to_the_login(client: Client, finding: Finding) -> None:
    """And decides nothing."""
    assert decide(client, finding, "proposed", "accepted") == 302
    finding.refresh_from_db()
    assert finding.advice == "proposed"


@pytest.mark.parametrize("note", ["a\x00b", "a\x1b[2J", "a\nb"])
def test_a_note_with_control_characters_is_said_and_nothing_is_decided(operator: Client, finding: Finding, note: str) -> None:
    """The database of some sites takes no NUL, and logs are read in terminals."""
    assert decide(operator, finding, "proposed", "accepted", note=note) == 302

    assert "control characters" in operator.get(f"/findings/{finding.pk}/").content.decode()
    assert not Transition.objects.filter(axis="advice").exists()
