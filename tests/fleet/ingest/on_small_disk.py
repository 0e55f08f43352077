"""Run by test_full_disk.py, in a mount namespace where FETTLE_TEST_DISK is a file system of 2 MB: the writer on it."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.store.parquet import ParquetSeries
from tests.fleet.ingest.test_writer import Bench, T

DISK = Path(os.environ.get("FETTLE_TEST_DISK", "/nowhere"))


async def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for it, for at most half a minute."""
    for _ in range(600):
        if holds():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(what)


@pytest.mark.django_db(transaction=True)
async def test_a_full_disk_acks_nothing_and_says_so_and_goes_on_by_itself_once_there_is_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What was acked is readable, what was not is kept and stored later, each once; nothing half written stays."""
    series = ParquetSeries(DISK / "series")
    bench = Bench(series)  # type: ignore[arg-type] # any engine will do
    bench.writer.start()
    bench.put(0, 1.0)
    await until(lambda: bench.acked() == {0}, "the first batch is stored")
    ballast = DISK / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 512):
                pass
        except OSError:
            pass
    for seq in range(1, 6):
        bench.put(seq, float(seq))
    await until(lambda: bench.writer.failing is not None, "the writer says that it cannot")
    waiting = bench.acked(), bench.writer.batches
    read = series.window("gpu", int(T), int(T) + 9)["power_w"].to_list()
    ballast.unlink()
    await until(lambda: bench.acked() == set(range(6)), "all are stored once there is room")
    await bench.writer.stop()
    bench.threads.close()

    assert waiting == ({0}, 5)
    assert read == [1.0]
    assert series.window("gpu", int(T), int(T) + 9)["power_w"].to_list() == [1.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert not list(DISK.rglob("*.tmp"))
    assert "No space left on device" in caplog.text
    assert "FETTLE_RETAIN_RAW_H" in caplog.text
    assert "Telemetry is stored again" in caplog.text
