"""Who holds which GPU: at a time and over a window, alone or shared."""

from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from fleet.jobs.holding import holders, holders_within, parts
from fleet.jobs.models import Allocation, Job
from tests.fleet.jobs.given import give, job
from tests.fleet.rows import NOON, gpu, minutes, node

pytestmark = pytest.mark.django_db


def test_a_job_holds_its_gpus_from_its_allocation_to_its_end() -> None:
    """Both ends count: from the first moment on, and not at the last."""
    one, other = gpu(home := node()), gpu(home, 1)
    mine = job("4711", NOON)
    give(mine, one, until=NOON + minutes(5))
    give(mine, other)
    assert holders(NOON - timedelta(microseconds=1)) == {}
    assert {held.target for held in holders(NOON)[one.pk]} == {"west/4711"}
    assert set(holders(NOON + minutes(5))) == {other.pk}
    (held,) = holders(NOON + minutes(9))[other.pk]
    assert (held.job, held.family, held.shared, held.scheduled) == (mine.pk, "west/ada/train", False, True)


def test_only_the_gpus_that_were_asked_for_are_told() -> None:
    """Few or many of them."""
    cards = [gpu(home := node()), gpu(home, 1)]
    give(job("4711", NOON), *cards)
    assert set(holders(NOON, {cards[1].pk})) == {cards[1].pk}
    assert set(holders(NOON, {cards[1].pk, *range(10_000, 10_600)})) == {cards[1].pk}
    assert holders(NOON, ()) == {}


def test_a_device_that_no_agent_told_of_is_nobodys_gpu() -> None:
    """The allocation has it, but there is no GPU to tell of."""
    Allocation.objects.create(job=job("4711", NOON), node_name="n9", device="3", from_at=NOON)
    assert holders(NOON) == {}


def test_two_jobs_on_one_gpu_share_it() -> None:
    """Neither is its only holder, whatever their schedulers marked."""
    card = gpu(node())
    give(job("4711", NOON), card)
    give(job("4712", NOON + minutes(1)), card)
    assert [held.shared for held in holders(NOON)[card.pk]] == [False]
    assert [(held.target, held.shared) for held in holders(NOON + minutes(1))[card.pk]] == [
        ("west/4711", True),
        ("west/4712", True),
    ]


def test_one_slice_of_a_gpu_is_shared_though_nobody_else_is_there() -> None:
    """Its scheduler marked it: others may come, unseen."""
    card = gpu(node())
    give(job("4711", NOON), card, shared=True)
    assert holders(NOON)[card.pk][0].shared


def test_a_run_that_was_put_back_has_ended_where_the_next_of_its_job_begins() -> None:
    """The end of the first was never told: from then on the second holds the GPU alone."""
    card = gpu(node())
    first, second = (job("4711", began) for began in (NOON, NOON + minutes(3)))
    give(first, card)
    give(second, card)
    assert [(held.job, held.shared) for held in holders(NOON + minutes(4))[card.pk]] == [(second.pk, False)]
    within = holders_within(NOON, NOON + minutes(9))[card.pk]
    assert [(held.job, held.shared, held.until_at) for held in within] == [
        (first.pk, False, NOON + minutes(3)),
        (second.pk, False, None),
    ]


def test_an_allocation_that_nobody_closed_ends_with_its_job() -> None:
    """Its job has ended: the GPU is free."""
    card = gpu(node())
    over = job("4711", NOON)
    give(over, card)
    Job.objects.update(ended_at=NOON + minutes(2))
    assert set(holders(NOON + minutes(1))) == {card.pk}
    assert holders(NOON + minutes(2)) == {}


def test_what_processes_show_is_no_holder_beside_a_schedulers_word() -> None:
    """The same program would else share a GPU with itself."""
    card, free = gpu(home := node()), gpu(home, 1)
    give(job("n1/ada/python", NOON, cluster="", source="processes"), card, free)
    give(job("4711", NOON), card)
    found = holders(NOON)
    assert [(held.target, held.shared) for held in found[card.pk]] == [("west/4711", False)]
    assert [(held.target, held.scheduled) for held in found[free.pk]] == [("n1/ada/python", False)]


def test_of_processes_a_window_has_the_time_before_the_scheduler_told() -> None:
    """Seen for ten minutes alone, then within a job: the first ten minutes were theirs."""
    card = gpu(node())
    give(job("n1/ada/python", NOON, cluster="", source="processes"), card)
    give(job("4711", NOON + minutes(10)), card, until=NOON + minutes(20))
    held = holders_within(NOON, NOON + minutes(30))[card.pk]
    assert [(one.target, one.shared, one.from_at, one.until_at) for one in held] == [
        ("n1/ada/python", False, NOON, NOON + minutes(10)),
        ("west/4711", False, NOON + minutes(10), NOON + minutes(20)),
        ("n1/ada/python", False, NOON + minutes(20), None),
    ]


def test_holders_and_reports_say_the_same_of_who_shares() -> None:
    """At each minute of four jobs that overlap in part: a GPU has one holder alone just where that job's part is its own."""
    card = gpu(node())
    rows = []
    for number, (first, last, marked) in enumerate([(0, 6, False), (4, 9, False), (9, 12, True), (12, 14, False)]):
        rows.append(job(f"471{number}", NOON + minutes(first)))
        give(rows[-1], card, until=NOON + minutes(last), shared=marked)
    for minute in range(14):
        at = NOON + minutes(minute)
        told = {held.job: held.shared for held in holders(at)[card.pk]}
        own = {
            row.pk: part.shared
            for row in rows
            for part in parts(row, NOON + minutes(60))[card.pk]
            if part.from_at <= at and (part.until_at is None or at < part.until_at)
        }
        assert own == told, minute
    assert [[part.shared for part in parts(row, NOON + minutes(60))[card.pk]] for row in rows] == [
        [False, True],
        [True, False],
        [True],
        [False],
    ]


def test_a_window_has_all_who_held_a_gpu_in_it_in_their_order() -> None:
    """One after the other share nothing; who ended before, or begins at its end, is not of it."""
    card = gpu(node())
    for place in range(4):
        began = NOON + minutes(place * 10)
        give(job(f"471{place}", began), card, until=began + minutes(10))
    held = holders_within(NOON + minutes(10), NOON + minutes(30), [card.pk])[card.pk]
    assert [(one.target, one.shared) for one in held] == [("west/4711", False), ("west/4712", False)]
    assert held[0].from_at == NOON + minutes(10)
    assert held[0].until_at == NOON + minutes(20)


def test_a_job_of_many_gpus_is_read_once(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Two queries: the allocations, and their jobs."""
    home = node()
    give(job("4711", NOON), *(gpu(home, index) for index in range(8)))
    with django_assert_num_queries(2):
        assert len(holders(NOON)) == 8
