"""The whole task: frames by scope that the judge can join, whole, typed, once and again."""

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from django.utils import timezone
from polars.testing import assert_frame_equal
from pytest_django import Settings

from advisor.annotations import NOTES
from advisor.beside import with_more
from advisor.features import features_of
from advisor.kinds import kind
from advisor.slow_columns import ADDED, COLUMNS, columns
from config.celery import app
from fleet.annotations.models import Annotation
from fleet.findings.models import Cycle
from fleet.findings.more import more
from fleet.findings.tasks import refresh_slow
from fleet.findings.windows import look
from fleet.inventory.models import Engine, Gpu, Node
from fleet.jobs.models import Allocation
from fleet.slow import days, services
from fleet.slow.frames import frames, keep
from fleet.slow.models import JobRun, SlowFrame
from fleet.slow.refresh import refresh
from fleet.store.memory import MemorySeries
from fleet.store.series import StoreError, store
from tests.fleet.jobs.given import give, job
from tests.fleet.recorded import fill
from tests.fleet.rows import event, gpu, node
from tests.fleet.slow.past import LATE, NOON, minute, minutes, process

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
AT = NOON + minutes(1) + LATE
JOB = "n1/ann/train.py"


def fleet() -> list[Gpu]:
    """A node with two cards, a job on them and an engine, as of AT."""
    home = node("n1", last_seen_at=AT, driver_version="580.65.06")
    cards = [gpu(home, index, power_limit_w=700.0) for index in range(2)]
    minute(cards, NOON, [11, 12], step_time_s=0.5, samples_per_s=10.0)
    minute(cards, NOON - timedelta(hours=1), [11, 12], busy=0.5)
    process(home, 11, NOON - minutes(30), AT, torch="2.9.1")
    Engine.objects.create(
        node=home, name="http://h:1", kind="vllm", model="Qwen3-8B", first_seen_at=NOON - minutes(60), last_seen_at=AT
    )
    return cards


def row(scope: Any, key: Any, at: Any = AT) -> dict[str, Any]:
    """The features of one target."""
    found = frames(at)[scope].filter(pl.col(scope) == key)
    assert found.height == 1
    return found.row(0, named=True)


def test_every_scope_has_a_frame_with_every_column_and_its_type() -> None:
    """Before anything ran as after."""
    expected = {
        scope: {name: found for name, found in columns(scope).items() if name not in ADDED.get(scope, {})} for scope in COLUMNS
    }
    before = {scope: dict(frame.schema) for scope, frame in frames(AT).items()}
    empty = {frame.height for frame in frames(AT).values()}
    fleet()
    refresh(AT)
    after = {scope: dict(frame.schema) for scope, frame in frames(AT).items()}

    assert before == after == expected
    assert empty == {0}
    assert {scope: frame.height for scope, frame in frames(AT).items()} == {
        "gpu": 2,
        "job": 1,
        "node": 1,
        "service": 1,
        "fleet": 1,
    }


def test_its_columns_are_of_the_types_that_rules_expect() -> None:
    """A rule's condition on a column that is not there reads a null of that type; a whole number is a number."""
    for scope in COLUMNS:
        for name, found in columns(scope).items():
            if name != scope:
                assert kind(name) == (pl.Float64 if found == pl.Int64 else found), name


def test_each_target_has_what_is_known_of_it() -> None:
    """A figure of each source: events, facts, history, roll-ups."""
    cards = fleet()
    event(cards[0], 31, at=NOON)
    refresh(AT)
    home, job = row("node", cards[0].node_id), row("job", JOB)
    first, second = (row("gpu", card.pk) for card in cards)

    assert (first["xids_24h"], first["app_xid_code"], first["lost"], first["driver_major"]) == (1, 31, False, 580)
    assert (second["xids_24h"], second["app_xids_30d"], second["app_xid_jobs_30d"]) == (0, 0, 0)
    assert (home["xids_7d"], home["node_gpus"], home["persistence_mode"], home["node_name"]) == (1, 2, True, "n1")
    assert (job["run_s"], job["base_runs"], job["restarts_2h"], job["host_ooms_24h"]) == (pytest.approx(1885), 0, 0, 0)
    assert (job["driver_version"], job["node_gpus_present"]) == ("580.65.06", 2)
    assert first["day_idle_share"] == pytest.approx(0.5)
    assert row("fleet", "fleet")["torch_mix"] == "2.9.1: 1"
    assert row("fleet", "fleet")["driver_mix"] == "580.65.06: 1"
    assert row("service", Engine.objects.get().pk)["age_s"] == pytest.approx(3685)


def test_what_nobody_knows_is_null() -> None:
    """Baselines of a first run, a resumed step, the day of a fresh node, prices."""
    cards = fleet()
    refresh(AT)
    job, home = row("job", JOB), row("node", cards[0].node_id)

    for name in (
        "base_step_time_s",
        "base_changes",
        "scaling_efficiency",
        "resumed_at_zero",
        "ooms_24h",
        "note_deadline",
        "gpu_hour_price",
    ):
        assert job[name] is None, name
    for name in ("rdma_ready", "numa_nodes", "day_cpu_saturated_share", "base_disk_await_s"):
        assert home[name] is None, name
    assert job["mtbf_gpu_hours"] == 50_677


def test_the_site_s_constants_are_in_every_frame(settings: Settings) -> None:
    """As they are set now, not as they were when the task ran."""
    cards = fleet()
    refresh(AT)
    settings.FETTLE_GPU_HOUR_PRICE, settings.FETTLE_CURRENCY, settings.FETTLE_PUE = 2.5, "EUR", 1.2

    for told in (row("gpu", cards[0].pk), row("job", JOB), row("fleet", "fleet")):
        assert (told["gpu_hour_price"], told["currency"], told["pue"]) == (2.5, "EUR", 1.2)


def test_annotations_are_features_of_their_type() -> None:
    """Of every scope that has keys, whole numbers as numbers."""
    cards = fleet()
    for scope, target, key, value in (
        ("job", "n1/ann/*", "deadline", True), ("job", JOB, "exit_code", 3), ("node", "n?", "expected_gpus", 8),
        ("service", "n1/http://h:1", "canary_share", 0.1), ("service", "Qwen3*", "autoscaler_metric", "cpu"),
        ("fleet", "fleet", "power_budget_share", 1), ("job", "n2/*", "phase", "train"),
    ):  # fmt: skip
        Annotation.objects.create(scope=scope, target=target, key=key, value=value, at=NOON)
    refresh(AT)
    job, service = row("job", JOB), row("service", Engine.objects.get().pk)

    assert (job["note_deadline"], job["note_exit_code"], job["note_phase"]) == (True, 3.0, None)
    assert row("node", cards[0].node_id)["note_expected_gpus"] == 8.0
    assert (service["note_canary_share"], service["note_autoscaler_metric"]) == (0.1, "cpu")
    assert row("fleet", "fleet")["note_power_budget_share"] == 1.0
    assert {f"note_{note.key}" for note in NOTES} <= {name for scope in COLUMNS for name in columns(scope)}


def test_what_is_told_of_a_place_counts_for_what_is_there() -> None:
    """Of the fleet for all, of a node for its cards, jobs and engines, of a job for its cards; the nearest before others."""
    cards = fleet()
    far = gpu(node("n2", last_seen_at=AT))
    for scope, target, key, value in (
        ("fleet", "fleet", "energy_policy", True), ("node", "n1", "maintenance", True), ("node", "n1", "declared_idle", False),
        ("job", JOB, "declared_idle", True),
    ):  # fmt: skip
        Annotation.objects.create(scope=scope, target=target, key=key, value=value, at=NOON)
    refresh(AT)
    told = [row("gpu", cards[0].pk), row("job", JOB), row("node", cards[0].node_id), row("gpu", far.pk)]

    assert [one["note_energy_policy"] for one in told] == [True] * 4
    assert [one["note_maintenance"] for one in told] == [True, True, True, None]
    assert [one["note_declared_idle"] for one in told] == [True, True, False, None]


def test_twice_is_as_once() -> None:
    """The same frames, the same runs, one row a frame."""
    fleet()
    refresh(AT)
    before, runs = frames(AT), list(JobRun.objects.values())
    refresh(AT)

    for scope, frame in frames(AT).items():
        assert_frame_equal(frame, before[scope])
    assert list(JobRun.objects.values()) == runs
    assert SlowFrame.objects.count() == 11  # now and day of five scopes, and the days of power


def test_old_frames_say_nothing() -> None:
    """After ten minutes; days after two hours."""
    cards = fleet()
    refresh(AT)
    later = row("gpu", cards[0].pk, AT + minutes(11))

    assert (later["xids_24h"], later["driver_major"]) == (None, None)
    assert later["day_idle_share"] is not None
    assert frames(AT + minutes(121))["gpu"].is_empty()
    assert frames(AT + minutes(10))["node"].height == 1


def test_a_damaged_frame_says_nothing_and_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """The others stand."""
    fleet()
    refresh(AT)
    SlowFrame.objects.filter(scope="node").update(payload=b"nothing of the kind")
    found = frames(AT)

    assert found["node"].is_empty()
    assert found["gpu"].height == 2
    assert "scope node cannot be read" in caplog.text


def test_a_frame_of_an_older_release_counts_as_far_as_it_goes() -> None:
    """Columns that came since are null; those that went are left out."""
    keep("node", "now", AT, pl.DataFrame({"node": [5], "xids_7d": [3], "gone": [1]}))
    told = row("node", 5)

    assert (told["xids_7d"], told["abnormal_ends_7d"], told["driver_version"]) == (3, None, None)
    assert "gone" not in told


def test_days_are_made_anew_every_quarter_of_an_hour() -> None:
    """Their roll-ups come once an hour."""
    fleet()
    times = []
    for number in (0, 14, 15):
        Node.objects.update(last_seen_at=AT + minutes(number))
        refresh(AT + minutes(number))
        times.append(SlowFrame.objects.get(scope="gpu", part="day").at)

    assert times == [AT, AT, AT + minutes(15)]


def test_a_store_that_fails_leaves_what_the_database_knows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said once, and once when it is back; events, facts and annotations stand meanwhile."""

    def fails(*_: Any, **__: Any) -> Any:
        raise StoreError("gone")

    now = timezone.now()
    home = node("n1", last_seen_at=now, driver_version="580.1")
    gpu(home)
    with monkeypatch.context() as broken:
        broken.setattr(MemorySeries, "window", fails)
        refresh_slow()
        refresh_slow()
    told = row("node", home.pk, now)

    assert told["driver_version"] == "580.1"
    assert told["persistence_mode"] is None
    assert Cycle.objects.get(name="refresh_slow").error == "StoreError: gone"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    refresh_slow()
    assert "are read again" in caplog.text
    assert Cycle.objects.get(name="refresh_slow").error == ""


def test_an_engine_without_hours_leaves_days_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the rest is there."""
    cards = fleet()
    for module in (days, services):
        monkeypatch.setattr(module, "hours", lambda *_: None)
    refresh(AT)

    assert row("gpu", cards[0].pk)["day_idle_share"] is None
    assert row("gpu", cards[0].pk)["xids_24h"] == 0


def test_one_run_at_a_time() -> None:
    """A second one does nothing."""
    fleet()
    Cycle.objects.create(name="refresh_slow", started_at=timezone.now())
    refresh_slow()

    assert not SlowFrame.objects.exists()


def test_beat_asks_for_it_each_minute() -> None:
    """A tick that no worker took is dropped."""
    entry = app.conf.beat_schedule["fleet.findings.tasks.refresh_slow"]

    assert (entry["schedule"], entry["options"]["expires"]) == (60.0, 60)


def test_it_runs_on_files_too(settings: Settings, tmp_path: Path) -> None:
    """The store that a site has: nothing is rolled up yet, and today's minute is there."""
    settings.FETTLE_STORE, settings.FETTLE_STORE_DIR = "parquet", tmp_path
    store.cache_clear()
    cards = fleet()
    refresh(AT)

    assert row("job", JOB)["base_runs"] == 0
    assert row("gpu", cards[0].pk)["day_idle_share"] is None


def test_the_judge_s_frames_have_what_is_kept() -> None:
    """Beside what the window tells: of a job, its cards and its node, and of the fleet what all jobs make of the storage."""
    home = node("n1", last_seen_at=AT, driver_version="580.65.06")
    card = gpu(home, sm_clock_max_mhz=1980)
    fill("bf16_train", [card], int(AT.timestamp()), 120)
    Annotation.objects.create(scope="node", target="n1", key="maintenance", value=True, at=NOON)
    refresh(AT)
    seen = look(AT, 60, 2.0)
    found = with_more(features_of(seen.measured), more(AT, seen, 60, ["xids_24h"]))
    card_row, job, fleet_row = (one.row(0, named=True) for one in (found.gpu, found.job, found.fleet))

    assert (card_row["xids_24h"], card_row["driver_version"], card_row["note_maintenance"]) == (0, "580.65.06", True)
    assert (job["base_runs"], job["driver_major"], job["mtbf_gpu_hours"]) == (0, 580, 50_677)
    assert found.node.row(0, named=True)["note_maintenance"] is True
    assert (fleet_row["driver_mix"], fleet_row["data_starved_jobs"]) == ("580.65.06: 1", 0)


def test_the_judge_does_without() -> None:
    """Before the task ran for the first time: every column is there, and null."""
    home = node("n1", last_seen_at=AT)
    fill("bf16_train", [gpu(home)], int(AT.timestamp()), 120)
    seen = look(AT, 60, 2.0)
    found = with_more(features_of(seen.measured), more(AT, seen, 60, []))

    assert found.gpu["xids_24h"].to_list() == [None]
    assert found.job["base_runs"].to_list() == [None]


def test_a_job_that_runs_nothing_is_annotated_by_either_of_its_names() -> None:
    """What a prolog tells of all jobs of a user on its node counts for the job that its scheduler gave the GPU to; its own name goes first."""
    card = gpu(node("n1", last_seen_at=AT))
    give(job("4711", AT - minutes(60), user="ann"), card)
    told = {"scope": "job", "key": "declared_idle", "at": AT - minutes(5), "by_name": "prolog"}
    Annotation.objects.create(target="n1/ann/*", value=True, **told)
    refresh(AT)
    frame = frames(AT)["job"]
    assert frame.select("job", "note_declared_idle", "node_name").rows() == [("west/4711", True, "n1")]
    assert frames(AT)["gpu"].select("note_declared_idle").rows() == [(True,)]

    Annotation.objects.create(target="west/4711", value=False, **told)
    refresh(AT)
    assert frames(AT)["job"]["note_declared_idle"].to_list() == [False]


def test_gpus_that_were_given_and_nobody_lists_are_counted_with_their_jobs() -> None:
    """A card that its node no longer lists counts once, whoever holds it; one that is listed does not, and a job that ended holds nothing."""
    home = node("n1", last_seen_at=AT)
    there, gone, before = gpu(home), gpu(home, 1, present=False), gpu(home, 2, present=False)
    mine, over = job("4711", AT - minutes(60)), job("4700", AT - minutes(60), ended_at=AT - minutes(1))
    give(mine, there)
    give(mine, gone)
    give(job("4712", AT - minutes(60)), gone)
    give(over, before, until=AT - minutes(1))
    refresh(AT)
    row = frames(AT)["node"].row(0, named=True)
    assert (row["allocated_gpus_missing"], row["jobs_on_missing"]) == (1, "west/4711, west/4712")


@pytest.mark.parametrize("device", ["7", "GPU-00000000-dead-beef-0000-000000000000", "gpu:h200:2"])
def test_a_device_that_fits_no_card_of_its_node_is_no_missing_card(device: str) -> None:
    """One wrong number or UUID in a job's start drains no healthy node, nor does a card of another node."""
    home, other = node("n1", last_seen_at=AT), node("n2", last_seen_at=AT)
    gpu(home)
    elsewhere = gpu(other, 3, present=False)
    mine = job("4711", AT - minutes(60))
    for name, card in ((device, None), ("3", elsewhere)):
        Allocation.objects.create(job=mine, node=home, node_name="n1", device=name, gpu=card, from_at=mine.started_at)
    refresh(AT)
    assert frames(AT)["node"].filter(pl.col("node_name") == "n1")["allocated_gpus_missing"].to_list() == [None]


def test_bad_ends_that_a_scheduler_told_count_against_the_node() -> None:
    """Of its own jobs' families; a job that was cancelled, or ended well, is none."""
    home = node("n1", last_seen_at=AT)
    card = gpu(home)
    for number, state in enumerate(("node_fail", "failed", "cancelled", "completed")):
        ended = AT - minutes(60 - 10 * number)
        one = job(f"471{number}", AT - minutes(90), ended_at=ended, state=state, family=f"west/ada/{number // 2}")
        give(one, card, until=ended)
    refresh(AT)
    row = frames(AT)["node"].row(0, named=True)
    assert (row["abnormal_ends_7d"], row["abnormal_end_jobs_7d"]) == (2, 1)
