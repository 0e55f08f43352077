"""What the Parquet engine alone must stand: changes of the registry, damage, a disk that refuses, two writers."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from threading import Thread

import polars as pl
import pytest

from fleet.store.compact import compact
from fleet.store.layout import RAW, parse
from fleet.store.parquet import ParquetSeries
from fleet.store.series import StoreError
from wire.metrics import METRICS, Metric

T = 20_000 * 86_400 + 12 * 3600
REPOSITORY = Path(__file__).resolve().parents[3]
NEW = Metric("fan_speed_pct", "gpu", "gauge", "percent", 0, 100, "Made up for this test.")


def frame(ts: int = T, **values: object) -> pl.DataFrame:
    """One row of GPU 1."""
    return pl.DataFrame({"entity": [1], "ts": [ts]} | {name: [value] for name, value in values.items()})


def files(path: Path, pattern: str = "*.parquet") -> list[Path]:
    """The data files, by name."""
    return sorted(path.rglob(pattern))


def settle(path: Path, metrics: Iterable[Metric] = METRICS) -> ParquetSeries:
    """An engine that has merged all there is to the settled hour."""
    engine = ParquetSeries(path, metrics, grace_s=0)
    compact(engine, engine.clock() + 86_400)
    compact(engine, engine.clock() + 86_400)
    return engine


# The registry changes


def test_a_metric_added_later_is_null_in_older_files(tmp_path: Path) -> None:
    """Before and after both kinds of file were merged into one."""
    ParquetSeries(tmp_path).write("gpu", frame(sm_active=0.5))
    newer = ParquetSeries(tmp_path, (*METRICS, NEW))
    newer.write("gpu", frame(T + 1, fan_speed_pct=33.0))
    fresh = newer.window("gpu", T, T + 2)

    assert fresh["fan_speed_pct"].to_list() == [None, 33.0]
    assert fresh["sm_active"].to_list() == [0.5, None]
    assert settle(tmp_path, (*METRICS, NEW)).window("gpu", T, T + 2).equals(fresh)


def test_a_metric_removed_later_is_passed_over(tmp_path: Path) -> None:
    """Old files still have its column."""
    ParquetSeries(tmp_path, (*METRICS, NEW)).write("gpu", frame(sm_active=0.5, fan_speed_pct=33.0))
    back = ParquetSeries(tmp_path).window("gpu", T, T + 2)

    assert "fan_speed_pct" not in back.columns
    assert back["sm_active"].to_list() == [0.5]


def test_a_metric_whose_range_grew_reads_on_in_older_files(tmp_path: Path) -> None:
    """The column became wider: files of both widths are read together and merged."""
    wider = tuple(replace(metric, high=1 << 20) if metric.name == "pstate" else metric for metric in METRICS)
    ParquetSeries(tmp_path).write("gpu", frame(pstate=8))
    newer = ParquetSeries(tmp_path, wider)
    newer.write("gpu", frame(T + 1, pstate=1 << 20))
    fresh = newer.window("gpu", T, T + 2)

    assert fresh["pstate"].to_list() == [8, 1 << 20]
    assert settle(tmp_path, wider).window("gpu", T, T + 2).equals(fresh)
    assert not files(tmp_path, "*.damaged")


def test_a_metric_without_a_value_takes_no_column(tmp_path: Path) -> None:
    """Absent costs nothing on disk."""
    engine = ParquetSeries(tmp_path)
    engine.write("gpu", frame(sm_active=0.5, power_w=None))

    assert pl.read_parquet_schema(files(tmp_path)[0]).keys() == {"entity", "ts", "sm_active"}
    assert engine.window("gpu", T, T + 1)["power_w"].to_list() == [None]


# Damage


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"not parquet at all" * 100, None], ids=["empty", "short", "foreign", "truncated"]
)
def test_a_damaged_file_costs_its_own_rows_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None
) -> None:
    """Reads of the rest go on; the log has one line, however often it is read."""
    engine = ParquetSeries(tmp_path)
    for second in range(3):
        engine.write("gpu", frame(T + second, sm_active=0.5))
    broken = files(tmp_path)[1]
    broken.write_bytes(broken.read_bytes()[:-20] if content is None else content)
    with caplog.at_level(logging.WARNING):
        reads = [engine.window("gpu", T, T + 3)["ts"].to_list() for _ in range(3)]
        latest = engine.latest("gpu", T)["ts"].to_list()

    assert reads == [[T, T + 2]] * 3
    assert latest == [T + 2]
    assert engine.readers["gpu"][RAW].damaged == {broken.name}
    assert len([record for record in caplog.records if broken.name in record.getMessage()]) == 1


def test_a_damaged_page_in_the_middle_costs_its_own_file_alone(tmp_path: Path) -> None:
    """The footer is fine, the data is not."""
    engine = ParquetSeries(tmp_path)
    for first in (T, T + 1000):
        engine.write(
            "gpu",
            pl.DataFrame({"entity": [1] * 1000, "ts": range(first, first + 1000)}).with_columns(sm_active=pl.col("ts") % 7 / 10),
        )
    data = bytearray(files(tmp_path)[0].read_bytes())
    data[4:400] = b"\xff" * 396
    files(tmp_path)[0].write_bytes(data)

    assert engine.window("gpu", T, T + 2000)["ts"].to_list() == list(range(T + 1000, T + 2000))


def test_strangers_in_the_directory_are_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A text file, a Parquet file of another program, a directory with our kind of name, a file where a day should be."""
    engine = ParquetSeries(tmp_path)
    engine.write("gpu", frame(sm_active=0.5))
    ours = files(tmp_path)[0]
    one = parse(ours.name)
    assert one
    (ours.parent / "notes.txt").write_text("do not delete")
    pl.DataFrame({"colour": ["red"]}).write_parquet(ours.parent / replace(one, q0=one.q1 + 1, q1=one.q1 + 1).name)
    directory = ours.parent / replace(one, q0=one.q1 + 2, q1=one.q1 + 2).name
    directory.mkdir()
    (ours.parent.parent / "2024-10-05").write_text("")
    (ours.parent.parent / "lost+found").mkdir()
    with caplog.at_level(logging.WARNING):
        reads = [engine.window("gpu", T - 86_400, T + 2 * 86_400)["sm_active"].to_list() for _ in range(3)]

    assert reads == [[0.5]] * 3
    assert engine.readers["gpu"][RAW].strange == {"notes.txt", directory.name}
    assert len(caplog.records) == 2
    assert settle(tmp_path).window("gpu", T, T + 1)["sm_active"].to_list() == [0.5]
    assert (ours.parent / "notes.txt").exists()
    assert directory.is_dir()


def test_a_slot_of_damaged_files_alone_is_set_aside(tmp_path: Path) -> None:
    """There is nothing to merge, and the next run does not try again."""
    engine = ParquetSeries(tmp_path)
    engine.write("gpu", frame())
    files(tmp_path)[0].write_bytes(b"")
    first, second = (compact(engine, engine.clock() + 86_400) for _ in range(2))

    assert (first.merges, second.merges) == (0, 0)
    assert len(files(tmp_path, "*.damaged")) == 1
    assert not files(tmp_path)


def test_a_file_deleted_by_hand_costs_its_own_rows_alone(tmp_path: Path) -> None:
    """Rows are gone, reads are not."""
    engine = ParquetSeries(tmp_path)
    engine.write("gpu", frame(T))
    engine.write("gpu", frame(T + 1))
    files(tmp_path)[0].unlink()

    assert engine.window("gpu", T, T + 2)["ts"].to_list() == [T + 1]


# The disk refuses


def in_child(script: str, *arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    command = [*prefix, sys.executable, "-c", script, *arguments]
    return subprocess.run(
        command,
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


FILL = """
import errno, os, resource, sys
from pathlib import Path
import numpy as np, polars as pl
from fleet.store.parquet import ParquetSeries
from fleet.store.series import StoreError
path, limit = Path(sys.argv[1]), int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
engine, stored = ParquetSeries(path), []
T = 20_000 * 86_400 + 12 * 3600
rows = 1000 if limit else 4000
try:
    for flush in range(1000):
        noise = np.random.default_rng(flush).uniform(0, 4e12, rows)
        frame = pl.DataFrame({"entity": np.arange(rows), "ts": np.full(rows, T + flush), "pcie_tx_bytes_per_s": noise})
        if limit and flush == 3:
            frame = pl.concat([frame.head(10), frame.with_columns(ts=pl.lit(T + 4000, pl.Int64))])  # one small file that fits, one that does not
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limit))
        engine.write("gpu", frame)
        stored.append(flush)
except StoreError as error:
    print(error)
    print(type(error.__cause__).__name__, errno.errorcode[error.__cause__.errno])
ts = engine.window("gpu", 0, 1 << 32)["ts"]
assert sorted(ts.unique().to_list()) == [T + flush for flush in stored] and len(ts) == rows * len(stored), (len(ts), stored)
assert stored, "nothing fitted"
assert not list(path.rglob("*.tmp")), "temporary files stay"
"""


def test_a_write_that_the_disk_refuses_leaves_nothing_half_visible(tmp_path: Path) -> None:
    """A limit on the size of files stands in for the disk: of a frame of two hours neither part is there."""
    done = in_child(FILL, str(tmp_path), "100000")

    assert done.returncode == 0, done.stderr
    assert "1010 rows of scope gpu were not stored" in done.stdout
    assert "OSError EFBIG" in done.stdout


def test_a_full_disk_is_told_with_what_to_do(tmp_path: Path) -> None:
    """A real file system of 200 kB, in a mount namespace of its own; skipped where none may be made."""
    mount = (
        "unshare",
        "--mount",
        "--map-root-user",
        "sh",
        "-c",
        'mount -t tmpfs -o size=200k none "$0" && exec "$@"',
        str(tmp_path),
    )
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace may be made here")
    done = in_child(FILL, str(tmp_path), "0", prefix=mount)

    assert done.returncode == 0, done.stderr
    assert "No space left on device" in done.stdout
    assert "FETTLE_RETAIN_RAW_H" in done.stdout
    assert "OSError ENOSPC" in done.stdout


def test_a_directory_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    """A file where the store's directory should be."""
    (tmp_path / "raw").write_text("")
    engine = ParquetSeries(tmp_path)

    with pytest.raises(StoreError, match="not stored"):
        engine.write("gpu", frame())
    with pytest.raises(StoreError, match="cannot be removed"):
        engine.prune({1: T})


# Write numbers


def test_write_numbers_grow_over_threads_engines_and_a_clock_that_goes_back(tmp_path: Path) -> None:
    """Each file has a number of its own, so no flush takes another's name or place."""
    clocks = [lambda: 2e9, lambda: 1e9]
    engines = [ParquetSeries(tmp_path, clock=clock) for clock in clocks * 2]

    def write(engine: ParquetSeries, first: int) -> None:
        for second in range(10):
            engine.write("gpu", frame(T + first + second))

    threads = [Thread(target=write, args=(engine, index * 10)) for index, engine in enumerate(engines)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [one.q0 for path in files(tmp_path) if (one := parse(path.name))]

    assert len(set(numbers)) == len(numbers) == 40
    assert len(engines[0].window("gpu", T, T + 40)) == 40


def test_a_lost_lock_file_does_not_set_the_numbers_back(tmp_path: Path) -> None:
    """After a power cut it may be empty, and the clock may be behind: names in use are counted as well."""
    ParquetSeries(tmp_path, clock=lambda: 2e9).write("gpu", frame(sm_active=0.1))
    (tmp_path / "raw" / "gpu" / "write.lock").write_bytes(b"")
    later = ParquetSeries(tmp_path, clock=lambda: 1e9)
    later.write("gpu", frame(sm_active=0.9))

    assert later.window("gpu", T, T + 1)["sm_active"].to_list() == [0.9]


def test_prune_tells_the_bytes_and_leaves_no_trace(tmp_path: Path) -> None:
    """The directory is gone as a whole; the roll-ups are there."""
    engine = ParquetSeries(tmp_path, clock=lambda: float(T), grace_s=0)
    engine.write("gpu", frame())
    engine.write("host", frame())
    compact(engine, T + 86_400)
    held = sum(path.stat().st_size for path in files(tmp_path / "raw"))

    assert engine.prune({1: T + 86_400}) == held
    assert not [path for path in (tmp_path / "raw").rglob("*") if path.name.startswith((".trash", "2024"))]
    assert engine.series("gpu", 1, ["sm_active"], T, T + 10, 10).height == 1
    assert engine.prune({1: T + 86_400}) == 0
