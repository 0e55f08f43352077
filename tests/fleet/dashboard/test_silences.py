"""The page of silences and of nodes in maintenance."""

from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from fleet.annotations.models import Annotation
from fleet.notify.models import Silence
from fleet.notify.quieting import in_maintenance
from tests.fleet.dashboard.alerting import EVIL, alert, person, text
from tests.fleet.dashboard.fleet_rows import make_node

pytestmark = pytest.mark.django_db
NODE = {"matchers-0-label": "node", "matchers-0-op": "in", "matchers-0-values": "gpu-01"}


@pytest.fixture
def operator(db: None) -> Client:
    """A person who may keep alerts quiet."""
    return person("operator")


def at(hours: float) -> str:
    """So many hours from now, as a browser's field gives it."""
    return f"{timezone.now() + timedelta(hours=hours):%Y-%m-%dT%H:%M}"


def silence(**more: object) -> Silence:
    """One that holds for an hour."""
    values = {"matchers": [], "ends_at": timezone.now() + timedelta(hours=1), "comment": EVIL, "by_name": "ann"}
    return Silence.objects.create(**values | more)


def test_the_form_is_filled_in_for_an_alert(operator: Client) -> None:
    """By its rule and its node."""
    page = operator.get(f"/alerts/silences/?finding={alert().pk}")

    assert [(row["label"], row["text"]) for row in page.context["matchers"][:3]] == [
        ("rule", "xid-79"),
        ("node", "gpu-01"),
        ("", ""),
    ]


def test_a_silence_is_made_listed_and_ended(operator: Client) -> None:
    """For two hours from now, by whoever made it; ended, it is over and says by whom."""
    operator.post("/alerts/silences/new/", NODE | {"for": "7200", "comment": "New PDU"})
    row = Silence.objects.get()
    assert row.ends_at - row.starts_at == pytest.approx(timedelta(hours=2), abs=timedelta(seconds=5))
    assert row.by_name == "the operator"
    assert "New PDU" in text(operator, "/alerts/silences/")
    operator.post(f"/alerts/silences/{row.pk}/end/")

    assert "New PDU" not in text(operator, "/alerts/silences/")
    assert "ended by the operator" in text(operator, "/alerts/silences/?state=over")
    assert "The silence has ended." in operator.post(f"/alerts/silences/{row.pk}/end/", follow=True).content.decode()


def test_one_to_come_says_so(operator: Client) -> None:
    """From and until are UTC."""
    operator.post("/alerts/silences/new/", NODE | {"starts_at": at(2), "ends_at": at(4), "comment": "Firmware"})

    assert "coming</span>" in text(operator, "/alerts/silences/")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"matchers-0-values": "", "matchers-0-label": ""}, "at least one matcher"), ({"comment": " "}, "people ask at three"),
        ({"comment": "a\x1bb"}, "control characters"), ({"ends_at": "tomorrow"}, "2026-11-30 14:00"), ({"ends_at": "2020-01-01T00:00"}, "It ends before"),
        ({"ends_at": "9999-12-31T23:59"}, "a year at most"), ({"starts_at": "0001-01-01T00:00+23:59"}, "2026-11-30 14:00"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_silence_is_said(operator: Client, more: dict[str, str], says: str) -> None:
    """By its field, and nothing is kept."""
    answer = operator.post("/alerts/silences/new/", NODE | {"comment": "why", "for": "3600"} | more)

    assert answer.status_code == 400
    assert says in answer.content.decode()
    assert not Silence.objects.exists()


def test_nodes_are_taken_into_maintenance_and_out_of_it(operator: Client) -> None:
    """By a list as Slurm writes it: they are in it now, and no longer once it is ended."""
    for name in ("gpu-01", "gpu-02", "gpu-03"):
        make_node(name, 1)
    operator.post("/alerts/maintenance/", {"nodes": "gpu-[01-02]", "for": "3600"})
    assert in_maintenance(timezone.now()) == {"gpu-01", "gpu-02"}
    assert "gpu-02" in text(operator, "/alerts/silences/")
    for row in Annotation.objects.all():
        operator.post(f"/alerts/maintenance/{row.pk}/end/")

    assert in_maintenance(timezone.now()) == set()
    assert "over</span>" in text(operator, "/alerts/silences/")


def test_a_window_to_come_holds_then_and_not_now(operator: Client) -> None:
    """And one that was planned is taken away when it is ended."""
    make_node("gpu-01", 1)
    operator.post("/alerts/maintenance/", {"nodes": "gpu-01", "from": at(2), "until": at(3)})
    assert in_maintenance(timezone.now()) == set()
    assert in_maintenance(timezone.now() + timedelta(hours=2.5)) == {"gpu-01"}
    operator.post(f"/alerts/maintenance/{Annotation.objects.get().pk}/end/")

    assert not Annotation.objects.exists()


def test_a_second_window_does_not_end_the_first_unseen(operator: Client) -> None:
    """A node has one at a time: one for later is refused while another holds; the one that holds can be made longer."""
    make_node("gpu-01", 1)
    operator.post("/alerts/maintenance/", {"nodes": "gpu-01", "for": "3600"})
    answer = operator.post("/alerts/maintenance/", {"nodes": "gpu-01", "from": at(5), "until": at(6)})
    assert answer.status_code == 400
    assert "has a window from" in answer.content.decode()
    operator.post("/alerts/maintenance/", {"nodes": "gpu-01", "for": "28800"})
    until = Annotation.objects.get().until

    assert isinstance(until, datetime)
    assert until > timezone.now() + timedelta(hours=7)


@pytest.mark.parametrize(
    ("more", "says"),
    [({"nodes": ""}, "Name a node."), ({"nodes": "gpu-99"}, "There is no node gpu-99."), ({"nodes": "gpu-[01"}, "gpu-[01"),
     ({"nodes": "<b>*"}, "node&#x27;s name"), ({"until": "2020-01-01T00:00"}, "Say when it ends"), ({"until": "2999-01-01T00:00"}, "a year at most"),
     ({"from": "x"}, "2026-11-30 14:00")],
)  # fmt: skip
def test_what_is_wrong_with_a_window_is_said(operator: Client, more: dict[str, str], says: str) -> None:
    """By its field, and nothing is kept."""
    make_node("gpu-01", 1)
    answer = operator.post("/alerts/maintenance/", {"nodes": "gpu-01", "for": "3600"} | more)

    assert answer.status_code == 400
    assert says in answer.content.decode()
    assert not Annotation.objects.exists()


def test_viewers_read_and_change_nothing(viewer: Client, client: Client) -> None:
    """What others wrote is shown as it is, and no more."""
    row = silence()
    window = Annotation.objects.create(scope="node", target="gpu-*", key="maintenance", value=True, by_name=EVIL)
    page = text(viewer, "/alerts/silences/")

    assert EVIL not in page
    assert page.count("&lt;script&gt;alert(1)") >= 2
    for path in ("silences/new/", f"silences/{row.pk}/end/", "maintenance/", f"maintenance/{window.pk}/end/"):
        assert viewer.post(f"/alerts/{path}", NODE).status_code == 403, path
    assert client.get("/alerts/silences/").status_code == 302
