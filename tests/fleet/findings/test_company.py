"""One fault that many tell of is one alert: XIDs that follow others, the driver and the kernel's log, whichever comes first."""

from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest
from django.utils import timezone

from advisor import xid_catalog, xid_companions
from fleet.findings.events import handle
from fleet.findings.models import Finding, Transition
from fleet.findings.tasks import event_arrived, sweep_events
from fleet.inventory.models import Event, Gpu
from tests.fleet.rows import event, gpu, node

pytestmark = pytest.mark.django_db
OF_LOG = "XID {code} on the GPU at 0000:4f:00.0, process 4711 (python)."


def told(card: Gpu, *codes: int, apart_s: float = 1.0) -> list[Event]:
    """Lines of the kernel's log about the card, so far apart, the last of them now."""
    now = timezone.now()
    return [
        event(card, code, at=now - timedelta(seconds=apart_s * (len(codes) - 1 - place)), text=OF_LOG.format(code=code))
        for place, code in enumerate(codes)
    ]


def alerts() -> list[tuple[str, int]]:
    """The alerts that nothing explains, with how often they were seen."""
    return sorted(Finding.objects.filter(cause=None).values_list("rule", "seen_total"))


TOGETHER = [
    pytest.param((48, 94, 63, 45), "uncorrectable-ecc", id="a memory error, contained, its row set aside, programs cleaned up"),
    pytest.param((95, 64, 45), "row-remap-failed", id="no spare row is left"),
    pytest.param((31, 43), "app-fault-xid", id="a page fault and the channel that stopped"),
    pytest.param((13, 43, 45), "app-fault-xid", id="an exception, the channel that stopped, programs cleaned up"),
    pytest.param((119, 154, 79), "xid-fallen-off-bus", id="firmware that hangs until the card is gone"),
    pytest.param((120, 79, 45), "xid-fallen-off-bus", id="the other firmware error"),
    pytest.param((79, 74, 13), "xid-fallen-off-bus", id="a lost card, its links, its program"),
]


@pytest.mark.parametrize(("codes", "rule"), TOGETHER)
def test_a_fault_with_its_companions_is_one_alert_in_any_order(codes: tuple[int, ...], rule: str) -> None:
    """Each order in which the lines were written, taken in one sweep: one finding, one announcement, every line counted."""
    home = node()
    for place, order in enumerate(permutations(codes)):
        card = gpu(home, place)
        handle(told(card, *order))
        (row,) = Finding.objects.filter(gpus=card)
        assert (row.rule, row.condition, row.seen_total) == (rule, "firing", len(codes)), order
        assert row.transitions.filter(after="firing").count() == 1


@pytest.mark.parametrize(("codes", "rule"), TOGETHER)
def test_tasks_that_take_them_in_any_order_open_one_alert(codes: tuple[int, ...], rule: str) -> None:
    """The lines are committed together and taken one by one, the weakest first or last."""
    home = node()
    for place, order in enumerate((range(len(codes)), reversed(range(len(codes))))):
        card = gpu(home, place)
        lines = told(card, *codes)
        for number in order:
            event_arrived(lines[number].pk)
        (row,) = Finding.objects.filter(gpus=card)
        assert (row.rule, row.seen_total) == (rule, len(codes))


def test_a_stronger_fault_that_is_written_later_explains_the_weaker() -> None:
    """Its alert was told already: it stays, and is the stronger one's consequence from then on."""
    card = gpu(node())
    weaker, stronger = told(card, 119, 79, apart_s=20)
    Event.objects.filter(pk=stronger.pk).update(handled_at=timezone.now())  # not there yet
    event_arrived(weaker.pk)
    Event.objects.filter(pk=stronger.pk).update(handled_at=None)
    event_arrived(stronger.pk)

    reset, lost = Finding.objects.order_by("pk")
    assert (reset.rule, lost.rule, reset.cause, lost.cause) == ("gpu-reset-required", "xid-fallen-off-bus", lost, None)


@pytest.mark.parametrize(
    ("codes", "apart_s"),
    [
        pytest.param((94, 63), 90, id="more than a minute apart"),
        pytest.param((48, 31), 1, id="codes that do not follow each other"),
    ],
)
def test_what_does_not_belong_together_is_told_apart(codes: tuple[int, ...], apart_s: float) -> None:
    """Two findings."""
    handle(told(gpu(node()), *codes, apart_s=apart_s))

    assert Finding.objects.count() == 2


def test_companions_of_another_card_stay_with_it() -> None:
    """A row of the neighbour is the neighbour's."""
    home = node()
    handle([*told(gpu(home, 0), 94), *told(gpu(home, 1), 63)])

    assert alerts() == [("row-remap-pending", 1), ("uncorrectable-ecc", 1)]


def test_a_late_companion_joins_what_is_over() -> None:
    """From a backlog, after the card is back: history."""
    card = gpu(node())
    now = timezone.now()
    event_arrived(event(card, 79, at=now - timedelta(minutes=10)).pk)
    event_arrived(event(card, None, "gpu_back", at=now - timedelta(minutes=5)).pk)
    event_arrived(event(card, 119, at=now - timedelta(minutes=10, seconds=20)).pk)

    row = Finding.objects.get()
    assert (row.rule, row.condition, row.seen_total) == ("xid-fallen-off-bus", "resolved", 2)


def test_every_witness_of_one_loss_is_kept() -> None:
    """The driver, the kernel's text and its XID: one finding that says who saw it, when and how often."""
    card = gpu(node())
    now = timezone.now()
    lines: list[dict[str, Any]] = [
        {"code": None, "kind": "gpu_lost", "text": "GPU 0 is lost: the driver no longer reaches it."},
        {"code": None, "kind": "gpu_lost", "text": "The GPU at 0000:4f:00.0 has fallen off the bus."},
        {"code": 79, "text": OF_LOG.format(code=79)},
        {"code": 79, "text": "XID 79"},
    ]
    for second, line in enumerate(lines):
        event_arrived(event(card, at=now - timedelta(seconds=10 - second), **line).pk)

    row = Finding.objects.get()
    assert {kind: one["count"] for kind, one in row.witnesses.items()} == {"nvml": 2, "kernel_log": 2}
    assert row.witnesses["nvml"]["first_at"] < row.witnesses["kernel_log"]["first_at"] < row.witnesses["nvml"]["last_at"]
    assert Transition.objects.filter(after="firing").count() == 1


def test_what_was_lost_and_is_back_before_it_was_known_is_history() -> None:
    """The word that it is back was handled first: nobody is told of a loss that is over."""
    card = gpu(node())
    at = timezone.now() - timedelta(minutes=5)
    event_arrived(event(card, None, "gpu_back", at=at + timedelta(minutes=1)).pk)
    event_arrived(event(card, 79, at=at).pk)

    row = Finding.objects.get()
    assert (row.condition, row.resolved_at) == ("resolved", at + timedelta(minutes=1))
    assert not Transition.objects.filter(after="firing").exists()


def test_a_programs_fault_of_hours_ago_is_history() -> None:
    """A node that was cut off sends its backlog: a fault of a program counts as over after an hour of quiet, and that has passed."""
    card = gpu(node())
    event_arrived(event(card, 31, at=timezone.now() - timedelta(hours=5)).pk)
    event_arrived(event(card, 79, at=timezone.now() - timedelta(hours=5)).pk)

    assert dict(Finding.objects.values_list("rule", "condition")) == {"app-fault-xid": "resolved", "xid-fallen-off-bus": "firing"}


def test_a_storm_of_companions_is_one_alert() -> None:
    """11,760 XID 45 of one job's end, in small: they join the fault that ended it, in one piece of work."""
    card = gpu(node())
    now = timezone.now()
    Event.objects.bulk_create(
        Event(
            node=card.node, gpu=card, boot="b", seq=50_000 + n, kind="xid", code=45, observed_at=now - timedelta(milliseconds=n)
        )
        for n in range(500)
    )
    told(card, 94)
    Event.objects.update(received_at=now - timedelta(seconds=30))
    sweep_events()

    assert alerts() == [("uncorrectable-ecc", 501)]


def test_every_code_that_follows_another_is_known() -> None:
    """And no rule follows itself, or one that is weaker."""
    for xid in xid_catalog.XIDS:
        for rule in xid_companions.stronger(xid.code):
            assert rule in xid_catalog.BY_RULE
            assert xid_companions.strength(rule) < xid_companions.strength(xid.rule)
