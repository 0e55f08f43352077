"""What people are told of a verdict on advice, as a real receiver gets it."""

from datetime import UTC, datetime

import pytest
from pytest_django import Settings

from fleet.findings.concluded import conclude
from fleet.findings.lifecycle import Place, advise_transition, report
from fleet.findings.models import Finding
from fleet.notify import sending
from fleet.notify.models import Route
from fleet.verdicts.models import Verification
from tests.fleet.notify.receiver import Receiver
from tests.fleet.notify.telling import tell
from tests.fleet.rows import NOON, found, gpu, node

pytestmark = pytest.mark.django_db


@pytest.fixture
def finding(settings: Settings, chat: Receiver) -> Finding:
    """One whose advice is applied, and a route to the chat that hears everything; what it said so far is read."""
    settings.FETTLE_BASE_URL = "https://fettle.example.org"
    card = gpu(node())
    Route.objects.create(name="chat", url=chat.url(), min_severity="info")
    row = report(NOON, found(target=str(card.pk)), Place(card.node_id, (card.pk,)))
    advise_transition(row, "applied", None)
    send()
    chat.got.clear()
    return row


def send() -> None:
    """All deliveries that are due."""
    for pk in tell():
        assert sending.attempt(pk) == "sent"


def concluded(finding: Finding, verdict: str) -> None:
    """The verdict is there, with its row."""
    reason = {
        "id": "By {measure}: {ratio:.2f} times as fast after the change, with {level:.0%} confidence between {low:.2f} and {high:.2f} times.",
        "params": {"level": 0.95, "measure": "SM clock", "ratio": 1.25, "low": 1.2, "high": 1.3},
    }
    Verification.objects.create(
        finding=finding, rule=finding.rule, scope="gpu", target=finding.target, applied_at=NOON, due_at=NOON, verdict=verdict,
        reason=reason, recovered_gpu_hours=38.0,
    )  # fmt: skip
    assert conclude(finding, verdict, datetime.now(UTC))


def test_advice_that_helped_is_told_with_the_numbers(finding: Finding, chat: Receiver) -> None:
    """Whose, how much faster, and what was recovered."""
    concluded(finding, "helped")
    send()
    (got,) = chat.got

    assert got["title"] == "[helped] The power limit takes the speed (n1 GPU 0)"
    lines = got["message"].replace("\u00a0", " ").split("\n")
    assert lines[0] == (
        "The advice was applied, and this was measured: By SM clock: 1.25 times as fast after the change, with 95% confidence between"
        " 1.20 and 1.30 times."
    )
    assert "Recovered since: 38.0 GPU-hours" in lines
    assert not any(line.startswith("To undo it") for line in lines)
    assert f"https://fettle.example.org/findings/{finding.pk}/" in lines


def test_advice_that_made_it_worse_says_how_to_undo_it(finding: Finding, chat: Receiver) -> None:
    """The rule's own words."""
    concluded(finding, "worse")
    send()
    (got,) = chat.got

    assert got["title"].startswith("[worse]")
    assert "To undo it: " in got["message"]


def test_what_cannot_be_told_and_that_it_was_applied_is_no_news(finding: Finding, chat: Receiver) -> None:
    """It stands on the page."""
    concluded(finding, "cannot_tell")
    send()

    assert not chat.got
