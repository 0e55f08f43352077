"""Damage that Polars answers with a panic, which is no Exception: it costs one file's rows, and nothing stops for it."""

import logging
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from fleet.store.compact import compact
from fleet.store.parquet import ParquetSeries
from tests.fleet.store.panicking import make_panic

DAY = 86_400
T = 20_000 * DAY + 12 * 3600
REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def engine(tmp_path: Path) -> ParquetSeries:
    """Three flushes of a GPU, the second of them damaged, and one of a host."""
    engine = ParquetSeries(tmp_path, clock=lambda: float(T + 10), grace_s=0)
    for second in range(3):
        engine.write("gpu", pl.DataFrame({"entity": [1], "ts": [T + second], "sm_active": [0.5]}))
    engine.write("host", pl.DataFrame({"entity": [1], "ts": [T]}))
    make_panic(sorted((tmp_path / "raw" / "gpu").rglob("*.parquet"))[1])
    return engine


def names(engine: ParquetSeries, pattern: str) -> list[str]:
    """Names of its raw files."""
    return [path.name for path in (engine.root / "raw").rglob(pattern)]


def test_reads_go_on_without_its_rows_and_the_log_has_one_line(engine: ParquetSeries, caplog: pytest.LogCaptureFixture) -> None:
    """Rows, the newest row and buckets alike."""
    reads = [engine.window("gpu", T, T + 3)["ts"].to_list() for _ in range(3)]

    assert reads == [[T, T + 2]] * 3
    assert engine.latest("gpu", T)["ts"].to_list() == [T + 2]
    assert engine.series("gpu", 1, ["sm_active"], T, T + 3, 1).height == 2
    assert len([record for record in caplog.records if "is damaged" in record.getMessage()]) == 1


def test_the_compactor_sets_it_aside_and_merges_the_rest_and_the_other_scopes(engine: ParquetSeries) -> None:
    """By its own program, as the worker runs it."""
    command = [sys.executable, "-m", "fleet.store.compact", str(engine.root)]
    done = [subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True, text=True) for _ in range(2)]

    assert [one.returncode for one in done] == [0, 0], done
    assert len(names(engine, "*.damaged")) == 1
    assert any(path.name.startswith("d-") for path in engine.folder("host").rglob("*.parquet"))
    assert any(path.name.startswith("d-") for path in engine.folder("gpu").rglob("*.parquet"))
    assert engine.window("gpu", T, T + 3)["ts"].to_list() == [T, T + 2]


def test_rows_whose_time_is_over_go_with_it_once_the_others_are_rolled_up(
    engine: ParquetSeries, caplog: pytest.LogCaptureFixture
) -> None:
    """What was set aside goes with its day."""
    with caplog.at_level(logging.ERROR):
        assert engine.prune({1: T + 2 * DAY}) > 0

    assert "set aside" in caplog.text
    assert not names(engine, "*.parquet*")
    assert engine.series("gpu", 1, ["sm_active"], T, T + 3600, 3600)["sm_active"].to_list() == [0.5]


def test_a_scope_that_cannot_be_merged_keeps_no_other_from_it(engine: ParquetSeries) -> None:
    """It is said once the others had their turn."""
    (engine.root / "10s").mkdir()
    (engine.root / "10s" / "gpu").write_text("a file where a directory belongs")
    for _ in range(4):  # whichever scope begins
        try:
            compact(engine, T + DAY)
        except Exception as error:
            said = str(error)

    assert "cannot be merged" in said
    assert any(path.name.startswith("d-") for path in engine.folder("host").rglob("*.parquet"))
