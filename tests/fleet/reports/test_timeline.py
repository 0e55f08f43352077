"""What held a job back, bin by bin."""

import pytest

from fleet.reports.document import document
from fleet.reports.spans import Held, Span, held
from fleet.reports.timeline import GPUS_JUDGED, MOST_BINS, Bin, _chosen, bin_s, joined, summed, timeline
from fleet.store.series import store
from tests.fleet.reports.played import cards, job, play
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


def test_bins_are_joined_by_the_time_judged_and_labelled_anew() -> None:
    """Three parts data and one part compute are data, and the confidence is the lesser one."""

    def one(at: int, judged_s: float, confidence: str, **shares: float) -> Bin:
        return Bin(
            at=at,
            seconds=15,
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
    assert summed([both])["bottleneck"] == "data"


def test_of_a_large_job_whole_nodes_are_judged() -> None:
    """64 nodes of 8: every eighth node, with all that the job holds of it."""
    spans = [Span(node * 8 + place, node, 0, 60) for node in range(64) for place in range(8)]
    chosen = _chosen(spans)

    assert len(chosen) == GPUS_JUDGED
    assert {span.node for span in chosen} == set(range(0, 64, 8))
