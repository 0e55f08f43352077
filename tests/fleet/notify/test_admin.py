"""The logs in the admin, and the test of a route from a shell."""

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from fleet.accounts.models import User
from fleet.notify.models import Route
from tests.fleet.notify.receiver import Receiver

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(client: Client) -> Client:
    """A browser in which an admin is logged in."""
    client.force_login(User.objects.create_superuser("root", password="correct horse"))
    return client


def test_the_command_sends_a_test_message(chat: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    """`route_test NAME` from a shell."""
    Route.objects.create(name="chat", url=chat.url())
    call_command("route_test", "chat")

    assert len(chat.got) == 1
    assert "Sent a test message through chat." in capsys.readouterr().out


def test_the_command_fails_loudly(chat: Receiver) -> None:
    """An unknown name, and a target that refuses."""
    with pytest.raises(CommandError, match="No route is named 'chat'"):
        call_command("route_test", "chat")
    chat.statuses = [403]
    Route.objects.create(name="chat", url=chat.url())

    with pytest.raises(CommandError, match="403"):
        call_command("route_test", "chat")


def test_deliveries_and_findings_can_be_looked_at(admin: Client) -> None:
    """The logs open, and cannot be written."""
    for page in ("notify/delivery", "findings/finding", "findings/diagnosis"):
        assert admin.get(f"/admin/{page}/").status_code == 200
        assert admin.get(f"/admin/{page}/add/").status_code == 403
