"""The pages of routes: the list, the form with its rows, the URL that goes in and never comes out, tests, inhibitions, the dry run."""

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from fleet.notify.models import Inhibition, Route
from tests.fleet.dashboard.alerting import EVIL, SECRET, alert, person, route, text
from tests.fleet.notify.receiver import receiving

pytestmark = pytest.mark.django_db
TOKEN = "T0kenThatNobodyMaySee"
PAGES = ("/alerts/routes/new/", "/alerts/inhibitions/new/")


@pytest.fixture
def admin(db: None) -> Client:
    """A person who may decide where alerts go."""
    return person("admin")


def form(**more: object) -> dict[str, object]:
    """What the form of a route posts."""
    return {
        "name": "night", "url": SECRET, "min_severity": "warn", "enabled": "on", "position": "7", "language": "zh-hans", "send_resolved": "on",
        "group_wait_s": "10s", "group_interval_s": "1m", "repeat_every_s": "4h", "max_per_minute": "12", "escalate_after_s": "",
        "matchers-0-label": "team", "matchers-0-op": "in", "matchers-0-values": "nlp, vision*\r\n b \r\n\r\n", "matchers-3-label": "",
        "matchers-3-values": "", "matchers-12-label": "node", "matchers-12-op": "not_in", "matchers-12-values": "dev-*",
        "times-0-days": ["4", "0"], "times-0-from": "22:00", "times-0-to": "06:00", "times-0-zone": "Asia/Shanghai",
        "times-1-from": "", "times-1-to": "", "times-1-zone": "UTC", "group_by": ["node", "rule"], **more,
    }  # fmt: skip


def test_a_route_is_made_from_rows_of_fields(admin: Client) -> None:
    """One value a line, empty rows left out, times in their units; and who made it stands in the log, without the URL."""
    admin.post("/alerts/routes/new/", form())
    row = Route.objects.get()

    assert row.matchers == [
        {"label": "team", "op": "in", "values": ["nlp, vision*", "b"]},
        {"label": "node", "op": "not_in", "values": ["dev-*"]},
    ]
    assert row.active_times == [{"days": [0, 4], "from": "22:00", "to": "06:00", "timezone": "Asia/Shanghai"}]
    assert (row.group_by, row.repeat_every_s, row.escalate_after_s, row.position) == (["rule", "node"], 14_400, None, 7)
    assert (row.url, row.last, row.send_resolved, row.language) == (SECRET, False, True, "zh-hans")
    entry = LogEntry.objects.get()
    assert "matchers" in entry.change_message
    assert TOKEN not in entry.change_message + entry.object_repr


def test_saving_the_form_as_it_is_shown_changes_nothing(admin: Client) -> None:
    """Whatever stands in its rows comes back as it was; the URL that was left empty stays."""
    admin.post("/alerts/routes/new/", form(name='"<b>', **{"matchers-0-values": "a,b\nc*"}))
    before = Route.objects.values().get()
    page = admin.get(f"/alerts/routes/{before['id']}/")
    shown = {key: value for row in page.context["matchers"] for key, value in (
        (f"{row['name']}-label", row["label"]), (f"{row['name']}-op", row["op"]), (f"{row['name']}-values", row["text"]),
    )}  # fmt: skip
    shown |= {key: value for row in page.context["times"] for key, value in (
        (f"{row['name']}-days", [str(day) for day, _, ticked in row["days"] if ticked]), (f"{row['name']}-from", row["from"]),
        (f"{row['name']}-to", row["to"]), (f"{row['name']}-zone", row["zone"]),
    )}  # fmt: skip
    asked = {name: value for name, value in page.context["asked"].items() if not isinstance(value, bool) and value is not None}
    admin.post(f"/alerts/routes/{before['id']}/", asked | shown | {"enabled": "on", "send_resolved": "on", "url": ""})

    assert Route.objects.values().get() == before


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"name": ""}, "Give it a name."), ({"name": "a\x00b"}, "control characters"), ({"name": "old"}, "There is a route of this name."),
        ({"url": ""}, "A route needs a URL."), ({"url": "nosuch://x"}, "Apprise knows no such target"), ({"position": "x"}, "whole number"),
        ({"group_wait_s": "soon"}, "30s, 5m, 4h or 1d"), ({"group_interval_s": ""}, "30s, 5m, 4h or 1d"), ({"repeat_every_s": "1s"}, "from 60 to"),
        ({"matchers-0-values": ""}, "1 to 100 values"), ({"matchers-0-label": "colour"}, "label is one of"), ({"times-0-zone": "Mars"}, "Europe/Berlin"),
        ({"times-0-days": []}, "0 (Monday)"), ({"escalate_after_s": "5m"}, "both or neither"), ({"max_per_minute": "0"}, "from 1 to 1000"),
        ({"min_severity": "loud"}, "This is one of"), ({"language": "tlh"}, "This is one of"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_beside_its_field(admin: Client, wrong: dict[str, object], says: str) -> None:
    """In a sentence, with what was typed still there, but for the URL; and nothing is kept."""
    route("old")
    answer = admin.post("/alerts/routes/new/", form(**wrong))
    page = answer.content.decode()

    assert answer.status_code == 400
    assert says in page.replace("&#x27;", "'")
    assert TOKEN not in page
    assert Route.objects.count() == 1


def test_no_page_shows_a_stored_url(admin: Client) -> None:
    """Neither the list, nor the form, nor the dry run; the scheme is all of it that may be seen."""
    row = route()
    for path in ("/alerts/routes/", f"/alerts/routes/{row.pk}/", "/alerts/routes/try/?severity=critical", "/alerts/deliveries/"):
        assert TOKEN not in text(admin, path), path

    assert ">json</span>" in text(admin, "/alerts/routes/")


def test_a_test_message_says_what_became_of_it(admin: Client) -> None:
    """Sent, or the reason without the URL."""
    with receiving() as chat:
        row = Route.objects.create(name="chat", url=chat.url())
        sent = admin.post(f"/alerts/routes/{row.pk}/act/", {"what": "test"}, follow=True).content.decode()
        chat.statuses = [403]
        failed = admin.post(f"/alerts/routes/{row.pk}/act/", {"what": "test"}, follow=True).content.decode()

    assert "Sent through chat." in sent
    assert len(chat.got) >= 1
    assert "Not sent through chat:" in failed
    assert "403" in failed


def test_a_route_is_switched_off_and_deleted_when_confirmed(admin: Client) -> None:
    """A press alone deletes nothing."""
    row = route()
    admin.post(f"/alerts/routes/{row.pk}/act/", {"what": "off"})
    assert not Route.objects.get().enabled
    admin.post(f"/alerts/routes/{row.pk}/act/", {"what": "delete"})
    assert Route.objects.exists()
    admin.post(f"/alerts/routes/{row.pk}/act/", {"what": "delete", "confirmed": "yes"})

    assert not Route.objects.exists()
    assert [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")] == ["enabled", ""]


def test_viewers_and_operators_read_and_change_nothing(viewer: Client, client: Client) -> None:
    """Where alerts go is for admins; a stranger is led to the login."""
    row = route(EVIL)
    for reader in (viewer, person("operator")):
        page = text(reader, "/alerts/routes/")
        assert "&lt;script&gt;alert(1)" in page
        assert EVIL not in page
        assert "/act/" not in page
        for path in (*PAGES, f"/alerts/routes/{row.pk}/"):
            assert reader.get(path).status_code == 403
            assert reader.post(path, form()).status_code == 403
        assert reader.post(f"/alerts/routes/{row.pk}/act/", {"what": "off"}).status_code == 403
    assert client.get("/alerts/routes/").status_code == 302
    assert Route.objects.get().enabled


def test_an_inhibition_is_made_changed_and_deleted(admin: Client) -> None:
    """By rows of fields too; one without matchers would hold everything and is refused."""
    asked = {"name": "node down", "source-0-label": "rule", "source-0-op": "in", "source-0-values": "node-gone", "enabled": "on",
             "target-0-label": "severity", "target-0-op": "in", "target-0-values": "warn", "equal": ["node"]}  # fmt: skip
    assert admin.post("/alerts/inhibitions/new/", {"name": "all"}).status_code == 400
    admin.post("/alerts/inhibitions/new/", asked)
    row = Inhibition.objects.get()
    assert (row.source[0]["values"], row.target[0]["values"], row.equal) == (["node-gone"], ["warn"], ["node"])
    admin.post(f"/alerts/inhibitions/{row.pk}/", asked | {"name": "down", "enabled": ""})
    row.refresh_from_db()
    assert (row.name, row.enabled) == ("down", False)
    admin.post(f"/alerts/inhibitions/{row.pk}/", {"what": "delete", "confirmed": "yes"})

    assert not Inhibition.objects.exists()


def test_the_dry_run_says_route_by_route_what_and_why(viewer: Client) -> None:
    """Of labels and of a finding; nothing is written."""
    route("first", position=1, matchers=[{"label": "team", "op": "in", "values": ["nlp"]}], last=True)
    route("second", position=2)
    page = text(viewer, "/alerts/routes/try/?severity=warn&team=nlp")
    assert "1 route would get it." in page
    assert "The route first before it is the last one" in page.replace("&#x27;", "'")
    page = text(viewer, f"/alerts/routes/try/?finding={alert().pk}")

    assert "matcher on team does not fit" in page
    assert "1 route would get it." in page


@pytest.mark.parametrize("query", ["finding=99999", "finding=x", "severity=loud", "team=%00", "finding=9999999999999999999"])
def test_a_dry_run_of_nothing_says_so(viewer: Client, query: str) -> None:
    """A sentence, and the form again."""
    route()

    assert 'class="error" role="alert"' in text(viewer, f"/alerts/routes/try/?{query}", 400)
