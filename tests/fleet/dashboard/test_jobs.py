"""The list of jobs with its search, and the report's page with much, little and broken data."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from fleet.dashboard.job_timeline import HEIGHT, WIDTH, drawn
from fleet.findings.lifecycle import Place
from fleet.findings.lifecycle import report as told
from fleet.findings.models import Finding
from fleet.inventory.models import Node
from fleet.jobs.models import Job
from fleet.reports.summaries import SETTLED, keep
from fleet.store.series import StoreError, store
from tests.fleet.reports.played import cards, give, job, play
from tests.fleet.rows import NOON, event, found
from tests.fleet.slow.past import run

pytestmark = pytest.mark.django_db
EVIL = "<script>alert(1)</script>"


def text(client: Client, path: str) -> str:
    """The page's HTML, which must come with 200."""
    response = client.get(path)
    assert response.status_code == 200, (path, response.status_code)
    return response.content.decode()


@pytest.mark.parametrize("path", ["/jobs/", "/jobs/1/"])
def test_a_stranger_is_sent_to_the_login(client: Client, path: str) -> None:
    """Not even whether a job exists is told."""
    assert client.get(path).status_code == 302


def test_a_job_that_does_not_exist_is_not_found(viewer: Client) -> None:
    """404, not an error."""
    assert viewer.get("/jobs/99/").status_code == 404


def test_without_jobs_the_list_says_where_they_come_from(viewer: Client) -> None:
    """Nothing is made up."""
    assert "No job is known yet." in text(viewer, "/jobs/")


def test_jobs_are_found_by_user_name_id_state_family_and_node(viewer: Client) -> None:
    """Each filter alone, and together; what matches nothing says so."""
    first, second = cards(1), cards(1, "n2")
    job(first, job_id="4711", name="train-llama", user="ada", family="west/ada/train-llama")
    Job.objects.update(array_job_id="4700", labels={"slurm_id": "4700_3"})
    job(second, job_id="4712", name="eval", user="bob", family="west/bob/eval", running=True)

    for query, shown in (
        ("user=ADA", {"4711"}), ("name=llama", {"4711"}), ("name=4712", {"4712"}), ("name=4700_3", {"4711"}), ("family=bob", {"4712"}),
        ("node=n2", {"4712"}), ("node=N2", {"4712"}),
        ("state=open", {"4712"}), ("state=completed", {"4711"}), ("user=bob&state=completed", set()), ("user=%00", set()), ("", {"4711", "4712"}),
    ):  # fmt: skip
        page = text(viewer, f"/jobs/?{query}")
        assert {number for number in ("4711", "4712") if f"west/{number}<" in page} == shown, query
    assert "No job matches." in text(viewer, "/jobs/?user=nobody")


def test_the_list_has_pages_and_keeps_the_search(viewer: Client) -> None:
    """Fifty a page."""
    for number in range(51):
        job([], job_id=str(number), user="ada")
    page = text(viewer, "/jobs/?user=ada")

    assert "Page 1 of 2" in page
    assert "?user=ada&amp;page=2" in page
    assert "51 jobs" in page
    assert "west/0<" in text(viewer, "/jobs/?user=ada&page=2")


def test_the_list_asks_no_more_of_many_jobs_than_of_few(
    viewer: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    """And it tells how many GPUs a job held where its scheduler did not, once a report was made of it."""
    (card,) = cards()
    told_of = job([card], job_id="aa", gpus_total=None, name="x")
    job([], job_id="bb", gpus_total=None, name="x")
    keep(told_of, NOON + SETTLED)
    for number in range(40):
        keep(job([], job_id=str(number)), NOON + SETTLED)
    with django_assert_max_num_queries(6):
        page = text(viewer, "/jobs/?name=")

    gpus = re.findall(r'data-label="GPUs">([^<]*)<', text(viewer, "/jobs/?name=aa") + text(viewer, "/jobs/?name=bb"))
    assert "42 jobs" in page
    assert gpus == ["1", "–"]


def test_a_report_shows_its_figures_its_timeline_and_what_happened(viewer: Client) -> None:
    """Much data: each part of the report is there."""
    gpus = cards()
    play("loader_starved", gpus, before_s=60)
    play("fp32_train", gpus)
    event(gpus[0], 79, at=NOON - timedelta(seconds=10), text=EVIL)
    about: Any = found(target=str(gpus[0].pk))
    told(NOON - timedelta(seconds=30), about, Place(gpus[0].node_id, (gpus[0].pk,)))
    row = job(gpus, 120, name=EVIL)
    keep(row, NOON + SETTLED)
    page = text(viewer, f"/jobs/{row.pk}/")

    assert EVIL not in page
    for word in ("Where the time of its GPUs went", "The power limit takes the speed", "XID error", "b-data", "b-compute", "p95"):
        assert word in page, word
    listed = text(viewer, "/jobs/")
    assert "b-compute" in listed or "b-data" in listed
    assert EVIL not in listed


def test_a_report_of_nothing_says_why_each_part_is_absent(viewer: Client) -> None:
    """No readings: no zero stands for what is not known."""
    row = job(cards(), user="ada")
    page = text(viewer, f"/jobs/{row.pk}/")

    assert "None of its GPU time has readings" in page
    assert "the store has no readings of its GPUs for that time" in page
    assert "0 Wh" not in page


def test_a_report_whose_telemetry_has_aged_out_says_so(viewer: Client) -> None:
    """Figures and findings stay; nothing links to a finding that is gone."""
    gpus = cards()
    play("fp32_train", gpus)
    about: Any = found(target=str(gpus[0].pk))
    told(NOON - timedelta(seconds=30), about, Place(gpus[0].node_id, (gpus[0].pk,)))
    row = job(gpus)
    keep(row, NOON + SETTLED)
    store.cache_clear()
    Finding.objects.all().delete()
    page = text(viewer, f"/jobs/{row.pk}/")

    assert "has aged out" in page
    assert "The power limit takes the speed" in page
    assert "/findings/1/" not in page
    assert "b-compute" in page


def test_shared_devices_and_a_store_that_fails_are_said(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page stands in either case."""
    own, shared = cards(2)
    row = job([own])
    give(row, shared, shared=True)
    assert "Shared with other jobs, in no figure" in text(viewer, f"/jobs/{row.pk}/")

    other = job([own], job_id="4712")

    def broken(*_: object) -> None:
        raise StoreError("The disk is gone.")

    monkeypatch.setattr("fleet.reports.summaries.document.document", broken)
    page = text(viewer, f"/jobs/{other.pk}/")
    assert "The store of telemetry does not answer" in page
    assert "The disk is gone." not in page


@pytest.mark.parametrize(("shared", "why"), [(False, "the store has no readings"), (True, "it shared all its devices")])
def test_a_job_that_was_not_judged_says_so_where_findings_stand(viewer: Client, shared: bool, why: str) -> None:
    """And why: that no rule found anything would be no news."""
    page = text(viewer, f"/jobs/{job(cards(), shared=shared).pk}/")

    assert f"It was not judged: {why}" in page
    assert "No rule found anything" not in page


def test_a_timeline_is_drawn_to_scale_with_gaps() -> None:
    """Shares stack up to the whole height, bins to the whole width, and the line breaks where nothing was judged."""
    bins = [
        {"at": 0, "seconds": 30, "bottleneck": "data", "confidence": "high", "shares": {"data": 0.75, "compute": 0.25}, "busy": {"p5": 0.1, "p50": 0.2, "p95": 0.3}},
        {"at": 30, "seconds": 30, "bottleneck": "", "confidence": "", "shares": {}, "busy": {}},
        {"at": 60, "seconds": 30, "bottleneck": "idle", "confidence": "low", "shares": {"idle": 1.0}, "busy": {"p5": 0.0, "p50": 0.0, "p95": 0.0}},
    ]  # fmt: skip
    made = drawn(bins, 0, 90)

    assert sum(one.width for one in made.stretches) == pytest.approx(WIDTH)
    assert sum(bar.height for bar in made.stretches[0].bars) == pytest.approx(HEIGHT)
    assert made.stretches[1].bars == ()
    assert len(made.bands) == len(made.medians) == 2
    assert [slug for slug, _ in made.legend] == ["idle", "data", "compute"]


def test_the_page_of_a_node_leads_to_the_jobs_that_hold_its_gpus(viewer: Client) -> None:
    """And their reports lead back to the node."""
    (card,) = cards()
    Node.objects.update(last_seen_at=timezone.now())
    row = job([card], running=True)
    assert f'href="/jobs/{row.pk}/"' in text(viewer, "/nodes/n1/")
    assert 'href="/nodes/n1/"' in text(viewer, f"/jobs/{row.pk}/")


def test_a_report_leads_to_its_family_where_that_has_runs(viewer: Client) -> None:
    """A family of which no run was seen has no page."""
    (card,) = cards()
    row = job([card])
    assert 'href="/families/' not in text(viewer, f"/jobs/{row.pk}/")

    run(card.node, NOON - timedelta(hours=2), NOON - timedelta(hours=1), program=row.family)
    assert 'href="/families/west/ada/train/"' in text(viewer, f"/jobs/{row.pk}/")
    assert viewer.get("/families/west/ada/train/").status_code == 200
