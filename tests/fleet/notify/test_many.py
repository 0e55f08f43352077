"""Many findings of one kind at once: one message to a route, and a row for each that says that it was told."""

from datetime import timedelta
from pathlib import Path

import pytest
from pytest_django import Settings

from advisor.finding import Finding as Found
from fleet.dashboard.listing import filtered
from fleet.findings.lifecycle import Judged, Place, reconcile
from fleet.findings.models import Finding
from fleet.inventory.models import Gpu
from fleet.notify import sending
from fleet.notify.models import Delivery, Route
from tests.fleet.notify.receiver import Receiver
from tests.fleet.notify.telling import tell
from tests.fleet.rows import NOON, found, gpu, node
from tests.fleet.site import Site
from tests.serving import migrated_database

TEN_S = timedelta(seconds=10)


@pytest.fixture
def cards(db: None, settings: Settings) -> list[Gpu]:
    """Five nodes with eight GPUs each."""
    settings.FETTLE_BASE_URL = "https://fettle.example.org"
    return [gpu(home, index) for home in [node(f"r{number}") for number in range(5)] for index in range(8)]


def of(card: Gpu, **more: object) -> Found:
    """What is found on one of them."""
    return found(**{"target": str(card.pk), "severity": "critical", **more})  # type: ignore[arg-type]


def judge(step: int, seen: list[Found], cards: list[Gpu]) -> None:
    """One judgement of the cards."""
    judged = Judged(frozenset(["power-cap-limited"]), frozenset(("gpu", str(card.pk)) for card in cards))
    reconcile(NOON + step * TEN_S, seen, judged, {("gpu", str(card.pk)): Place(card.node_id, (card.pk,)) for card in cards})


def told(**which: object) -> set[tuple[str, int]]:
    """State and attempts of the deliveries."""
    return set(Delivery.objects.filter(**which).values_list("state", "attempts"))


def test_the_dearest_of_many_are_named_first(cards: list[Gpu], chat: Receiver) -> None:
    """A message about many names those that cost most, and what all of them cost."""
    Route.objects.create(name="a", url=chat.url())
    judge(0, [of(card, recoverable=0.5, gpus=1 + 9 * (card.index == 7)) for card in cards], cards)
    (lead,) = tell()
    sending.take()
    sending.attempt(lead)
    (got,) = chat.got

    named = [line.split(":")[0] for line in got["message"].split("\n") if line.startswith("• ")]
    assert {name for name in named if "GPU 7" in name} == set(named[: len(named) - 1])
    assert "\nCosts: 1,020 GPU-hours a day\n" in got["message"]


def test_forty_gpus_at_once_are_one_message(cards: list[Gpu], chat: Receiver) -> None:
    """It names the first, counts the rest and leads to all; each finding's delivery is sent."""
    Route.objects.create(name="a", url=chat.url())
    judge(0, [of(card) for card in cards], cards)
    (lead,) = tell()

    assert sending.take() == [lead]
    assert sending.attempt(lead) == "sent"
    (got,) = chat.got
    assert got["title"] == "[critical] 40 × The power limit takes the speed (5 nodes)"
    assert got["message"].startswith(
        "40 findings of this kind\nSince: 2026-11-30 12:00:00 UTC\n\n• r0 GPU 0: At 500 W the clocks fall"
    )
    assert "• r0 GPU 4: At 500 W the clocks fall for 25% of the time.\nand 35 more\n" in got["message"]
    assert "The change to make, for r0 GPU 0:\n    nvidia-smi" in got["message"]
    assert "https://fettle.example.org/findings/?rule=power-cap-limited&severity=critical\n" in got["message"]
    assert Delivery.objects.count() == 40
    assert told() == {("sent", 1)}
    assert not Delivery.objects.filter(sent_at=None).exists()
    assert sending.take() == []


def test_their_end_is_one_message_too(cards: list[Gpu], chat: Receiver) -> None:
    """Its link shows what is resolved."""
    Route.objects.create(name="a", url=chat.url())
    judge(0, [of(card) for card in cards[:8]], cards)
    leads = tell()
    judge(1, [], cards)
    judge(2, [], cards)
    for lead in [*leads, *tell()]:
        sending.attempt(lead)

    assert [got["title"] for got in chat.got] == [
        "[critical] 8 × The power limit takes the speed (r0)",
        "[resolved] 8 × The power limit takes the speed (r0)",
    ]
    assert "/findings/?state=resolved&rule=power-cap-limited&severity=critical&node=r0\n" in chat.got[1]["message"]
    assert "nvidia-smi" not in chat.got[1]["message"]


def test_the_link_shows_just_these(cards: list[Gpu]) -> None:
    """The page reads the filters that the message writes."""
    judge(0, [*(of(card) for card in cards[:8]), of(cards[9], rule="other")], cards)
    shown, _ = filtered({"rule": "power-cap-limited", "severity": "critical", "node": "r0"})

    assert shown.count() == 8


def test_what_differs_is_told_apart(cards: list[Gpu]) -> None:
    """Another rule, another severity, another route: a message of its own each; one alone is told as ever."""
    for name in ("a", "b"):
        Route.objects.create(name=name, url="json://127.0.0.1:9/")
    seen = [of(cards[0]), of(cards[1]), of(cards[2], rule="other"), of(cards[3], severity="warn")]
    judge(0, seen, cards)
    judge(1, seen, cards)

    assert len(tell()) == 6
    alike = Delivery.objects.exclude(lead=None).values_list("route__name", "lead__route__name", "transition__finding__rule")
    assert sorted(alike) == [(name, name, "power-cap-limited") for name in ("a", "b")]


def test_they_fail_wait_and_die_together(cards: list[Gpu], chat: Receiver) -> None:
    """The others are never sent by themselves, whoever tries."""
    chat.statuses = [500]
    Route.objects.create(name="a", url=chat.url())
    judge(0, [of(card) for card in cards[:3]], cards)
    (lead,) = tell()
    other = Delivery.objects.filter(lead=lead).latest("pk")

    assert sending.attempt(other.pk) == ""
    assert sending.attempt(lead) == "failed"
    assert told() == {("failed", 1)}
    other.refresh_from_db()
    assert "500" in other.error
    Route.objects.update(enabled=False)
    Delivery.objects.update(next_try_at=NOON.replace(year=2020))
    assert sending.take() == [lead]
    assert sending.attempt(lead) == "dead"
    assert told() == {("dead", 2)}
    assert len(chat.got) == 1


def test_when_the_one_that_carries_the_message_is_deleted_the_others_are_told(cards: list[Gpu], chat: Receiver) -> None:
    """A node that is removed takes its findings along, not the news of other nodes."""
    Route.objects.create(name="a", url=chat.url())
    judge(0, [of(cards[0]), of(cards[8])], cards)
    (lead,) = tell()
    Finding.objects.filter(transitions__deliveries=lead).delete()

    (left,) = sending.take()
    assert sending.attempt(left) == "sent"
    assert chat.got[0]["title"] == "[critical] The power limit takes the speed (r1 GPU 0)"


BACK_AND_FORTH = """
import django
django.setup()
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from fleet.findings.lifecycle import Place, report
from fleet.notify import sending
from tests.fleet.notify.telling import tell
from fleet.notify.models import Delivery, Route
from tests.fleet.rows import found

Route.objects.create(name="chat", url="json://127.0.0.1:9/")
for target in "12":
    report(timezone.now(), found(target=target, severity="critical"), Place(None))
assert len(tell()) == 1
call_command("migrate", "notify", "0003", verbosity=0)
with connection.cursor() as cursor:
    names = [column.name for column in connection.introspection.get_table_description(cursor, "notify_delivery")]
assert "lead_id" not in names, names
call_command("migrate", "notify", verbosity=0)
assert len(sending.take()) == 2
"""


def test_the_migration_can_be_taken_back(tmp_path: Path) -> None:
    """There and back: what shared a message becomes messages of their own, and none is lost."""
    site = Site(tmp_path, "redis://127.0.0.1:1/0")
    (tmp_path / "fettle.sqlite3").write_bytes(migrated_database())

    site.run(BACK_AND_FORTH)
    assert len(site.deliveries()) == 2
