"""What held a job back, bin by bin."""

from datetime import timedelta

import pytest

from fleet.inventory.models import Gpu
from fleet.jobs.models import Job
from fleet.reports.bins import MOST_BINS, Bin, bin_s, joined, summed
from fleet.reports.document import document
from fleet.reports.spans import Held, Span, held
from fleet.reports.timeline import GPUS_JUDGED, _chosen, timeline
from fleet.store.series import store
from tests.fleet.reports.played import cards, give, job, play
from tests.fleet.rows import NOON

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]


def test_a_run_of_two_phases_has_the_labels_of_both() -> None:
    """Sixty seconds of a starved loader, then sixty that compute: each bin says what its stretch is of."""
    gpus = cards()
    play("loader_starved", gpus, before_s=60)
    play("fp32_train", gpus)
    found = document(job(gpus, 120), NOON)
    labels = [one["bottleneck"] for one in found["bins"]]

    assert len(labels) == 4
    assert labels == ["data", "data", "compute", "compute"]
    assert all(sum(one["shares"].values()) == pytest.approx(1, abs=0.01) for one in found["bins"])


def test_a_stretch_without_readings_has_no_label() -> None:
    """A gap is a gap: neither idle nor what stood beside it."""
    gpus = cards()
    play("fp32_train", gpus, before_s=60)
    bins = timeline(held(job(gpus, 120), NOON))

    assert [one["bottleneck"] != "" for one in bins] == [True] * 2 + [False] * 2
    assert bins[-1]["judged_s"] == 0


def test_bins_that_were_judged_stay_when_the_telemetry_has_gone() -> None:
    """The labels of a job that runs are judged while its readings are there."""
    gpus = cards()
    play("loader_starved", gpus, before_s=60)
    row = job(gpus, 120)
    first = timeline(held(row, NOON))
    store.cache_clear()
    again = timeline(held(row, NOON), first, int(NOON.timestamp()) + 60)

    assert [one["bottleneck"] for one in again[:2]] == ["data"] * 2
    assert again == first


def test_a_job_has_no_more_bins_than_fit_however_long_it_runs() -> None:
    """From a minute to a year."""
    for seconds in (1, 60, 1800, 1801, 86_400, 30 * 86_400, 365 * 86_400):
        own = Held(1, 0, seconds, (), 0, 0, (), (), ())
        assert seconds / bin_s(own) <= MOST_BINS


def _beside(row: Job, first_s: int, last_s: int, card: Gpu, number: int = 1) -> Job:
    """Another job that held the card from `first_s` to `last_s` after the row's start."""
    other = job([], 120, job_id=f"beside{number}")
    one = give(other, card, from_s=first_s)
    one.until_at = row.started_at + timedelta(seconds=last_s)
    one.save()
    return other


def test_of_a_bin_that_others_shared_in_part_the_own_part_alone_is_judged() -> None:
    """A starved loader, and in the middle of two bins another job that computes: both bins are all the loader's, of 20 and 15 seconds."""
    gpus = cards()
    play("loader_starved", gpus, before_s=60)
    row = job(gpus, 120)
    play("fp32_train", gpus, before_s=75, seconds=25)
    other = _beside(row, 20, 45, gpus[0])
    bins = timeline(held(row, NOON))

    assert [(one["own_s"], one["shared_s"]) for one in bins] == [(20, 10), (15, 15), (30, 0), (30, 0)]
    assert [one["bottleneck"] for one in bins[:2]] == ["data", "data"]
    assert all(10 <= one["judged_s"] <= one["own_s"] for one in bins[:2])
    assert all(one["shares"].keys() & {"compute", "contention"} == set() for one in bins[:2])
    assert sum(one["own_s"] + one["shared_s"] for one in bins) == 120
    theirs = timeline(held(other, NOON))
    assert [(one["own_s"], one["shared_s"], one["bottleneck"]) for one in theirs] == [
        (0, 10, ""),
        (0, 15, ""),
        (0, 0, ""),
        (0, 0, ""),
    ]


def test_a_bin_that_was_shared_whole_is_marked_and_not_judged() -> None:
    """Its readings are nobody's; the verdict on all is of the rest."""
    gpus = cards()
    play("loader_starved", gpus, before_s=60)
    row = job(gpus, 120)
    play("fp32_train", gpus, before_s=30, seconds=30)
    _beside(row, 60, 90, gpus[0])
    bins = timeline(held(row, NOON))

    assert [(one["own_s"], one["shared_s"], one["judged_s"] > 0) for one in bins][1:3] == [(30, 0, True), (0, 30, False)]
    assert summed(bins)["bottleneck"] == "data"


def test_one_of_two_gpus_that_is_shared_leaves_the_other() -> None:
    """The bin is of the GPU that was its own; seconds of both GPUs are told."""
    gpus = cards(2)
    play("ddp_comm_bound", gpus)
    row = job(gpus, 60)
    _beside(row, 0, 60, gpus[1])
    bins = timeline(held(row, NOON))

    assert [(one["own_s"], one["shared_s"], one["gpus"]) for one in bins] == [(30, 30, 1), (30, 30, 1)]


def test_the_whole_weighs_bins_by_the_time_that_was_its_own() -> None:
    """A short stretch of one label, and a long one of which nearly all was shared."""

    def one(at: int, own_s: int, label: str) -> Bin:
        return Bin(at=at, seconds=30, own_s=own_s, shared_s=30 - own_s, judged_s=own_s, gpus=1, bottleneck=label, confidence="high",
                   shares={label: 1.0}, busy={})  # fmt: skip

    found = summed([one(0, 30, "data"), one(30, 10, "compute")])

    assert found["shares"] == {"data": 0.75, "compute": 0.25}


def test_bins_whose_own_time_turns_out_otherwise_are_judged_anew() -> None:
    """The other job became known after the bins were made; where the readings have gone the old label stays, with the right seconds."""
    gpus = cards()
    play("loader_starved", gpus, before_s=60)
    row = job(gpus, 120)
    play("fp32_train", gpus, before_s=60, seconds=15)
    first = timeline(held(row, NOON))
    _beside(row, 45, 60, gpus[0])
    again = timeline(held(row, NOON), first, int(NOON.timestamp()) + 60)
    store.cache_clear()
    gone = timeline(held(row, NOON), first, int(NOON.timestamp()) + 60)

    assert first[1]["shares"].get("contention", 0) + first[1]["shares"].get("compute", 0) > 0.1
    assert (again[1]["own_s"], again[1]["bottleneck"]) == (15, "data")
    assert again[1]["shares"].keys() & {"compute", "contention"} == set()
    assert again[:1] == first[:1]
    assert (gone[1]["own_s"], gone[1]["shares"]) == (15, first[1]["shares"])


def test_bins_are_joined_by_the_time_judged_and_labelled_anew() -> None:
    """Three parts data and one part compute are data, and the confidence is the lesser one."""

    def one(at: int, judged_s: float, confidence: str, **shares: float) -> Bin:
        return Bin(
            at=at,
            seconds=15,
            own_s=30,
            shared_s=4,
            judged_s=judged_s,
            gpus=2,
            bottleneck="data",
            confidence=confidence,
            shares=shares,
            busy={"p50": 0.5},
        )

    (both,) = joined([one(100, 15, "high", data=1.0), one(115, 5, "low", compute=1.0)], 100, 30)

    assert both["shares"] == {"data": 0.75, "compute": 0.25}
    assert (both["bottleneck"], both["confidence"], both["seconds"], both["judged_s"]) == ("data", "low", 30, 20)
    assert (both["own_s"], both["shared_s"]) == (60, 8)
    assert summed([both])["bottleneck"] == "data"


def test_of_a_large_job_whole_nodes_are_judged() -> None:
    """64 nodes of 8: every eighth node, with all that the job holds of it."""
    spans = [Span(node * 8 + place, node, 0, 60) for node in range(64) for place in range(8)]
    chosen = _chosen(spans)

    assert len(chosen) == GPUS_JUDGED
    assert {span.node for span in chosen} == set(range(0, 64, 8))
