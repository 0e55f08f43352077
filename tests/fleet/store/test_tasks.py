"""Celery's part of the housekeeping, run as a worker would run it."""

import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from django.test import override_settings

from fleet.store import compact as compactor
from fleet.store import tasks
from fleet.store.parquet import ParquetSeries
from fleet.store.series import StoreError, store

DAY = 86_400


@pytest.fixture(autouse=True)
def root(tmp_path: Path) -> Iterator[Path]:
    """A store of the settings' engine in an empty directory."""
    store.cache_clear()
    tasks.merging.over()
    tasks.pruning.over()
    with override_settings(FETTLE_STORE="parquet", FETTLE_STORE_DIR=tmp_path, FETTLE_RETAIN_RAW_H=24):
        yield tmp_path
    store.cache_clear()


def write(path: Path, ts: int) -> None:
    """One row, as it arrived at `ts`."""
    ParquetSeries(path, clock=lambda: ts).write("gpu", pl.DataFrame({"entity": [1], "ts": [ts], "sm_active": [0.5]}))


def levels(path: Path) -> list[str]:
    """The levels of the files of rows that are there."""
    return sorted(file.name[0] for file in (path / "raw").rglob("*.parquet"))


def test_compact_merges_in_a_process_of_its_own(root: Path) -> None:
    """What is due by the real clock; readers see the same row."""
    ts = int(time.time()) - 3 * 3600
    write(root, ts)
    tasks.compact()

    assert levels(root) == ["a", "b", "d"]
    assert store().window("gpu", ts, ts + 1)["sm_active"].to_list() == [0.5]


def test_compact_starts_no_process_when_nothing_is_due(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beat asks every minute; the answer is a look at the directory."""
    write(root, int(time.time()) + 5)
    monkeypatch.setattr(tasks.sys, "executable", "/nowhere/python")  # type: ignore[attr-defined]
    tasks.compact()

    assert levels(root) == ["a"]


def test_compact_that_fails_says_so_once(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A directory where the lock should be: one sentence however often it is tried, no traceback, and the rows stay readable."""
    ts = int(time.time()) - 3 * 3600
    write(root, ts)
    lock = root / "raw" / "compact.lock"
    lock.mkdir()
    for _ in range(3):
        tasks.compact()
    assert len(store().window("gpu", ts, ts + 1)) == 1
    assert levels(root) == ["a"]
    lock.rmdir()
    tasks.compact()

    assert levels(root) == ["a", "b", "d"]
    assert [record.getMessage() for record in caplog.records] == [
        f"Merging telemetry files failed and is tried again: {root} cannot be merged: Is a directory; nothing was lost.",
        "Merging telemetry files works again; it had failed 3 times",
    ]
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.parametrize("program", ["/nowhere/python", "/bin/false"])
def test_a_merge_that_cannot_run_or_dies_is_a_sentence_too(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, program: str
) -> None:
    """The task ends in order, so that no traceback a minute hides the reason."""
    write(root, int(time.time()) - 3 * 3600)
    with monkeypatch.context() as patch:
        patch.setattr(tasks.sys, "executable", program)  # type: ignore[attr-defined]
        tasks.compact()
    tasks.compact()

    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("Merging telemetry files failed and is tried again: ")
    assert second == "Merging telemetry files works again; it had failed 1 times"
    assert levels(root) == ["a", "b", "d"]


def test_another_reason_is_said_anew(caplog: pytest.LogCaptureFixture) -> None:
    """Of the same one only numbers change."""
    trouble = tasks.Trouble("Merging")
    for why in ("3 files are in the way", "4 files are in the way", "the disk is full"):
        trouble.met(StoreError(why))

    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
        "3 files are in the way",
        "the disk is full",
    ]
    assert trouble.runs == 3


def test_prune_that_fails_says_so_once(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As merging does."""
    write(root, int(time.time()))
    lock = root / "raw" / "compact.lock"
    lock.mkdir()
    freed = [tasks.prune(), tasks.prune()]
    lock.rmdir()
    tasks.prune()

    assert freed == [0, 0]
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "Is a directory" in caplog.text


def test_a_run_of_the_merge_has_an_end_and_the_next_goes_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What gathered over days does not hold a worker's process for minutes."""
    write(root, int(time.time()) - 3 * 3600)
    with monkeypatch.context() as patch:
        patch.setattr(compactor, "RUN_S", 0.0)
        assert compactor.main([str(root)]) == 0
    assert levels(root) == ["a"]
    assert compactor.main([str(root)]) == 0

    assert levels(root) == ["a", "b", "d"]


def test_prune_keeps_the_hours_that_the_setting_names(root: Path) -> None:
    """A day that ended less than FETTLE_RETAIN_RAW_H ago stays; one that ended before goes."""
    now = int(time.time())
    for ts in (now, now - DAY, now - 2 * DAY - 60, now - 30 * DAY):
        write(root, ts)
    freed = tasks.prune()

    assert freed > 0
    assert store().window("gpu", 0, now + 1)["ts"].to_list() == [now - DAY, now]


def test_both_do_nothing_for_an_engine_without_files() -> None:
    """The memory engine of the tests."""
    store.cache_clear()
    with override_settings(FETTLE_STORE="memory"):
        tasks.compact()

        assert tasks.prune() == 0
    store.cache_clear()


def test_beat_runs_both_and_a_lost_worker_gives_them_back() -> None:
    """The names in the schedule are those of the tasks, which are acked late."""
    from config.celery import app

    for task in (tasks.compact, tasks.prune):
        assert task.acks_late
        assert app.conf.beat_schedule[task.name]["task"] == task.name


def test_an_unknown_engine_is_named() -> None:
    """A typing error in the settings is no empty store."""
    with override_settings(FETTLE_STORE="paper"), pytest.raises(StoreError, match="paper"):
        store()
