"""Routes in the admin: the URL goes in and does not come out."""

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from fleet.accounts.models import User
from fleet.notify.models import Route
from tests.fleet.notify.receiver import Receiver

pytestmark = pytest.mark.django_db
SECRET = "json://127.0.0.1:1/T0kenThatNobodyMaySee"


@pytest.fixture
def admin(client: Client) -> Client:
    """A browser in which an admin is logged in."""
    client.force_login(User.objects.create_superuser("root", password="correct horse"))
    return client


def form(**more: object) -> dict[str, object]:
    """What the form posts."""
    return {"name": "chat", "url": SECRET, "min_severity": "warn", "enabled": "on", **more}


def test_a_route_is_made_with_a_url_that_apprise_knows(admin: Client) -> None:
    """The stored URL is the one that was typed."""
    admin.post("/admin/notify/route/add/", form())

    assert Route.objects.get().url == SECRET


def test_a_url_that_apprise_does_not_know_is_refused(admin: Client) -> None:
    """The form says so and stores nothing."""
    answer = admin.post("/admin/notify/route/add/", form(url="nosuch://x"))

    assert "Apprise knows no such target" in answer.content.decode()
    assert not Route.objects.exists()


@pytest.mark.parametrize("name", ["a\x00b", "a\x1b[2J"])
def test_a_name_with_control_characters_is_refused(admin: Client, name: str) -> None:
    """Messages and logs bear it."""
    assert "characters" in admin.post("/admin/notify/route/add/", form(name=name)).content.decode()
    assert not Route.objects.exists()


def test_a_new_route_needs_a_url(admin: Client) -> None:
    """Only an existing one may leave the field empty."""
    assert "A route needs a URL." in admin.post("/admin/notify/route/add/", form(url="")).content.decode()


def test_no_page_shows_a_stored_url(admin: Client) -> None:
    """Neither the list, nor the form, nor the history."""
    admin.post("/admin/notify/route/add/", form())
    route = Route.objects.get()

    for page in ("", f"{route.pk}/change/", f"{route.pk}/history/", f"{route.pk}/delete/"):
        answer = admin.get(f"/admin/notify/route/{page}")
        assert answer.status_code == 200
        assert "T0kenThatNobodyMaySee" not in answer.content.decode()


def test_an_empty_field_keeps_the_stored_url(admin: Client) -> None:
    """Other fields can be changed without knowing the secret."""
    admin.post("/admin/notify/route/add/", form())
    route = Route.objects.get()
    admin.post(f"/admin/notify/route/{route.pk}/change/", form(url="", min_severity="critical"))

    route.refresh_from_db()
    assert (route.url, route.min_severity) == (SECRET, "critical")


def test_the_admin_action_sends_a_test_message(admin: Client, chat: Receiver) -> None:
    """It goes out at once and says what it is."""
    route = Route.objects.create(name="chat", url=chat.url())
    answer = admin.post("/admin/notify/route/", {"action": "send_test", "_selected_action": [route.pk]}, follow=True)

    assert "Sent through chat." in answer.content.decode()
    assert chat.got[0]["title"] == "Test message of Fettle"


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
