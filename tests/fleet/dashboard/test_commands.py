"""The node page's commands: forms for operators, the table for everyone."""

import re

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from fleet.accounts.models import User
from fleet.commands.models import Command
from fleet.inventory.models import Node
from tests.fleet.dashboard.fleet_rows import make_node

pytestmark = pytest.mark.django_db
PAUSE = {"what": "pause_profiling", "minutes": "30", "reason": "Nsight on job 7", "confirmed": "yes"}


@pytest.fixture
def home() -> Node:
    """A node whose agent is not there."""
    return make_node("n", 1)


@pytest.fixture
def olga() -> Client:
    """One of the group `operator`."""
    user = User.objects.create_user("olga", password="x")
    user.groups.add(Group.objects.get(name="operator"))
    client = Client()
    client.force_login(user)
    return client


def test_an_operator_asks_from_the_page_and_everyone_sees_it(olga: Client, viewer: Client, home: Node) -> None:
    """With who, why, and what it waits for."""
    answer = olga.post("/nodes/n/command/", PAUSE)
    row = Command.objects.get()
    page = viewer.get("/nodes/n/").content.decode()

    assert (answer.status_code, answer["Location"]) == (302, "/nodes/n/#commands-title")
    assert (row.what, row.seconds, row.reason, row.asked_by_name) == ("pause_profiling", 1800, "Nsight on job 7", "olga")
    for word in (
        "Pause profiling",
        "30\u00a0min",
        "olga",
        "Nsight on job 7",
        "waiting",
        "as soon as the node&#x27;s agent is connected",
    ):
        assert word in page
    assert 'id="commands" data-refresh' in page


def test_viewers_see_no_forms_and_may_not_post(viewer: Client, olga: Client, home: Node) -> None:
    """Looking is not asking."""
    assert "/nodes/n/command/" in olga.get("/nodes/n/").content.decode()
    assert "/nodes/n/command/" not in viewer.get("/nodes/n/").content.decode()
    assert viewer.post("/nodes/n/command/", PAUSE).status_code == 403
    assert olga.get("/nodes/n/command/").status_code == 405
    assert not Command.objects.exists()


def test_a_post_without_the_token_is_refused(olga: Client, home: Node) -> None:
    """CSRF is checked."""
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = olga.cookies

    assert strict.post("/nodes/n/command/", PAUSE).status_code == 403


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"confirmed": ""}, "tick the box"),
        ({"reason": "  "}, "say why"),
        ({"minutes": "7"}, "choose for how long"),
        ({"reason": "a\x00b"}, "control characters"),
        ({"reason": "a\r\nb"}, "control characters"),
        ({"reason": "\u202egnp"}, "control characters"),
        ({"what": "reboot"}, "There is no command reboot"),
    ],
)
def test_what_is_missing_is_said_and_nothing_is_asked(olga: Client, home: Node, wrong: dict[str, str], says: str) -> None:
    """On the page that follows."""
    olga.post("/nodes/n/command/", PAUSE | wrong)

    assert says in olga.get("/nodes/n/").content.decode()
    assert not Command.objects.exists()


def test_an_end_needs_no_confirmation(olga: Client, home: Node) -> None:
    """It brings readings back."""
    olga.post("/nodes/n/command/", {"what": "take_driver_back", "reason": "done"})

    assert Command.objects.get().seconds is None


def test_what_came_too_late_is_told_apart(viewer: Client, olga: Client, home: Node) -> None:
    """Sent or not makes a difference to what may have happened."""
    olga.post("/nodes/n/command/", PAUSE)
    Command.objects.update(state="expired")
    never = viewer.get("/nodes/n/").content.decode()
    Command.objects.update(sent_at="2026-11-30T12:00:00Z")
    perhaps = viewer.get("/nodes/n/", headers={"accept-language": "zh-hans"}).content.decode()

    assert "nothing was sent" in never
    assert "命令可能已经执行" in perhaps
    assert re.search(r"<strong>已过期</strong>", perhaps)


def test_a_recording_has_no_forms(olga: Client) -> None:
    """There is nothing to command."""
    make_node("r", 1, recording="leak")

    assert "/nodes/r/command/" not in olga.get("/nodes/r/").content.decode()
