"""Who may ask what of which node, and what the row keeps of it."""

import pytest
from django.contrib import admin
from django.test import RequestFactory

from fleet.accounts.models import User
from fleet.commands.asking import AskError, ask
from fleet.commands.models import Command
from fleet.commands.passing import claim, due, give_back
from tests.fleet.rows import node, person

pytestmark = pytest.mark.django_db


def test_the_row_keeps_who_asked_and_why_though_node_and_person_go() -> None:
    """It is the audit log."""
    home, olga = node(), person("olga")
    row = ask(home, "pause_profiling", 600, "Nsight on job 7", olga)
    home.delete()
    olga.delete()
    row.refresh_from_db()

    assert (row.node, row.node_name, row.asked_by, row.asked_by_name) == (None, "n1", None, "olga")
    assert (row.what, row.seconds, row.reason, row.state) == ("pause_profiling", 600, "Nsight on job 7", "waiting")


def test_a_node_has_one_open_command_of_a_kind() -> None:
    """Another kind, and another node, have their own."""
    home, olga = node(), person("olga")
    first = ask(home, "pause_profiling", 600, "x", olga)
    with pytest.raises(AskError, match="A command of this kind is under way for n1"):
        ask(home, "pause_profiling", 60, "y", olga)
    ask(home, "resume_profiling", None, "z", olga)
    ask(node("n2"), "pause_profiling", 600, "x", olga)
    Command.objects.filter(pk=first.pk).update(state="done")

    assert ask(home, "pause_profiling", 60, "again", olga).state == "waiting"


@pytest.mark.parametrize(
    ("what", "seconds"),
    [("reboot", None), ("pause_profiling", None), ("pause_profiling", 0), ("release_driver", 86_401), ("take_driver_back", 5)],
)
def test_what_makes_no_sense_is_refused(what: str, seconds: int | None) -> None:
    """And no row is left."""
    with pytest.raises(AskError):
        ask(node(), what, seconds, "x", person())

    assert not Command.objects.exists()


def test_a_recording_is_not_commanded() -> None:
    """It has no driver."""
    with pytest.raises(AskError, match="n1 plays a recording"):
        ask(node(recording="leak"), "release_driver", 60, "x", person())


def test_of_two_processes_one_sends_and_not_twice_to_one_boot() -> None:
    """Both looked at the same row; the next boot of the agent may have it once more, an answered one nobody."""
    ask(node(), "release_driver", 60, "x", person())
    mine, theirs = due(), due()

    assert [row.pk for row in claim([(mine[0], "b1")])] == [mine[0].pk]
    assert claim([(theirs[0], "b1")]) == []
    assert claim([(due()[0], "b1")]) == []
    assert len(claim([(due()[0], "b2")])) == 1
    Command.objects.update(state="done")
    assert claim([(mine[0], "b3")]) == []
    assert due() == []


def test_a_command_whose_connection_ended_before_it_went_out_waits_again() -> None:
    """It was sent to nobody."""
    row = ask(node(), "release_driver", 60, "x", person())
    claim([(row, "b1")])
    give_back(row, "b1")
    row.refresh_from_db()

    assert (row.state, row.boot, row.sent_at) == ("waiting", "", None)


def test_nobody_touches_the_log_in_the_administration() -> None:
    """Not even a superuser adds, changes or deletes a command there."""
    request = RequestFactory().get("/")
    request.user = User.objects.create_superuser("root", password="root")
    commands = admin.site.get_model_admin(Command)

    assert commands.has_view_permission(request)
    assert not commands.has_add_permission(request)
    assert not commands.has_change_permission(request)
    assert not commands.has_delete_permission(request)
