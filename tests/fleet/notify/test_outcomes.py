"""What a delivery's row says after an attempt: dead at once, tried when the target asks for it, or gone on with where it stopped."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.findings.lifecycle import Place, report
from fleet.notify import sending
from fleet.notify.models import Delivery, Route
from tests.fleet.notify.chats import DINGTALK, FEISHU, SLACK, WECOM, Chats, answer
from tests.fleet.notify.telling import tell
from tests.fleet.rows import found, gpu, node

pytestmark = pytest.mark.django_db


def due(url: str, rules: int = 1, **more: object) -> list[Delivery]:
    """Deliveries of as many rules to one route."""
    home = node()
    card = gpu(home)
    Route.objects.create(name="chat", url=url)
    for number in range(rules):
        report(timezone.now(), found(str(card.pk), f"rule-{number}", "critical", **more), Place(home.pk, (card.pk,)))
    return list(Delivery.objects.filter(pk__in=tell()).order_by("pk"))


@pytest.mark.parametrize("url", [SLACK, FEISHU, DINGTALK])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_what_will_not_be_taken_is_dead_at_once_with_the_reason(url: str, status: int, chats: Chats) -> None:
    """It is no use to knock for an hour; the dead letter says why, and can be sent again."""
    chats.plays = [answer(status, "no_such_hook")]
    (row,) = due(url)

    assert sending.attempt(row.pk) == "dead"
    row.refresh_from_db()
    assert (row.status, row.attempts) == (status, 1)
    assert row.error == f"The target answered {status}: no_such_hook"


@pytest.mark.parametrize(
    ("asked", "least", "most"), [("40", 40, 41), ("86400", 3600, 3601), ("0", 2.5, 5)], ids=["seconds", "a day", "none"]
)
def test_the_next_try_is_when_the_target_asks_for_it(asked: str, least: float, most: float, chats: Chats) -> None:
    """Not before, and at most an hour later; never before our own pause."""
    chats.plays = [answer(429, "", Retry_After=asked)]
    (row,) = due(SLACK)
    began = timezone.now()

    assert sending.attempt(row.pk) == "failed"
    row.refresh_from_db()
    assert timedelta(seconds=least) <= row.next_try_at - began <= timedelta(seconds=most + 5)
    assert (row.status, row.may_repeat) == (429, False)


def test_what_else_goes_to_a_target_that_had_too_many_waits_too(chats: Chats) -> None:
    """The route's other messages; not those of other routes, and none sooner than it would have been."""
    chats.plays = [answer(200, {"errcode": 130101, "errmsg": "send too fast"})]
    first, second, third = due(DINGTALK, 3)
    later = timezone.now() + timedelta(hours=5)
    Delivery.objects.filter(pk=third.pk).update(next_try_at=later)
    other = Delivery.objects.create(route=Route.objects.create(name="b", url=SLACK), transition=first.transition, key="b")

    assert sending.attempt(first.pk) == "failed"
    for row in (first, second, third, other):
        row.refresh_from_db()
    assert first.next_try_at - timezone.now() > timedelta(seconds=590)
    assert second.next_try_at - timezone.now() > timedelta(seconds=590)
    assert third.next_try_at == later
    assert other.next_try_at < timezone.now()
    assert sending.attempt(second.pk) == ""


def test_the_parts_that_arrived_are_known_to_the_next_attempt(chats: Chats) -> None:
    """Another process goes on where the first stopped; each part arrives once."""
    summary = found().summary
    chats.plays = [answer(200, {"errcode": 0}), answer(200, {"errcode": 45033, "errmsg": "concurrent limit"})]
    many = tuple(type(found().change[0])("command", f"step {number} {'x' * 150}") for number in range(14))
    (row,) = due(WECOM, change=many, summary=summary)
    assert sending.attempt(row.pk) == "failed"
    row.refresh_from_db()
    assert len(row.arrived) == 1
    Delivery.objects.update(next_try_at=timezone.now())

    assert sending.attempt(row.pk) == "sent"
    lines = [got.body["text"]["content"].split("\n") for got in chats.got]
    texts = ["\n".join(line for line in text if "/acknowledge/" not in line) for text in lines]  # that link has its hour
    assert texts[1] == texts[2]
    taken = [texts[0], *texts[2:]]
    assert sum("(1/" in text for text in taken) == 1
    assert sorted({text.partition("/")[0][-1] for text in taken}) == [str(number + 1) for number in range(len(taken))]


def test_those_that_share_a_message_share_its_fate(chats: Chats) -> None:
    """Status, reason and state."""
    home = node()
    Route.objects.create(name="chat", url=SLACK)
    for index in range(3):
        card = gpu(home, index)
        report(timezone.now(), found(str(card.pk), severity="critical"), Place(home.pk, (card.pk,)))
    (lead,) = tell()
    chats.plays = [answer(410, "channel_is_archived")]

    assert sending.attempt(lead) == "dead"
    assert set(Delivery.objects.values_list("state", "status")) == {("dead", 410)}
