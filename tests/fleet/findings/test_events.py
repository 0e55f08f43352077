"""Events become findings at once."""

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from advisor import xid_catalog
from fleet.findings.models import Finding, Transition
from fleet.findings.tasks import event_arrived, sweep_events
from fleet.inventory.models import Event
from tests.fleet.rows import event, gpu, node

pytestmark = pytest.mark.django_db


def test_an_xid_79_fires_at_once() -> None:
    """The finding is critical, names its GPU, and is marked as reported by an event."""
    card = gpu(node())
    event_arrived(event(card, 79).pk)

    row = Finding.objects.get()
    assert (row.rule, row.severity, row.condition, row.origin) == ("xid-fallen-off-bus", "critical", "firing", "event")
    assert row.fingerprint == f"xid-fallen-off-bus:gpu:{card.pk}"
    assert list(row.gpus.all()) == [card]


@pytest.mark.parametrize(("kind", "text"), [("gpu_lost", ""), ("driver", "NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.")])
def test_a_lost_gpu_without_a_code_is_the_same_finding(kind: str, text: str) -> None:
    """Kernel text, XID and inventory are three witnesses of one thing (D01)."""
    card = gpu(node())
    event_arrived(event(card, 79).pk)
    event_arrived(event(card, None, kind, text=text).pk)

    assert Finding.objects.get().rule == "xid-fallen-off-bus"


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        (13, "app-fault-xid"), (31, "app-fault-xid"), (43, "app-fault-xid"), (48, "uncorrectable-ecc"),
        (63, "row-remap-pending"), (64, "row-remap-failed"), (74, "nvlink-fault"), (92, "correctable-ecc-rate"),
        (94, "uncorrectable-ecc"), (95, "uncorrectable-ecc"), (119, "gpu-reset-required"), (167, "xid-fallen-off-bus"),
    ],
)  # fmt: skip
def test_a_code_is_evidence_for_its_rule(code: int, rule: str) -> None:
    """The catalogue's mapping."""
    event_arrived(event(gpu(node()), code).pk)

    assert Finding.objects.get().rule == rule


def test_a_handled_event_is_not_handled_again() -> None:
    """The task may be delivered twice."""
    one = event(gpu(node()))
    event_arrived(one.pk)
    event_arrived(one.pk)

    assert Finding.objects.get().seen_total == 1


def test_codes_of_one_rule_on_one_gpu_merge() -> None:
    """One trouble with many witnesses is one finding (A10); other GPUs have their own."""
    home = node()
    first, second = gpu(home, 0), gpu(home, 1)
    for code in (48, 94, 48):
        event_arrived(event(first, code).pk)
    event_arrived(event(second, 48).pk)

    assert sorted(Finding.objects.values_list("target", "seen_total")) == sorted([(str(first.pk), 3), (str(second.pk), 1)])
    assert Transition.objects.filter(after="firing").count() == 2


def test_an_xid_45_alone_opens_nothing() -> None:
    """It follows every plain kill."""
    event_arrived(event(gpu(node()), 45).pk)

    assert not Finding.objects.exists()
    assert Event.objects.get().handled_at is not None


def test_an_xid_45_beside_another_fault_joins_it() -> None:
    """Together they are an application's fault."""
    card = gpu(node())
    event_arrived(event(card, 31).pk)
    event_arrived(event(card, 45).pk)

    assert Finding.objects.get().seen_total == 2


@pytest.mark.parametrize("code", [1, 999])
def test_an_unknown_code_is_shown_once_for_each_code_and_node(code: int) -> None:
    """What it asks for is not known, and that is said: low, and not for every GPU again."""
    home = node()
    for card in (gpu(home), gpu(home, 1)):
        event_arrived(event(card, code).pk)
    event_arrived(event(gpu(home, 2), code + 1).pk)

    rows = Finding.objects.filter(rule="xid-unknown")
    assert sorted(rows.values_list("target", "severity", "seen_total")) == [
        *sorted([(f"{home.pk}/{code}", "info", 2), (f"{home.pk}/{code + 1}", "info", 1)])
    ]
    assert {row.node_id for row in rows} == {home.pk}
    assert not Event.objects.filter(handled_at=None).exists()


def test_an_event_of_days_ago_pages_nobody() -> None:
    """Backlog is history (T04)."""
    event_arrived(event(gpu(node()), 79, at=timezone.now() - timedelta(days=11)).pk)

    assert not Finding.objects.exists()


def test_a_gpu_that_is_back_ends_the_finding() -> None:
    """The one certain word that it is on the bus again; an older such word ends nothing."""
    card = gpu(node())
    at = timezone.now() - timedelta(minutes=5)
    event_arrived(event(card, 79, at=at).pk)
    event_arrived(event(card, None, "gpu_back", at=at - timedelta(minutes=1)).pk)
    assert Finding.objects.get().condition == "firing"

    event_arrived(event(card, None, "gpu_back").pk)
    assert Finding.objects.get().condition == "resolved"


def test_a_clock_that_runs_ahead_does_not_date_the_finding_in_the_future() -> None:
    """The server's clock bounds the node's (T02)."""
    event_arrived(event(gpu(node()), 79, at=timezone.now() + timedelta(hours=3)).pk)

    assert Finding.objects.get().opened_at <= timezone.now()


def test_the_sweep_takes_what_no_task_took() -> None:
    """A broker that was down loses nothing; events of this moment are left to their own task."""
    home = node()
    lost, young = event(gpu(home, 0)), event(gpu(home, 1))
    Event.objects.filter(pk=lost.pk).update(received_at=timezone.now() - timedelta(seconds=30))
    sweep_events()

    assert [row.target for row in Finding.objects.all()] == [str(lost.gpu_id)]
    young.refresh_from_db()
    assert young.handled_at is None


def test_commands_quote_what_a_node_is_called() -> None:
    """A node's name cannot become a part of a command."""
    found = xid_catalog.finding(xid_catalog.BY_CODE[48], "1", "n1; rm -rf /", "GPU-1", 1, 48)

    assert "nodename='n1; rm -rf /' " in found.change[1].text


@pytest.mark.parametrize("xid", [xid for xid in xid_catalog.XIDS if xid.rule], ids=lambda xid: str(xid.code))
def test_every_code_makes_a_whole_finding(xid: xid_catalog.Xid) -> None:
    """Texts have their parameters, and each code stands once."""
    found = xid_catalog.finding(xid, "1", "n1", "GPU-1", 2, xid.code)

    assert str(xid.code) in found.summary.english()
    assert xid_catalog.BY_CODE[xid.code] is xid


def test_a_storm_from_one_gpu_is_one_piece_of_work(django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    """Thousands of the same event cost a handful of queries and make one finding and one announcement (A03)."""
    card = gpu(node())
    at = timezone.now() - timedelta(minutes=1)
    first = event(card, 31, at=at)
    Event.objects.bulk_create(
        Event(node=card.node, gpu=card, boot="b", seq=10_000 + n, kind="xid", code=31, observed_at=at + timedelta(milliseconds=n))
        for n in range(3000)
    )
    Event.objects.update(received_at=timezone.now() - timedelta(seconds=30))

    with django_assert_max_num_queries(55):
        sweep_events()
    row = Finding.objects.get()
    assert (row.seen_total, row.opened_at) == (3001, first.observed_at)
    assert Transition.objects.filter(after="firing").count() == 1
    assert not Event.objects.filter(handled_at=None).exists()


def test_lost_and_back_in_one_sweep_is_back() -> None:
    """Events that waited are taken in the order in which they happened."""
    card = gpu(node())
    at = timezone.now() - timedelta(minutes=5)
    event(card, None, "gpu_back", at=at + timedelta(minutes=1))
    event(card, 79, at=at)
    Event.objects.update(received_at=at)
    sweep_events()

    assert Finding.objects.get().condition == "resolved"
