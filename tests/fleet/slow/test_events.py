"""What events make of GPUs, nodes and jobs."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from fleet.annotations.models import Annotation
from fleet.inventory.models import Event, Gpu, Node
from fleet.slow import events
from fleet.slow.models import JobRun
from tests.fleet.rows import event, gpu, node
from tests.fleet.slow.past import NOON, run

pytestmark = pytest.mark.django_db
HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)


@pytest.fixture
def card() -> Gpu:
    """One GPU of n1."""
    return gpu(node("n1"))


def held(card: Gpu, first: datetime, last: datetime, program: str = "ann/train.py", **more: Any) -> JobRun:
    """A run on the card."""
    job = f"{card.node.name}/{program}"
    return run(card.node, first, last, gpu_ids=[card.pk], job=job, program=program, **more)


def of_gpu(card: Gpu) -> dict[str, Any]:
    """The card's features."""
    told = events.read(NOON)
    return events.of_gpus(NOON, [card.pk], told, events.held(NOON, [card.node_id]))[card.pk]


def of_node(home: Node) -> dict[str, Any]:
    """The node's features."""
    told = events.read(NOON)
    return events.of_nodes(NOON, {home.pk: home.name}, told, events.held(NOON, [home.pk]))[home.pk]


def oom(home: Node, at: datetime, text: str) -> None:
    """The kernel killed something."""
    Event.objects.create(node=home, boot="b", seq=Event.objects.count() + 1000, kind="oom", text=text, observed_at=at)


def test_xids_are_counted_in_their_span(card: Gpu) -> None:
    """A day for a GPU, a week for a node, whatever their kind; events of the future not."""
    for age in (HOUR, 23 * HOUR, 25 * HOUR, 6 * DAY, 8 * DAY, -HOUR):
        event(card, 79, at=NOON - age)
    event(card, None, kind="ecc", at=NOON - HOUR)

    assert of_gpu(card)["xids_24h"] == 2
    assert of_node(card.node)["xids_7d"] == 4


def test_a_gpu_without_events_has_none(card: Gpu) -> None:
    """Zero, as its node reports; the code and nothing else is unknown."""
    assert of_gpu(card) == {"xids_24h": 0, "app_xids_30d": 0, "app_xid_jobs_30d": 0, "app_xid_code": None}
    assert of_node(card.node) == {"xids_7d": 0, "abnormal_ends_7d": 0, "abnormal_end_jobs_7d": 0}


def test_faults_of_programs_are_counted_with_the_programs(card: Gpu) -> None:
    """By the run that held the GPU then, else by the name in the event; companions (45) and faults of the card (79) are none."""
    held(card, NOON - 3 * DAY, NOON - 2 * DAY, "ann/train.py")
    held(card, NOON - DAY, NOON, "bob/eval.py")
    event(card, 31, at=NOON - 2 * DAY + MINUTE, text="XID 31 on the GPU at 0000:01:00.0, process 11 (python).")
    event(card, 31, at=NOON - 2 * DAY, text="XID 31 on the GPU at 0000:01:00.0.")
    event(card, 13, at=NOON - HOUR)
    event(card, 43, at=NOON - 20 * DAY, text="XID 43 on the GPU at 0000:01:00.0, process 7 (old).")
    event(card, 31, at=NOON - 31 * DAY)
    for code in (45, 79):
        event(card, code, at=NOON - HOUR)

    assert of_gpu(card) == {"xids_24h": 3, "app_xids_30d": 4, "app_xid_jobs_30d": 3, "app_xid_code": 13}


def test_faults_of_nobody_that_is_known_leave_the_programs_unknown(card: Gpu) -> None:
    """Not zero, and not one."""
    event(card, 31, at=NOON - HOUR)

    assert of_gpu(card)["app_xid_jobs_30d"] is None


def test_an_end_of_a_job_is_one_however_many_events_it_makes(card: Gpu) -> None:
    """Eight XIDs within seconds, an hour later another; one of an idle card ends nothing, nor does a fault of the program."""
    held(card, NOON - 5 * HOUR, NOON - 3 * HOUR)
    for second in range(8):
        event(card, 48, at=NOON - 3 * HOUR + timedelta(seconds=second))
    event(card, 79, at=NOON - 4 * HOUR)
    event(card, 79, at=NOON - HOUR)
    event(card, 31, at=NOON - 5 * HOUR)

    assert of_node(card.node)["abnormal_ends_7d"] == 2
    assert of_node(card.node)["abnormal_end_jobs_7d"] == 1


def test_kills_and_told_exits_are_ends(card: Gpu) -> None:
    """Of a week; exit code 0, patterns and other nodes are none."""
    oom(card.node, NOON - DAY, "The kernel killed process 7 (other) of a GPU program: memory ran out.")
    oom(card.node, NOON - 8 * DAY, "The kernel killed process 8 (other) of a GPU program: memory ran out.")
    for target, code, days in (
        ("n1/ann/train.py", 1, 2), ("n1/ann/good.py", 0, 3), ("n1/ann/*", 1, 4), ("n2/ann/x", 1, 5), ("n1/ann/old", 1, 9),
        ("n1/ann/train-81234.py", 1, 2),  # the same program at the same time
    ):  # fmt: skip
        Annotation.objects.create(scope="job", target=target, key="exit_code", value=code, at=NOON - days * DAY)

    assert of_node(card.node)["abnormal_ends_7d"] == 2
    assert of_node(card.node)["abnormal_end_jobs_7d"] == 2


def test_a_node_s_name_may_have_a_slash() -> None:
    """The longest name that the job begins with is its node's."""
    homes = [node("rack"), node("rack/7")]
    Annotation.objects.create(scope="job", target="rack/7/ann/train.py", key="exit_code", value=1, at=NOON - HOUR)

    told = events.of_nodes(NOON, {home.pk: home.name for home in homes}, [], {})
    assert [told[home.pk]["abnormal_ends_7d"] for home in homes] == [0, 1]


def test_a_card_is_lost_until_it_is_back(card: Gpu) -> None:
    """By its newest word."""
    event(card, None, kind="gpu_lost", at=NOON - HOUR)
    gone = events.lost(events.read(NOON))
    event(card, None, kind="gpu_back", at=NOON - MINUTE)
    back = events.lost(events.read(NOON))
    event(card, 79, at=NOON)

    assert (gone, back, events.lost(events.read(NOON))) == ({card.pk}, set(), {card.pk})


def ooms(*jobs: JobRun) -> dict[str, int]:
    """Kills by job."""
    told = events.read(NOON)
    return events.ooms(NOON, {job.job: job for job in jobs}, told, events.held(NOON, {one.node_id for one in jobs}))


def test_a_kill_is_its_jobs_by_the_pid(card: Gpu) -> None:
    """Of a day."""
    mine = held(card, NOON - 2 * DAY, NOON, pids=[11])
    other = held(card, NOON - 2 * DAY, NOON, "bob/x.py", pids=[12])
    text = "The kernel killed process 12 (python) of a GPU program: memory ran out."
    for age in (HOUR, 2 * HOUR, 25 * HOUR):
        oom(card.node, NOON - age, text)

    assert ooms(mine, other) == {mine.job: 0, other.job: 2}


def test_a_kill_of_a_worker_is_the_only_jobs_or_that_of_its_name(card: Gpu) -> None:
    """A child's pid is not among those that hold a GPU; where several jobs were there and none has the name, nobody's."""
    mine = held(card, NOON - HOUR, NOON, pids=[11])
    oom(card.node, NOON - MINUTE, "The kernel killed process 99 (python) of a GPU program: memory ran out.")
    alone = ooms(mine)
    other = held(card, NOON - HOUR, NOON, "bob/python", pids=[12])
    named = ooms(mine, other)
    third = held(card, NOON - HOUR, NOON, "cat/python", pids=[13])

    assert alone == {mine.job: 1}
    assert named == {mine.job: 0, other.job: 1}
    assert ooms(mine, other, third) == {mine.job: 0, other.job: 0, third.job: 0}


def test_what_happened_late_counts_when_it_comes(card: Gpu) -> None:
    """An event of this morning that arrives at noon is this morning's."""
    late = event(card, 79, at=NOON - 6 * HOUR)
    Event.objects.filter(pk=late.pk).update(received_at=NOON)

    assert of_gpu(card)["xids_24h"] == 1
