"""One judgement of the fleet: store windows in, findings and diagnoses out."""

from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest
from django.utils import timezone
from pytest_django import Settings

from advisor.frames import Window
from fleet.findings import lifecycle
from fleet.findings.judge import judge, unwatched
from fleet.findings.lifecycle import Place
from fleet.findings.models import Diagnosis, Finding, Transition
from fleet.findings.tasks import advise
from fleet.findings.windows import Look
from fleet.inventory.models import Absence, Gpu, Node
from fleet.store.series import store
from tests.fleet.recorded import fill
from tests.fleet.rows import found, gpu, node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
NOW = timezone.now().replace(microsecond=0)
TEN_S = timedelta(seconds=10)
CARD: dict[str, Any] = {
    "power_limit_w": 700, "power_limit_default_w": 700, "sm_clock_max_mhz": 1980, "mem_clock_max_mhz": 3201,
    "pcie_link_gen_max": 5, "pcie_link_width_max": 16, "compute_capability": "9.0",
}  # fmt: skip


@pytest.fixture(autouse=True)
def short_windows(settings: Settings) -> None:
    """A minute, as long as the recordings last."""
    settings.FETTLE_ADVISOR_WINDOW_S = 60
    settings.FETTLE_ADVISOR_PATIENCE_S = 2


def playing(recording: str = "fp32_train", name: str = "n1", until: datetime = NOW) -> Gpu:
    """A node that reported the recording until then. What asks the clock itself must say now: NOW is when the tests began."""
    card = gpu(node(name, last_seen_at=until, mem_total_bytes=256 << 30), **CARD)
    fill(recording, [card], int(until.timestamp()))
    return card


def test_a_recording_in_the_store_becomes_a_finding_and_a_diagnosis() -> None:
    """What the recording is of is found, on its GPU and node, and fires at the second judgement."""
    card = playing()
    judge(NOW)
    judge(NOW + timedelta(seconds=1))

    row = Finding.objects.get(rule="fp32-without-tensor-cores")
    assert (row.condition, row.node) == ("firing", card.node)
    assert list(row.gpus.all()) == [card]
    assert Diagnosis.objects.get(gpu=card).bottleneck == "compute"
    assert Diagnosis.objects.get(scope="job").target == "n1/demo/fp32_train"


def test_judging_the_same_end_again_changes_nothing() -> None:
    """A run that is repeated finds its work done."""
    playing()
    judge(NOW)
    before = list(Finding.objects.values()), list(Transition.objects.values()), list(Diagnosis.objects.values())

    assert judge(NOW) == []
    assert (list(Finding.objects.values()), list(Transition.objects.values()), list(Diagnosis.objects.values())) == before


def test_a_stale_node_is_not_judged() -> None:
    """Its findings stay as they are, and nothing new is said of it."""
    card = playing()
    judge(NOW)
    judge(NOW + timedelta(seconds=1))
    before = list(Finding.objects.values())
    Node.objects.filter(pk=card.node_id).update(last_seen_at=NOW - timedelta(minutes=5))
    playing("idle_context", "n2")

    for step in range(2, 6):
        judge(NOW + step * timedelta(seconds=1))
    assert [row for row in Finding.objects.values() if row["node_id"] == card.node_id] == before


def test_a_gpu_that_stopped_reporting_on_a_fresh_node_is_not_judged() -> None:
    """Half a node silent: that half is unknown."""
    home = node("n1", last_seen_at=NOW, mem_total_bytes=256 << 30)
    here, gone = gpu(home, 0, **CARD), gpu(home, 1, **CARD)
    fill("fp32_train", [here], int(NOW.timestamp()), 45)
    fill("fp32_train", [gone], int(NOW.timestamp()) - 40, 15)
    judge(NOW)

    assert set(Diagnosis.objects.filter(scope="gpu").values_list("gpu", flat=True)) == {here.pk}


def hang(card: Gpu, start: int, end: int) -> None:
    """From start to end the driver of the card's node does not answer: samples come and hold no value."""
    nulls = {name: [None] * (end - start) for name in ("sm_active", "power_w", "mem_used_bytes", "gpu_util_pct")}
    frame = pl.DataFrame({"entity": card.pk, "ts": range(start, end), **nulls}, schema_overrides=dict.fromkeys(nulls, pl.Float64))
    store().write("gpu", frame)


def open_and_forget(card: Gpu, rule: str) -> Finding:
    """The rule's firing finding, after the time that the window reaches back has passed."""
    judge(NOW)
    judge(NOW + timedelta(seconds=1))
    Node.objects.update(last_seen_at=NOW + timedelta(minutes=30))
    return Finding.objects.get(rule=rule, condition="firing")


def test_a_driver_that_hangs_ends_no_job_and_clears_nothing() -> None:
    """Rows without a value are no judgement: findings stay, of job and GPU, and of what an event reported."""
    card = playing()
    row = open_and_forget(card, "fp32-without-tensor-cores")
    lifecycle.report(NOW, found(str(card.pk), "power-cap-limited"), Place(card.node_id, (card.pk,)))
    later = NOW + lifecycle.EVENT_QUIET + timedelta(hours=1)
    Node.objects.update(last_seen_at=later)
    hang(card, int(later.timestamp()) - 70, int(later.timestamp()))
    before = list(Finding.objects.order_by("pk").values())

    assert [judge(later - timedelta(seconds=step)) for step in (4, 3, 2, 1)] == [[], [], [], []]
    assert list(Finding.objects.order_by("pk").values()) == before
    row.refresh_from_db()
    assert row.condition == "firing"


@pytest.mark.parametrize("of_node", [False, True])
def test_a_list_of_processes_that_cannot_be_read_ends_no_job(of_node: bool) -> None:
    """That no process is listed says nothing while the list is absent; when it is back and empty, the job is over."""
    card = playing()
    row = open_and_forget(card, "fp32-without-tensor-cores")
    later = NOW + lifecycle.JOB_GRACE + timedelta(minutes=1)
    fill("idle_context", [card], int(later.timestamp()), processes=False)
    absent = Absence.objects.create(
        node=card.node, gpu=None if of_node else card, metric="processes", reason="timeout", since=NOW
    )
    judge(later - timedelta(seconds=4))
    judge(later - timedelta(seconds=3))
    row.refresh_from_db()
    assert row.condition == "firing"

    absent.until = later
    absent.save()
    judge(later - timedelta(seconds=2))
    judge(later - timedelta(seconds=1))
    row.refresh_from_db()
    assert row.condition == "resolved"


def test_without_the_list_of_processes_no_rule_about_them_is_clear() -> None:
    """Nobody listed is not nobody there; what the card itself measures is judged as ever."""
    from advisor import rule

    places = {("gpu", "1"): Place(7, (1,)), ("gpu", "2"): Place(8, (2,)), ("node", "7"): Place(7), ("node", "8"): Place(8)}
    window = Window(pl.DataFrame(), pl.DataFrame(), pl.DataFrame(), pl.DataFrame())
    seen = Look(window, places, frozenset([7, 8]), frozenset([1, 2]), frozenset([1]))
    pairs = unwatched(rule.load(), seen)

    assert ("gpu-co-tenant-contention", "1") in pairs
    assert ("dataloader-oversubscribed", "7") in pairs
    assert {target for _, target in pairs} == {"1", "7"}
    assert not {rule_id for rule_id, _ in pairs} & {"power-cap-limited", "memory-nearly-full", "host-memory-pressure"}


def test_backlog_of_hours_ago_is_not_judged() -> None:
    """Windows end now: what arrives late is history (T04)."""
    card = gpu(node("n1", last_seen_at=NOW, mem_total_bytes=256 << 30), **CARD)
    fill("fp32_train", [card], int(NOW.timestamp()) - 7200)
    judge(NOW)

    assert not Finding.objects.exists()


def test_two_processes_of_one_program_on_one_node_are_one_job() -> None:
    """A job's target names its node, user and program."""
    home = node("n1", last_seen_at=NOW, mem_total_bytes=256 << 30)
    cards = [gpu(home, 0, **CARD), gpu(home, 1, **CARD)]
    fill("ddp_comm_bound", cards, int(NOW.timestamp()))
    judge(NOW)

    jobs = Diagnosis.objects.filter(scope="job")
    assert [(job.target, job.node) for job in jobs] == [("n1/demo/ddp_comm_bound", home)]


def test_an_empty_fleet_is_no_error() -> None:
    """Before the first agent there is nothing to say."""
    assert judge(NOW) == []


def test_advise_skips_while_another_run_goes_on() -> None:
    """Two workers never judge at once; a run that died is forgotten after its time limit."""
    from fleet.findings.models import Cycle

    playing(until=timezone.now())
    cycle = Cycle.objects.create(name="advise", started_at=timezone.now())
    advise()
    assert not Diagnosis.objects.exists()

    Cycle.objects.filter(pk=cycle.pk).update(started_at=timezone.now() - timedelta(minutes=3))
    advise()
    assert Diagnosis.objects.exists()


def test_a_failed_run_says_why_and_lets_the_next_one_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The row is freed, and the reason can be read there; the log hears of the outage and of its end, not of each run."""
    from fleet.findings.models import Cycle
    from fleet.store.memory import MemorySeries
    from fleet.store.series import StoreError

    playing(until=timezone.now())

    def broken(*_: object) -> None:
        raise StoreError("disk on fire")

    with monkeypatch.context() as patched:
        patched.setattr(MemorySeries, "window", broken)
        for _ in range(3):
            advise()
    assert Cycle.objects.get(name="advise").error == "StoreError: disk on fire"

    caplog.set_level("INFO", "fleet.findings.tasks")
    advise()
    advise()
    assert Cycle.objects.get(name="advise").error == ""
    said = [(one.levelname, one.exc_info) for one in caplog.records if one.name == "fleet.findings.tasks"]
    assert said == [("ERROR", None), ("INFO", None)]
    assert Diagnosis.objects.exists()


def test_what_another_finding_silenced_is_not_clear() -> None:
    """A sick card's own trouble comes first; advice about its speed is held back, neither fired nor resolved."""
    from advisor import rule
    from fleet.findings.judge import silenced

    rules = rule.load()
    sick = next(one for one in rules if one.group == "health")
    slow = next(one for one in rules if one.group == "performance" and one.scope == "job")
    places = {("gpu", "1"): Place(1, (1,)), ("job", "n1/demo/a"): Place(1, (1, 2)), ("job", "n1/demo/b"): Place(1, (3,))}
    still_open = [f"{slow.id}:job:n1/demo/a", f"{slow.id}:job:n1/demo/b", "gone-rule:gpu:1", f"{slow.id}:job:n9/demo/x"]

    critical = [found("1", sick.id, "critical")]
    assert silenced(rules, critical, still_open, places) == {(slow.id, "n1/demo/a")}
    assert silenced(rules, [found("1", sick.id, "warn")], still_open, places) == set()
    assert silenced(rules, [], still_open, places) == set()


def test_what_yields_to_another_rule_is_not_clear_while_that_one_fires() -> None:
    """Its own condition was not the reason that it fell silent."""
    from advisor import rule
    from fleet.findings.judge import silenced

    rules = rule.load()
    weaker = next(one for one in rules if one.yields_to and one.scope == "job")
    places = {("job", "n1/demo/a"): Place(1, (1, 2))}

    stronger = found("n1/demo/a", weaker.yields_to[0], scope="job")
    assert silenced(rules, [stronger], [f"{weaker.id}:job:n1/demo/a"], places) == {(weaker.id, "n1/demo/a")}


def free(card: Gpu, until: datetime, seconds: int) -> None:
    """The GPU reports, does nothing, and nobody holds it."""
    end = int(until.timestamp())
    values = {
        "gpu_util_pct": 0,
        "mem_used_bytes": 0,
        "gr_engine_active": 0.0,
        "sm_active": 0.0,
        "power_w": 75.0,
        "dram_active": 0.0,
    }
    ts = range(end - seconds, end)
    store().write("gpu", pl.DataFrame([{"entity": card.pk, "ts": t, **values} for t in ts]))
    store().write("host", pl.DataFrame([{"entity": card.node_id, "ts": t, "cpu_busy_cores": 0.5} for t in ts]))


def test_a_job_that_restarts_keeps_its_findings() -> None:
    """Its processes vanish for two minutes, longer than a window, and come back: nothing resolves and nothing opens."""
    card = playing()
    judge(NOW)
    judge(NOW + timedelta(seconds=1))
    assert Finding.objects.get(scope="job", condition="firing").rule == "fp32-without-tensor-cores"
    before = Transition.objects.count()

    for step in range(1, 13):
        at = NOW + step * TEN_S
        free(card, at, 10)
        Node.objects.update(last_seen_at=at)
        assert [str(moved) for moved in judge(at) if moved.finding.scope == "job"] == []
    for step in range(13, 19):
        at = NOW + step * TEN_S
        fill("fp32_train", [card], int(at.timestamp()), 10)
        Node.objects.update(last_seen_at=at)
        judge(at)

    assert [str(t) for t in Transition.objects.filter(finding__scope="job")[before:]] == []
    assert Finding.objects.get(scope="job").condition == "firing"
    assert Transition.objects.filter(finding__scope="job").count() == before


def test_memory_that_is_freed_clears_its_finding() -> None:
    """A GPU that gives values and holds nothing was judged: the finding resolves after two looks, without a grace period."""
    card = playing("idle_context")
    judge(NOW)
    judge(NOW + timedelta(seconds=1))
    assert Finding.objects.get(rule="gpu-memory-held-idle").condition == "firing"
    at = NOW + timedelta(seconds=65)
    free(card, at, 60)
    Node.objects.update(last_seen_at=at)

    judge(at)
    assert [moved.after for moved in judge(at + timedelta(seconds=1))] == ["resolved"]
    assert Finding.objects.get(rule="gpu-memory-held-idle").resolved_at is not None
