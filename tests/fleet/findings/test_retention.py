"""What is deleted after its time, and what stays however old it is."""

from datetime import datetime, timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from pytest_django import Settings

from config.celery import app
from fleet.annotations.models import Annotation
from fleet.benches.keep import keep
from fleet.benches.models import BenchRun, BenchScore
from fleet.findings import retention
from fleet.findings.lifecycle import Place, end, report
from fleet.findings.models import Diagnosis, Finding, Transition
from fleet.findings.tasks import forget
from fleet.inventory.models import Absence, Engine, Event, Process
from fleet.jobs.models import Allocation, Job
from fleet.jobs.telling import tell as tell_jobs
from fleet.notify.models import Delivery, Route
from fleet.profiles.keep import keep as keep_profile
from fleet.profiles.models import JobProfile
from fleet.reports import summaries
from fleet.reports.models import JobSummary
from fleet.slow.models import JobRun
from tests.fleet.benches import reports
from tests.fleet.notify.telling import tell
from tests.fleet.profiles import reports as profile_reports
from tests.fleet.rows import event, found, gpu, node

pytestmark = pytest.mark.django_db
NOW = timezone.now()


@pytest.fixture(autouse=True)
def days(settings: Settings) -> None:
    """Findings for 100 days, events for 50."""
    settings.FETTLE_RETAIN_FINDINGS_D = 100
    settings.FETTLE_RETAIN_EVENTS_D = 50


def ago(number: float) -> datetime:
    """So many days ago."""
    return NOW - timedelta(days=number)


def finding(target: str, opened: float, ended: float | None) -> None:
    """A finding that fired so many days ago, and was over so many days ago."""
    one = found(target, severity="critical")
    report(ago(opened), one, Place(None))
    if ended is not None:
        end(one.fingerprint, ago(ended), "over")


def test_a_finding_goes_with_its_history_so_long_after_its_end() -> None:
    """An open one stays, and one that ended lately, however long ago it began."""
    Route.objects.create(name="chat", url="json://127.0.0.1:9/")
    for target, opened, ended in (("1", 200, 101), ("2", 200, 99), ("3", 200, None)):
        finding(target, opened, ended)
    tell()
    assert Delivery.objects.filter(transition__finding__target="1").count() == 2
    forget()

    assert set(Finding.objects.values_list("target", flat=True)) == {"2", "3"}
    assert set(Transition.objects.values_list("finding__target", flat=True)) == {"2", "3"}
    assert set(Delivery.objects.values_list("transition__finding__target", flat=True)) == {"2", "3"}


def test_events_and_absences_go_when_they_are_over() -> None:
    """An event that nobody handled and an absence that lasts stay."""
    card = gpu(node())
    for number, handled in ((1, 51.0), (2, 49.0), (3, None)):
        one = event(card, number)
        Event.objects.filter(pk=one.pk).update(received_at=ago(60), handled_at=None if handled is None else ago(handled))
    for metric, until in (("old", ago(51)), ("new", ago(49)), ("open", None)):
        Absence.objects.create(node=card.node, gpu=card, metric=metric, reason="timeout", since=ago(60), until=until)
    forget()

    assert set(Event.objects.values_list("code", flat=True)) == {2, 3}
    assert set(Absence.objects.values_list("metric", flat=True)) == {"new", "open"}


def test_runs_go_with_the_events_and_annotations_when_they_are_over() -> None:
    """An annotation a day after its end; one of a job or an engine without an end as late as events; others stay until they are deleted."""
    home = node()
    for number, seen in ((1, 51.0), (2, 49.0)):
        JobRun.objects.create(
            job="j", program="p", node=home, first_seen=ago(80), last_seen=ago(seen), merged_to=0, pids=[number]
        )
    for scope, target, at, until in (
        ("job", "over", 2.0, 1.1), ("job", "over lately", 2.0, 0.9), ("job", "old", 51.0, None), ("job", "new", 49.0, None),
        ("service", "old", 51.0, None), ("node", "old", 51.0, None), ("node", "lasting", 51.0, -3.0),
    ):  # fmt: skip
        Annotation.objects.create(
            scope=scope, target=target, key="k", value=1, at=ago(at), until=None if until is None else ago(until)
        )
    forget()

    assert list(JobRun.objects.values_list("pids", flat=True)) == [[2]]
    assert set(Annotation.objects.values_list("scope", "target")) == {
        ("job", "over lately"), ("job", "new"), ("node", "old"), ("node", "lasting"),
    }  # fmt: skip


def test_processes_and_engines_go_when_they_were_not_seen_for_long(settings: Settings) -> None:
    """One that is there is seen every minute, however long ago it began. An engine stays as long as its readings may."""
    home = node()
    for number, seen in ((1, 51.0), (2, 49.0), (3, 0.0)):
        times = {"first_seen_at": ago(90), "last_seen_at": ago(seen)}
        Process.objects.create(node=home, pid=number, told_at=ago(90), **times)
        Engine.objects.create(node=home, name=f"http://h:{number}", kind="vllm", pid=number, **times)
    settings.FETTLE_RETAIN_1H_D = 60
    forget()
    assert Engine.objects.count() == 3
    settings.FETTLE_RETAIN_1H_D = 1
    forget()

    assert set(Process.objects.values_list("pid", flat=True)) == {2, 3}
    assert set(Engine.objects.values_list("pid", flat=True)) == {2, 3}


def test_diagnoses_of_what_is_gone_and_sessions_that_ran_out_go() -> None:
    """The newest diagnosis of what reports is minutes old; a session that still counts stays."""
    for target, days_ago in (("1", 51.0), ("2", 0.0)):
        Diagnosis.objects.create(scope="gpu", target=target, window_start=ago(days_ago), window_end=ago(days_ago))
    for key, expires in (("old", ago(0.01)), ("new", ago(-1))):
        Session.objects.create(session_key=key, session_data="", expire_date=expires)
    forget()

    assert Diagnosis.objects.get().target == "2"
    assert Session.objects.get().session_key == "new"


def test_it_deletes_in_chunks_and_stops_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for a chunk, never for all of it; the next run goes on."""
    monkeypatch.setattr(retention, "CHUNK", 3)
    for number in range(10):
        finding(str(number), 300, 200)
    with monkeypatch.context() as patched:
        patched.setattr(retention, "BUDGET_S", 0.0)
        assert retention.forget(NOW) == {}
    assert Finding.objects.count() == 10

    assert retention.forget(NOW) == {"findings": 10}
    assert not Finding.objects.exists()


def test_beat_calls_it_every_hour() -> None:
    """Without a place in the schedule nothing would ever go."""
    app.conf.beat_schedule  # noqa: B018 - configures it
    app.loader.import_default_modules()

    assert app.conf.beat_schedule["fleet.findings.tasks.forget"]["schedule"] == 3600


def test_bench_runs_go_with_their_scores() -> None:
    """By when they came, not by when they began: a report may come late."""
    home = node()
    gpu(home)
    for number, age in enumerate((101, 99)):
        keep(reports.report(home, at=1.7e9 + number), home, ago(age))
    forget()

    assert BenchRun.objects.get().at.timestamp() == 1.7e9 + 1
    assert BenchScore.objects.count() == 1


def test_profiles_go_with_their_time() -> None:
    """By when they came: an old trace that was sent lately stays."""
    home = node()
    for number, age in enumerate((101, 99)):
        keep_profile(profile_reports.report(home, at=1.7e9 + number), home, ago(age))

    assert retention.forget(NOW) == {"profiles": 1}
    assert [row.received_at for row in JobProfile.objects.all()] == [ago(99)]


def past_job(number: str, ended: float, *, due: float | None = None, source: str = "slurm", **told: float | None) -> Job:
    """A job of an hour on one GPU that ended so many days ago, with its report; `due`: the report is made anew then."""
    job = Job.objects.create(
        cluster="west",
        job_id=number,
        source=source,
        started_at=ago(ended) - timedelta(hours=1),
        ended_at=ago(ended),
        state="completed",
    )
    card = gpu(node(f"n{number}"))
    Allocation.objects.create(
        job=job, node=card.node, node_name=card.node.name, gpu=card, device="0", from_at=job.started_at, until_at=job.ended_at
    )
    figures: dict[str, float | None] = {"gpu_hours": 1.0, "idle_gpu_hours": 0.2, "coverage": 1.0}
    JobSummary.objects.create(
        job=job, made_at=ago(ended), due_at=None if due is None else ago(due), document={}, **{**figures, **told}
    )
    return job


def test_what_jobs_held_goes_after_its_time_and_their_reports_stay(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """Of one that ended lately, one whose report is not final and one that goes on all stays; what went is counted."""
    settings.FETTLE_RETAIN_ALLOCATIONS_D = 40
    for number, ended, due in (("1", 41, None), ("2", 39, None), ("3", 41, 0.0)):
        past_job(number, ended, due=due)
    running = past_job("4", 41)
    Job.objects.filter(pk=running.pk).update(ended_at=None, state="running")
    with caplog.at_level("INFO"):
        forget()

    assert set(Allocation.objects.values_list("job__job_id", flat=True)) == {"2", "3", "4"}
    assert Job.objects.count() == JobSummary.objects.count() == 4
    assert "1 allocations" in caplog.text


def test_jobs_of_processes_that_did_no_work_go_with_their_reports(settings: Settings) -> None:
    """Idle all the time, never read, or never reported; one that worked stays, a scheduler's that idled, and one that runs compare with."""
    settings.FETTLE_RETAIN_ALLOCATIONS_D = 40
    past_job("idle", 41, source="processes", idle_gpu_hours=0.995)
    past_job("unread", 41, source="processes", idle_gpu_hours=None, coverage=0.0)
    JobSummary.objects.filter(job=past_job("unreported", 41, source="processes")).delete()
    past_job("worked", 41, source="processes")
    past_job("lately", 39, source="processes", idle_gpu_hours=1.0)
    past_job("scheduled", 41, idle_gpu_hours=1.0)
    compared = past_job("compared", 41, source="processes", idle_gpu_hours=1.0)
    JobRun.objects.create(
        job="n1/ann/train.py",
        program="ann/train.py",
        node=node(),
        job_row=compared,
        first_seen=ago(42),
        last_seen=ago(41),
        merged_to=0,
    )
    gone = retention.forget(NOW)

    assert set(Job.objects.values_list("job_id", flat=True)) == {"worked", "lately", "scheduled", "compared"}
    assert gone["jobs without work"] == 3


def test_jobs_and_reports_stay_for_ever_unless_the_site_says_otherwise(settings: Settings) -> None:
    """Twenty years at first; then those that ended within so many days."""
    for number, ended in (("1", 7300), ("2", 101), ("3", 99)):
        past_job(number, ended)
    retention.forget(NOW)
    assert JobSummary.objects.count() == 3

    settings.FETTLE_RETAIN_JOBS_D = 100
    assert retention.forget(NOW)["jobs"] == 2
    assert set(JobSummary.objects.values_list("job__job_id", flat=True)) == {"3"}
    assert set(Job.objects.values_list("job_id", flat=True)) == {"3"}


def test_a_report_whose_allocations_went_answers_as_it_is(settings: Settings) -> None:
    """Told of another job on its GPU afterwards, it stays; a correction of its own end leaves it too, and it says so."""
    settings.FETTLE_RETAIN_ALLOCATIONS_D = 40
    row = past_job("1", 41)
    document = {"since": 0, "until": 3600, "coverage": 1.0, "gpus": 1, "held": "0", "gpu_hours": 1.0}
    JobSummary.objects.update(document=document)
    retention.forget(NOW)
    assert row.ended_at is not None
    tell_jobs(
        [{"cluster": "west", "job_id": "1", "started_at": row.started_at, "ended_at": row.ended_at - timedelta(minutes=30)}], NOW
    )
    summaries.summarise(timezone.now(), 30.0)
    kept = JobSummary.objects.get()

    assert (kept.document, kept.due_at) == (document, None)
    assert kept.outdated_since is not None
