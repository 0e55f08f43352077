"""Judgements of jobs that a scheduler told of: on several nodes, without a process, shared, ended."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest
from django.utils import timezone
from pytest_django import Settings

from advisor.features import features_of
from advisor.rule import load
from fleet.findings import allocated, lifecycle
from fleet.findings.judge import judge
from fleet.findings.models import Diagnosis, Finding, Transition
from fleet.findings.windows import look
from fleet.inventory.models import Gpu, Node, Process
from fleet.jobs.models import Allocation, Job
from fleet.slow.models import JobRun
from fleet.store.series import store
from fleet.tuning.matching import Setting, thresholds
from tests.fleet.jobs.given import give, job
from tests.fleet.recorded import fill
from tests.fleet.rows import gpu, minutes, node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
NOW = timezone.now().replace(microsecond=0)
SECOND = timedelta(seconds=1)
CARD: dict[str, Any] = {"power_limit_w": 700, "power_limit_default_w": 700, "sm_clock_max_mhz": 1980, "compute_capability": "9.0"}


@pytest.fixture(autouse=True)
def short_windows(settings: Settings) -> None:
    """A minute, as long as the recordings last."""
    settings.FETTLE_ADVISOR_WINDOW_S = 60
    settings.FETTLE_ADVISOR_PATIENCE_S = 2


def playing(name: str) -> Gpu:
    """A node with one GPU that trains in FP32."""
    card = gpu(node(name, last_seen_at=NOW, mem_total_bytes=256 << 30), **CARD)
    fill("fp32_train", [card], int(NOW.timestamp()))
    return card


def idle(card: Gpu, until: datetime) -> None:
    """A minute in which nothing computes on the card, and nobody holds memory."""
    still = {"gpu_util_pct": 0.0, "gr_engine_active": 0.0, "sm_active": 0.0, "mem_used_bytes": 600e6, "power_w": 75.0}
    end = int(until.timestamp())
    store().write("gpu", pl.DataFrame([{"entity": card.pk, "ts": ts, **still} for ts in range(end - 60, end)]))


def empty(name: str) -> Gpu:
    """A node with one GPU that is there and idle."""
    card = gpu(node(name, last_seen_at=NOW), **CARD)
    idle(card, NOW)
    return card


def judged(at: datetime = NOW) -> None:
    """Two judgements in a row."""
    for step in (0, 1):
        judge(at + step * SECOND)


def targets(**more: Any) -> set[str]:
    """The jobs of findings."""
    return set(Finding.objects.filter(scope="job", **more).values_list("target", flat=True))


def test_a_job_on_two_nodes_is_one_job() -> None:
    """One diagnosis and one finding of a rule, with the GPUs of both."""
    cards = [playing("n1"), playing("n2")]
    give(job("4711", NOW - minutes(60), user="demo"), *cards)
    judged()

    assert Diagnosis.objects.get(scope="job").target == "west/4711"
    row = Finding.objects.get(rule="fp32-without-tensor-cores")
    assert (row.target, row.node, row.condition) == ("west/4711", cards[0].node, "firing")
    assert list(row.gpus.order_by("pk")) == cards
    assert row.gpus_total == 2


def test_a_schedulers_end_ends_findings_at_once() -> None:
    """No grace: it will not come back as the same. What it did just before is nobody's now, and no other job's."""
    card = playing("n1")
    mine = job("4711", NOW - minutes(60), user="demo")
    give(mine, card)
    judged()
    assert targets(resolved_at=None) == {"west/4711"}

    Job.objects.update(ended_at=NOW + SECOND, state="completed")
    Allocation.objects.update(until_at=NOW + SECOND)
    judge(NOW + 2 * SECOND)
    assert targets(resolved_at=None) == set()
    note = Transition.objects.get(finding__target="west/4711", finding__rule="fp32-without-tensor-cores", after="resolved").note
    assert note == lifecycle.JOB_ENDED


def test_a_job_that_runs_again_keeps_its_findings_through_the_grace() -> None:
    """Put back into the queue and started anew elsewhere within it: the end was of the run before."""
    card = playing("n1")
    give(job("4711", NOW - minutes(60), user="demo"), card)
    judged()
    Job.objects.update(ended_at=NOW + SECOND, state="requeued")
    Allocation.objects.update(until_at=NOW + SECOND)
    job("4711", NOW + SECOND)
    judge(NOW + 2 * SECOND)
    assert "west/4711" in targets(resolved_at=None)


def test_gpus_that_a_job_holds_and_never_used_are_found_by_the_allocation_alone() -> None:
    """I05: no process anywhere. Not before half an hour has passed, and not a second job beside it."""
    card, other = empty("n1"), empty("n2")
    give(job("4711", NOW - minutes(45), user="demo"), card)
    give(job("4712", NOW - minutes(15), user="demo"), other)
    judged()

    row = Finding.objects.get(rule="gpu-allocated-idle")
    assert (row.target, row.condition, list(row.gpus.all())) == ("west/4711", "firing", [card])
    assert row.content["summary"]["params"]["allocated_idle_minutes"] == pytest.approx(45, abs=0.1)
    assert "scancel 4711  # after asking its owner" in [step["text"] for step in row.content["change"]]


def test_a_job_is_unused_since_its_last_process() -> None:
    """A run that ended ten minutes ago leaves the shell that holds the GPUs: the time since then counts."""
    card = empty("n1")
    mine = job("4711", NOW - minutes(300), user="demo")
    give(mine, card)
    JobRun.objects.create(
        job="west/4711", job_row=mine, program="west/ada/train", node=card.node, first_seen=NOW - minutes(200),
        last_seen=NOW - minutes(10), merged_to=0,
    )  # fmt: skip
    frame = allocated.of_jobs(NOW, look(NOW, 60, 2.0))
    assert frame.rows(named=True) == [
        {"job": "west/4711", "allocated_gpus": 1, "allocated_idle_s": 600.0, "given_by": "slurm", "given_slurm_job": "4711"}
    ]


def test_findings_of_a_program_end_when_only_its_allocation_is_left() -> None:
    """Its job holds the GPU on: what was said of the program that is gone is over after the grace, and idleness is not."""
    card = playing("n1")
    give(job("4711", NOW - minutes(60), user="demo"), card)
    judged()
    later = NOW + lifecycle.JOB_GRACE + minutes(35)
    Node.objects.update(last_seen_at=later)
    idle(card, later)
    judged(later - SECOND)

    rules = set(Finding.objects.filter(scope="job", resolved_at=None).values_list("rule", flat=True))
    assert rules == {"gpu-allocated-idle"}


def test_a_shared_gpu_is_judged_and_its_jobs_are_not() -> None:
    """I07: what is read of it is the GPU's; of neither job anything is said, and nothing is summed."""
    card = playing("n1")
    for number in ("4711", "4712"):
        give(job(number, NOW - minutes(60)), card, shared=True)
    judged()

    assert Diagnosis.objects.get(scope="gpu").bottleneck == "compute"
    assert not Diagnosis.objects.filter(scope="job").exists()
    assert targets() == set()
    seen = look(NOW, 60, 2.0)
    assert features_of(seen.measured).job.is_empty()
    (row,) = allocated.of_gpus(NOW, seen).rows(named=True)
    assert (row["gpu_shared"], row["allocated_to"]) == (True, None)


def test_a_stranger_on_a_jobs_gpu_is_told_of_and_not_judged_as_the_job() -> None:
    """Another user works where 4711 was given the GPU: nothing of that is 4711's, and the GPU says whose it is."""
    card = playing("n1")
    give(job("4711", NOW - minutes(60), user="demo"), card)
    card_process = {"node": card.node, "name": "fp32_train", "first_seen_at": NOW, "last_seen_at": NOW, "told_at": NOW}
    pids = {row["pid"] for row in look(NOW, 60, 2.0).window.process.select("pid").unique().iter_rows(named=True)}
    for pid in pids:
        Process.objects.create(pid=pid, labels={"slurm_job": "4712"}, **card_process)
    judged()

    assert not Diagnosis.objects.filter(scope="job").exists()
    labels = {(card.node_id, pid): {"slurm_job": "4712"} for pid in pids}
    (row,) = allocated.of_gpus(NOW, look(NOW, 60, 2.0, labels)).rows(named=True)
    assert (row["allocated_to"], row["foreign_processes"]) == ("west/4711", len(pids))


def test_thresholds_of_a_family_hold_for_a_schedulers_job() -> None:
    """Its family is what its scheduler's name says, whatever number it has."""
    card = playing("n1")
    give(job("4711", NOW - minutes(60), user="demo"), card)
    seen = look(NOW, 60, 2.0)
    frames = features_of(seen.measured)
    given = allocated.of_gpus(NOW, seen)
    frames = replace(frames, gpu=frames.gpu.join(given, on="gpu", how="left"))
    rule = next(one for one in load() if one.id == "gpu-allocated-idle")
    found = thresholds(
        {rule.id: [Setting("busy_opens", "job_family", "west/ada/*", 0.123)]}, [rule], frames, {card.node_id: "n1"}
    )
    value = found[rule.id]["busy_opens"]
    assert not isinstance(value, float)
    assert frames.job.select(value.alias("value"))["value"].to_list() == [0.123]
