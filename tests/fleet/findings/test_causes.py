"""Causes as rows: found when a finding opens, or late; taken away when they are over and what they explained is not."""

import random
from datetime import datetime, timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from advisor import causes as table
from advisor.finding import Finding as Found
from advisor.finding import Severity
from fleet.annotations.models import Annotation
from fleet.findings import causes
from fleet.findings.judged import Judged, Place
from fleet.findings.lifecycle import end, reconcile, released, report
from fleet.findings.models import Finding, Transition
from fleet.findings.nearby import Nearby
from fleet.inventory.models import Gpu, Node
from tests.fleet.jobs.given import give, job
from tests.fleet.rows import NOON, found, gpu, minutes, node

pytestmark = pytest.mark.django_db
TEN_S = timedelta(seconds=10)
JOB = "west/4711"


class Fleet:
    """Nodes of two cards each, and judgements of what is found on them."""

    def __init__(self, nodes: int = 2) -> None:
        self.nodes = [node(f"n{number}") for number in range(nodes)]
        self.cards = [[gpu(home, index) for index in range(2)] for home in self.nodes]
        self.at = NOON

    def lost(self, card: Gpu, rule: str = "xid-fallen-off-bus", severity: Severity = "critical") -> Finding:
        """An event of a card, now."""
        return report(self.at, found(str(card.pk), rule, severity), Place(card.node_id, (card.pk,)))

    def judge(self, *seen: Found, places: dict[tuple[str, str], Place], also: tuple[Any, ...] = ()) -> None:
        """One window, ten seconds after the one before; every place is judged by every rule."""
        self.at += TEN_S
        rules = {one.rule for one in seen} | {row.rule for row in Finding.objects.filter(resolved_at=None)}
        reconcile(self.at, seen, Judged(rules, [*places, *also]), places)

    def hangs(self, *cards: Gpu, target: str = JOB, rule: str = "collective-hang") -> tuple[Found, dict[tuple[str, str], Place]]:
        """What a rule says of a job on these cards, with its place."""
        place = Place(cards[0].node_id, tuple(card.pk for card in cards))
        return found(target, rule, "critical", "job"), {("job", target): place}


def cause_moves(row: Finding) -> list[tuple[str, str, str]]:
    """What became of the row's cause: before, after, why."""
    return list(row.transitions.filter(axis="cause").values_list("before", "after", "note"))


def of(rule: str) -> Finding:
    """The newest finding of the rule."""
    return Finding.objects.filter(rule=rule).latest("pk")


def test_what_opens_after_its_cause_has_it_at_once() -> None:
    """In the transaction that opens it: whoever routes it knows; no transition, for there was none before."""
    fleet = Fleet()
    lost = fleet.lost(fleet.cards[0][0])
    hang, places = fleet.hangs(fleet.cards[0][0], fleet.cards[1][0])
    fleet.judge(hang, places=places)

    row = of("collective-hang")
    assert (row.condition, row.cause, row.cause_place) == ("firing", lost, "gpu")
    assert cause_moves(row) == []


def test_a_cause_that_is_known_late_is_linked_late() -> None:
    """The job hung first, and its alert was told; when the card's word comes, a transition says so."""
    fleet = Fleet()
    hang, places = fleet.hangs(fleet.cards[0][0], fleet.cards[1][0])
    fleet.judge(hang, places=places)
    assert of("collective-hang").cause is None
    lost = fleet.lost(fleet.cards[1][0])

    row = of("collective-hang")
    assert row.cause == lost
    assert cause_moves(row) == [("", str(lost.pk), "Its cause was found.")]


def test_an_earlier_cause_that_comes_to_light_takes_all_over() -> None:
    """The link's fault explains the XID that explained the hang: both are the link's now."""
    fleet = Fleet()
    reset = fleet.lost(fleet.cards[0][1], "gpu-reset-required")
    hang, places = fleet.hangs(fleet.cards[0][1], fleet.cards[1][0])
    fleet.judge(hang, places=places)
    assert of("collective-hang").cause == reset
    link = fleet.lost(fleet.cards[0][0], "nvlink-fault")

    reset.refresh_from_db()
    assert (reset.cause, of("collective-hang").cause) == (link, link)
    assert cause_moves(of("collective-hang")) == [(str(reset.pk), str(link.pk), "An earlier cause was found.")]


def test_a_cause_that_does_not_fire_yet_keeps_nobody_quiet() -> None:
    """Pending means that it may be nothing; when it fires, what it explains is linked."""
    fleet = Fleet()
    hot, storage = found("fleet", "shared-storage-contention", "warn", "fleet"), ("fleet", "fleet")
    slow, places = fleet.hangs(fleet.cards[0][0], rule="storage-throughput-bound")
    fleet.judge(hot, slow, places=places, also=(storage,))
    assert of("storage-throughput-bound").cause is None
    fleet.judge(hot, slow, places=places, also=(storage,))

    row = of("storage-throughput-bound")
    assert (row.cause, row.cause_place) == (of("shared-storage-contention"), "cluster")


def test_a_cause_in_shadow_explains_nothing() -> None:
    """Nobody is told of it."""
    fleet = Fleet()
    card = fleet.cards[0][0]
    report(NOON, found(str(card.pk), "xid-fallen-off-bus", "critical"), Place(card.node_id, (card.pk,)), shadow=True)
    hang, places = fleet.hangs(card)
    fleet.judge(hang, places=places)

    assert of("collective-hang").cause is None


def linked() -> tuple[Fleet, Finding, Found, dict[tuple[str, str], Place]]:
    """A lost card and the job that hangs because of it."""
    fleet = Fleet()
    lost = fleet.lost(fleet.cards[0][0])
    hang, places = fleet.hangs(fleet.cards[0][0])
    fleet.judge(hang, places=places)
    return fleet, lost, hang, places


def test_what_is_over_with_its_cause_is_never_told_by_itself() -> None:
    """The card is back and the job runs: its finding keeps its cause to its end."""
    fleet, lost, _, places = linked()
    end(lost.fingerprint, fleet.at + TEN_S / 2, "back")
    fleet.judge(places=places)
    fleet.judge(places=places)

    row = of("collective-hang")
    assert (row.condition, row.cause) == ("resolved", lost)
    assert cause_moves(row) == []


def test_what_lasts_when_its_cause_is_over_is_freed() -> None:
    """Seen once more after the end of its cause, it is an alert of its own, and a transition says so to who tells people."""
    fleet, lost, hang, places = linked()
    end(lost.fingerprint, fleet.at + TEN_S / 2, "back")
    assert of("collective-hang").cause == lost
    fleet.judge(hang, places=places)

    row = of("collective-hang")
    assert (row.condition, row.cause, row.cause_place) == ("firing", None, "")
    assert cause_moves(row) == [(str(lost.pk), "", "Its cause is over, and it is not.")]


def test_what_nobody_judges_is_freed_after_a_while() -> None:
    """All nodes are silent: an alert must not stay quiet because nothing is known of it."""
    fleet, lost, _, _ = linked()
    over = fleet.at + TEN_S
    end(lost.fingerprint, over, "back")
    released(over + causes.GRACE - TEN_S)
    assert of("collective-hang").cause == lost
    released(over + causes.GRACE)

    assert of("collective-hang").cause is None


def test_another_cause_takes_the_place_of_one_that_is_over() -> None:
    """Two cards of the job were lost; one is back."""
    fleet = Fleet()
    first = fleet.lost(fleet.cards[0][0])
    fleet.at += TEN_S
    second = fleet.lost(fleet.cards[1][0])
    hang, places = fleet.hangs(fleet.cards[0][0], fleet.cards[1][0])
    fleet.judge(hang, places=places)
    assert of("collective-hang").cause == first
    end(first.fingerprint, fleet.at + TEN_S, "back")

    assert of("collective-hang").cause == second
    assert cause_moves(of("collective-hang"))[-1][:2] == (str(first.pk), str(second.pk))


def test_a_job_that_was_moved_away_from_the_card_is_its_victim_still() -> None:
    """It held the card when that fell off the bus, and is found to restart on another node."""
    fleet = Fleet()
    give(job("4711", NOON - minutes(60)), fleet.cards[0][0])
    lost = fleet.lost(fleet.cards[0][0])
    hang, places = fleet.hangs(fleet.cards[1][0], fleet.cards[1][1])
    fleet.judge(hang, places=places)

    row = of("collective-hang")
    assert (row.cause, row.cause_place) == (lost, "job")


def test_a_slice_of_a_card_has_the_cards_faults() -> None:
    """A MIG instance's job hangs because the card that it is a slice of was lost."""
    fleet = Fleet()
    card = fleet.cards[0][0]
    slice_ = gpu(fleet.nodes[0], 5, uuid="MIG-1", parent_uuid=card.uuid)
    lost = fleet.lost(card)
    hang, places = fleet.hangs(slice_)
    fleet.judge(hang, places=places)

    assert of("collective-hang").cause == lost


def test_a_rack_and_an_nvlink_domain_are_what_somebody_told() -> None:
    """Three nodes of a rack grow hot, and a link's fault reaches the cards of its domain on the next node."""
    fleet = Fleet(4)
    for key, value in (("rack", "r1"), ("nvlink_domain", "d1")):
        Annotation.objects.create(scope="node", target="n?", key=key, value=value, at=NOON)
    hot = [found(str(cards[0].pk), "hw-slowdown-active", "warn") for cards in fleet.cards[:3]]
    places = {("gpu", str(cards[0].pk)): Place(cards[0].node_id, (cards[0].pk,)) for cards in fleet.cards[:3]}
    for _ in range(2):
        fleet.judge(*hot, places=places)
    link = fleet.lost(fleet.cards[3][0], "nvlink-fault")
    lost = fleet.lost(fleet.cards[2][1], "uncorrectable-ecc")

    first, *others = Finding.objects.filter(rule="hw-slowdown-active").order_by("pk")
    assert [(row.cause, row.cause_place) for row in (first, *others)] == [(None, ""), (first, "rack"), (first, "rack")]
    lost.refresh_from_db()
    assert (lost.cause, lost.cause_place) == (link, "fabric")


def test_a_quiet_judgement_asks_little(django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    """Where nothing moved, causes cost two queries, however many findings are open."""
    fleet, _, hang, places = linked()
    fleet.judge(hang, places=places)
    fleet.at += minutes(1)
    with django_assert_max_num_queries(9):  # the test asks for the rules that are open with one of them
        fleet.judge(hang, places=places)


def whole(at: datetime) -> dict[int, int]:
    """By finding its cause, computed from everything that is open at once."""
    nearby = Nearby(at)
    rows = nearby.of(range(-600, 0))  # so many keys that it reads all
    return {key: because.key for key, because in table.causes([nearby.standing(row) for row in rows.values()]).items()}


@pytest.mark.parametrize("seed", [3, 11])
def test_looking_near_what_moved_is_as_good_as_looking_at_all(seed: int) -> None:
    """Random openings and ends on a small fleet: after each, every cause is the one that the whole gives, or one that is over."""
    dice = random.Random(seed)
    fleet = Fleet(3)
    cards = [card for held in fleet.cards for card in held]
    rules = ["xid-fallen-off-bus", "nvlink-fault", "gpu-reset-required", "uncorrectable-ecc", "app-fault-xid"]
    jobs = ["collective-hang", "rank-straggler", "step-time-regression", "gpu-allocated-idle"]
    for _ in range(40):
        fleet.at += timedelta(seconds=dice.choice((1, 30, 200)))
        still = list(Finding.objects.filter(resolved_at=None))
        what = dice.random()
        if what < 0.45:
            fleet.lost(dice.choice(cards), dice.choice(rules))
        elif what < 0.75:
            held = dice.sample(cards, 2)
            rule, target = dice.choice(jobs), f"west/{dice.randrange(3)}"
            place = Place(held[0].node_id, tuple(card.pk for card in held))
            reconcile(fleet.at, [found(target, rule, "critical", "job")], Judged(), {("job", target): place})
        elif still:
            end(dice.choice(still).fingerprint, fleet.at, "over")
        expected = whole(fleet.at)
        still_open = set(Finding.objects.filter(resolved_at=None).values_list("pk", flat=True))
        kept = dict(Finding.objects.filter(resolved_at=None, cause__isnull=False).values_list("pk", "cause_id"))
        assert {key: cause for key, cause in kept.items() if cause in still_open} == expected
    assert Transition.objects.filter(axis="cause").exists()


def test_a_node_that_goes_takes_its_findings_and_frees_others() -> None:
    """A row that is deleted explains nothing any more."""
    fleet = Fleet()
    fleet.lost(fleet.cards[0][0])
    hang, places = fleet.hangs(fleet.cards[1][0], fleet.cards[0][0])
    fleet.judge(hang, places=places)
    assert of("collective-hang").cause is not None
    Node.objects.get(name="n0").delete()

    assert of("collective-hang").cause is None
