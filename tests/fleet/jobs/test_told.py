"""What cannot be is refused wherever it is told: not by the REST API alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from fleet.inventory.models import Gpu
from fleet.jobs import kubernetes
from fleet.jobs.devices import devices
from fleet.jobs.holdings import Given
from fleet.jobs.models import Job
from fleet.jobs.telling import TellJobError, Told, tell
from fleet.jobs.told import AHEAD, wrong
from tests.fleet.rows import gpu, node

START = datetime(2026, 11, 1, 12, tzinfo=UTC)


def told(**more: Any) -> Told:
    """Something of the job 4711."""
    return Told(**{"cluster": "west", "job_id": "4711", "started_at": START, **more})  # type: ignore[typeddict-item] # checked by its readers


def given(names: str, on: str = "n1", shared: bool = False) -> Given:
    """Devices of a node."""
    return Given(node=on, devices=devices(names).names, shared=shared)


@pytest.mark.parametrize("name", ["started_at", "started_about", "ended_at"])
def test_a_time_may_be_so_far_ahead_and_no_further(name: str) -> None:
    """By this server's clock."""
    assert wrong(told(**{name: START + AHEAD}), START) == {}
    assert list(wrong(told(**{name: START + AHEAD + timedelta(seconds=1)}), START)) == [name]


@pytest.mark.django_db
def test_a_time_ahead_is_refused_whoever_tells_it() -> None:
    """Nothing is written, though no REST API was asked."""
    ahead = timezone.now() + timedelta(hours=1)
    with pytest.raises(TellJobError, match=r"started_at: .*ahead"):
        tell([told(started_at=ahead)], ahead)
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_a_kubelet_whose_node_is_ahead_makes_no_job_of_the_future(caplog: pytest.LogCaptureFixture) -> None:
    """The log says why; the rest of what the node told is kept."""
    n1 = node("n1")
    card = gpu(n1, 0)
    Gpu.objects.update(labels={"cluster": "site", "pods": "ml/a"})
    card.refresh_from_db()

    assert kubernetes.take(n1, [card], timezone.now() + timedelta(hours=1)) == []
    assert not Job.objects.exists()
    assert "ahead of this server's clock" in caplog.text


@pytest.mark.parametrize(
    ("total", "given_", "fits"),
    [
        (4, [given("0-3"), given("0-3", "n2")], False), (8, [given("0-3"), given("0-3", "n2")], True), (8, [given("0")], True),
        (2, [given("gpu:h100:4")], False), (4, [given("gpu:h100:4")], True), (0, [given("0")], False), (0, [given("")], True),
        (1, [given("0-1", shared=True)], True), (1, [given("0"), given("0", "N1")], True), (1, [given("0"), given("1", "N1")], False),
    ],
)  # fmt: skip
def test_more_devices_than_gpus_in_total_contradict_each_other(total: int, given_: list[Given], fits: bool) -> None:
    """Fewer do not: each node tells its own. What others hold too is no GPU of the count; a node has one name, in capitals or not."""
    found = wrong(told(gpus_total=total, allocations=given_), START)

    assert found == {} if fits else "gpus_total is" in found["gpus_total"]


@pytest.mark.django_db
def test_devices_of_a_job_that_still_waits_are_refused_with_and_without_its_state() -> None:
    """The start tells both."""
    tell([told(state="pending")], START)
    for more in ({"state": "pending"}, {}):
        with pytest.raises(TellJobError, match="pending"):
            tell([told(allocations=[given("0")], **more)], START)
    (job,) = tell([told(allocations=[given("0")], state="running")], START)

    assert (job.state, job.allocations.count()) == ("running", 1)


@pytest.mark.django_db
def test_a_job_that_waits_again_gives_its_devices_back() -> None:
    """Under the same start: a scheduler that calls a hold so."""
    tell([told(allocations=[given("0")], state="running")], START)
    (job,) = tell([told(state="pending")], START + timedelta(minutes=3))

    assert job.allocations.get().until_at == START + timedelta(minutes=3)


@pytest.mark.django_db
def test_a_node_in_capitals_is_the_node() -> None:
    """Its GPUs are found, and told under both spellings they are one node's: devices that are not named any more end."""
    n1 = node("gpu01")
    cards = [gpu(n1, index) for index in range(2)]
    tell([told(allocations=[given("0-1", "GPU01")], state="running")], START)
    (job,) = tell([told(allocations=[given("1", "gpu01")])], START + timedelta(minutes=1))

    assert {(row.gpu_id, row.until_at is None) for row in job.allocations.all()} == {(cards[0].pk, False), (cards[1].pk, True)}
