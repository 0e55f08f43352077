"""Celery's part of the housekeeping, run as a worker would run it."""

import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from django.test import override_settings

from fleet.store import tasks
from fleet.store.parquet import ParquetSeries
from fleet.store.series import StoreError, store

DAY = 86_400


@pytest.fixture(autouse=True)
def root(tmp_path: Path) -> Iterator[Path]:
    """A store of the settings' engine in an empty directory."""
    store.cache_clear()
    with override_settings(FETTLE_STORE="parquet", FETTLE_STORE_DIR=tmp_path, FETTLE_RETAIN_RAW_H=24):
        yield tmp_path
    store.cache_clear()


def write(path: Path, ts: int) -> None:
    """One row, as it arrived at `ts`."""
    ParquetSeries(path, clock=lambda: ts).write("gpu", pl.DataFrame({"entity": [1], "ts": [ts], "sm_active": [0.5]}))


def levels(path: Path) -> list[str]:
    """The levels of the files that are there."""
    return sorted(file.name[0] for file in path.rglob("*.parquet"))


def test_compact_merges_in_a_process_of_its_own(root: Path) -> None:
    """What is due by the real clock; readers see the same row."""
    ts = int(time.time()) - 3 * 3600
    write(root, ts)
    tasks.compact()

    assert levels(root) == ["a", "b", "c"]
    assert store().window("gpu", ts, ts + 1)["sm_active"].to_list() == [0.5]


def test_compact_starts_no_process_when_nothing_is_due(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beat asks every minute; the answer is a look at the directory."""
    write(root, int(time.time()) + 5)
    monkeypatch.setattr(tasks.sys, "executable", "/nowhere/python")  # type: ignore[attr-defined]
    tasks.compact()

    assert levels(root) == ["a"]


def test_compact_that_fails_says_so(root: Path) -> None:
    """A directory where the lock should be: the task fails, the rows stay readable."""
    ts = int(time.time()) - 3 * 3600
    write(root, ts)
    (root / "raw" / "compact.lock").mkdir()

    with pytest.raises(StoreError, match="ended with code 1"):
        tasks.compact()
    assert len(store().window("gpu", ts, ts + 1)) == 1


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
