"""What messages say of repeats, escalations, causes, digests and flapping, in the route's language, and how a mail looks."""

from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from fleet.findings import lifecycle
from fleet.findings.lifecycle import Place
from fleet.findings.models import Finding
from fleet.inventory.models import Gpu
from fleet.notify import sending
from fleet.notify.ack_links import opened
from fleet.notify.message import message
from fleet.notify.models import Delivery, Route
from tests.fleet.notify.receiver import Receiver
from tests.fleet.notify.telling import tell
from tests.fleet.rows import found, gpu, node

pytestmark = pytest.mark.django_db
BASE = "https://fettle.example.org"


@pytest.fixture
def cards(settings: Settings) -> list[Gpu]:
    """Two nodes with four GPUs each."""
    settings.FETTLE_BASE_URL = BASE
    return [gpu(home, index) for home in (node("n1"), node("n2")) for index in range(4)]


@pytest.fixture
def route(chat: Receiver) -> Route:
    """To the chat; it hears everything."""
    return Route.objects.create(name="chat", url=chat.url(), min_severity="info")


def fires(card: Gpu, rule: str = "row-remap-failed", severity: str = "critical", **more: Any) -> Finding:
    """Its finding, which fires at once."""
    return lifecycle.report(timezone.now(), found(str(card.pk), rule, severity, **more), Place(card.node_id, (card.pk,)))  # type: ignore[arg-type]


def sent() -> None:
    """All that leaves arrives."""
    for pk in tell():
        assert sending.attempt(pk) == "sent"


def lines(got: dict[str, Any]) -> list[str]:
    """Of what arrived."""
    return str(got["message"]).replace("\u00a0", " ").split("\n")


def test_a_message_that_fires_ends_with_its_link_the_way_to_acknowledge_it_and_its_key(
    cards: list[Gpu], route: Route, chat: Receiver
) -> None:
    """The link names the alert and the route, and is signed."""
    finding = fires(cards[0])
    sent()
    delivery = Delivery.objects.get()
    *_, page, ask, link, key = lines(chat.got[0])

    assert (page, ask, key) == (f"{BASE}/findings/{finding.pk}/", "To acknowledge it, open:", f"Delivery {delivery.key}")
    assert link.startswith(f"{BASE}/alerts/acknowledge/")
    token = opened(link.removeprefix(f"{BASE}/alerts/acknowledge/").rstrip("/"))
    assert (token.finding_id, token.route_id, token.delivery_id) == (finding.pk, route.pk, delivery.pk)


def test_a_message_of_an_end_acknowledges_nothing(cards: list[Gpu], route: Route, chat: Receiver) -> None:
    """There is nothing to look after."""
    fires(cards[0])
    sent()
    lifecycle.end(f"row-remap-failed:gpu:{cards[0].pk}", timezone.now(), "The GPU is back.")
    sent()

    assert "acknowledge" not in chat.got[1]["message"]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("news", "At 500 W the clocks fall for 25% of the time."),
        ("repeat", "It still fires, and nobody has acknowledged it."),
        ("escalation", "Nobody has acknowledged it where it was told first, so it is told here."),
    ],
)
def test_a_message_says_why_it_comes_again(kind: str, said: str, cards: list[Gpu], route: Route, chat: Receiver) -> None:
    """In its first line."""
    fires(cards[0])
    tell()
    Delivery.objects.update(kind=kind)
    sending.attempt(Delivery.objects.get().pk)

    assert lines(chat.got[0])[0] == said


def test_what_may_be_a_repeat_says_so_first_and_has_the_same_key(cards: list[Gpu], route: Route, chat: Receiver) -> None:
    """A chat that answered too late."""
    chat.delay_s = 1.0
    Route.objects.update(url=f"{chat.url()}?rto=0.2")
    fires(cards[0])
    (pk,) = tell()
    assert sending.attempt(pk) == "failed"
    chat.delay_s = 0
    Delivery.objects.update(next_try_at=timezone.now())
    assert sending.attempt(pk) == "sent"

    first, second = chat.got
    assert not first["may_repeat"]
    assert second["may_repeat"]
    assert lines(second)[0] == "This may be a repeat: an earlier attempt may have arrived."
    assert [line for line in lines(second)[1:] if "/acknowledge/" not in line] == [
        line for line in lines(first) if "/acknowledge/" not in line
    ]
    assert first["headers"]["Idempotency-Key"] == second["headers"]["Idempotency-Key"]


def test_a_cause_names_what_it_explains(cards: list[Gpu], route: Route, chat: Receiver) -> None:
    """The first five, and how many more; not those that are over."""
    cause = fires(cards[0], "nvlink-down")
    others = [fires(cards[index], rule) for index in (1, 2) for rule in ("a", "b", "c")]
    over = fires(cards[3], "d")
    Finding.objects.filter(pk__in=[one.pk for one in [*others, over]]).update(cause=cause)
    lifecycle.end(over.fingerprint, timezone.now(), "The GPU is back.")
    sent()
    (got,) = [one for one in chat.got if one["findings"][0]["id"] == cause.pk]
    said = lines(got)

    at = said.index("It explains 6 others, which are not told by themselves:")
    assert all(line.startswith("• The power limit takes the speed (n1 GPU ") for line in said[at + 1 : at + 6])
    assert said[at + 6] == "and 1 more"


def test_a_consequence_that_is_told_names_its_cause(cards: list[Gpu], route: Route) -> None:
    """Such as one that was told before its cause was known."""
    cause, finding = fires(cards[0], "nvlink-down"), fires(cards[1])
    tell()
    Finding.objects.filter(pk=finding.pk).update(cause=cause)
    delivery = Delivery.objects.get(transition__finding=finding)

    assert "Caused by: The power limit takes the speed (n1 GPU 0)" in message(delivery).body.split("\n")


def test_a_digest_counts_by_rule_the_severest_first_and_leads_to_all(cards: list[Gpu], route: Route, chat: Receiver) -> None:
    """Of several kinds in one message: how many of each, what is over, and where they are."""
    Route.objects.update(group_by=["cluster"])
    over = fires(cards[0], "x")
    sent()
    chat.got.clear()
    lifecycle.end(over.fingerprint, timezone.now(), "The GPU is back.")
    for card in cards[:3]:
        fires(card, "a", "warn", title=found().title)
    for card in cards:
        fires(card, "b")
    sent()
    (got,) = chat.got

    assert got["title"] == "[critical] 12 alerts (3 kinds, 2 nodes)"
    assert got["type"] == "failure"
    assert lines(got)[:4] == [
        "1 of them is over.",
        "• 8 × The power limit takes the speed (critical)",
        "• 3 × The power limit takes the speed (warning)",
        "• 1 × The power limit takes the speed (resolved)",
    ]
    assert f"{BASE}/findings/" in lines(got)
    assert "To acknowledge it, open:" in lines(got)


def test_a_digest_of_ends_alone_is_a_good_one(cards: list[Gpu], route: Route, chat: Receiver) -> None:
    """It says so in its title and its colour, and links to the only node."""
    Route.objects.update(group_by=["cluster"])
    for rule in ("a", "b"):
        fires(cards[0], rule)
    sent()
    for rule in ("a", "b"):
        lifecycle.end(f"{rule}:gpu:{cards[0].pk}", timezone.now(), "The GPU is back.")
    sent()
    got = chat.got[-1]

    assert (got["title"], got["type"]) == ("[resolved] 2 alerts (2 kinds, n1)", "success")
    assert f"{BASE}/findings/?node=n1" in lines(got)
    assert "acknowledge" not in got["message"]


def test_a_route_has_a_language_of_its_own(cards: list[Gpu], chat: Receiver, settings: Settings) -> None:
    """Chinese beside the site's English, and the other way round."""
    for name, language in (("site", ""), ("zh", "zh-hans"), ("en", "en")):
        Route.objects.create(name=name, url=chat.url(name), min_severity="info", language=language)
    fires(cards[0])
    sent()
    said = {got["path"].strip("/"): got["message"] for got in chat.got}

    assert "Node: n1" in said["site"]
    assert "Node: n1" in said["en"]
    assert "节点：n1" in said["zh"]
    settings.LANGUAGE_CODE = "zh-hans"
    assert "节点：n1" in message(Delivery.objects.get(route__name="site")).body
    assert "Node: n1" in message(Delivery.objects.get(route__name="en")).body


def test_what_flaps_says_that_it_is_told_no_more(cards: list[Gpu], route: Route, chat: Receiver) -> None:
    """A state of its own."""
    finding = fires(cards[0])
    finding.transitions.update(before="firing", after="noisy")
    sent()

    assert lines(chat.got[0])[0].startswith("It comes and goes.")
    assert chat.got[0]["event"] == "noisy"


def test_a_target_that_takes_a_line_is_told_all_in_one(cards: list[Gpu], route: Route) -> None:
    """What, where and how bad; then the link and the key."""
    fires(cards[0])
    (pk,) = tell()
    words = message(Delivery.objects.get(pk=pk))

    assert words.short == "[critical] The power limit takes the speed (n1 GPU 0): At 500 W the clocks fall for 25% of the time."
    assert words.link.startswith(f"{BASE}/findings/")
