"""Exports of Nsight Systems, reconstructed from the published schema; none is real."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from advisor.profiles.profile import read
from advisor.profiles.stream import ProfileError
from tests.advisor.profiles import traces

NS = 1e-9
THREAD = 1 << 48 | 4000 << 24 | 4001
"""`globalTid`: hardware and machine ids above, then the process, then the thread."""
OWNER = 1 << 48 | 4000 << 24

SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_GPU (id INTEGER NOT NULL, name TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
    copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
    globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER);
CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device'), (2, 'CUDA_MEMCPY_KIND_DTOH', 'Device-to-Host'),
    (11, 'CUDA_MEMCPY_KIND_UVM_HTOD', 'Unified Host-to-Device');
INSERT INTO ENUM_CUDA_MEM_KIND VALUES (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', 'Pageable'), (1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', 'Pinned'),
    (2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', 'Device');
"""
NAMES = {
    1: traces.GEMM,
    2: traces.ADD,
    3: traces.ALL_REDUCE,
    4: "cudaLaunchKernel_v7000",
    5: "cudaStreamSynchronize_v3020",
    6: "cudaMemcpyAsync_v3020",
    7: traces.LOADER,
}
ROWS = (
    ("TARGET_INFO_GPU", [(0, "NVIDIA H200")]),
    ("StringIds", list(NAMES.items())),
    (
        "CUPTI_ACTIVITY_KIND_KERNEL",
        [
            (100, 300, 0, 1, 7, 1, OWNER, 1, 1),
            (310, 410, 0, 1, 7, 2, OWNER, 2, 2),
            (1410, 1510, 0, 1, 7, 3, OWNER, 2, 2),
            (1460, 1660, 0, 1, 20, 4, OWNER, 3, 3),
        ],
    ),
    (
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        [(2000, 2100, 0, 1, 7, 5, OWNER, 4096, 1, 0, 2), (2100, 2150, 0, 1, 7, 6, OWNER, 64, 11, 4, 2)],
    ),
    ("CUPTI_ACTIVITY_KIND_MEMSET", [(2150, 2160, 0, 1, 7, 7, OWNER)]),
    (
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        [
            (10, 90, 0, THREAD, 1, 4, 0),
            (120, 160, 0, THREAD, 2, 4, 0),
            (1300, 1360, 0, THREAD, 3, 4, 0),
            (1370, 1400, 0, THREAD, 4, 4, 0),
            (1600, 1760, 0, THREAD, 9, 5, 0),
            (1900, 2110, 0, THREAD, 5, 6, 0),
        ],
    ),
    (
        "NVTX_EVENTS",
        [(500, 1100, 59, None, THREAD, 7), (0, 1000, 59, "ProfilerStep#1", THREAD, None), (5, None, 34, "mark", THREAD, None)],
    ),
)

Export = Callable[..., Path]


@pytest.fixture
def export(tmp_path: Path) -> Export:
    """Writes an export without the tables named in `lacks`, then runs `change`."""

    def export(*lacks: str, change: str = "") -> Path:
        path = tmp_path / "report.sqlite"
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database:
            database.executescript(SCHEMA)
            for table, rows in ROWS:
                database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
            for table in lacks:
                database.execute(f"DROP TABLE {table}")
            database.executescript(change)
        return path

    return export


def test_an_export_tells_the_same_as_a_trace(export: Export) -> None:
    """Parts of the span, idle by cause, launches, steps and copies, in nanoseconds by hand."""
    profile = read(export())
    (device,) = profile.devices

    assert (profile.source.kind, device.process, device.device, device.name) == ("nsight", "4000", 0, "NVIDIA H200")
    assert device.span_s == pytest.approx(2060 * NS)
    assert device.compute_s == pytest.approx(400 * NS)
    assert device.communication_exposed_s == pytest.approx(150 * NS)
    assert device.copies_exposed_s == pytest.approx(160 * NS)
    assert device.idle.total_s == pytest.approx((10 + 1000 + 340) * NS)
    assert device.idle.queued_s == pytest.approx((10 + 50) * NS)
    assert device.idle.loading_s == pytest.approx(600 * NS)
    assert device.idle.waiting_s == pytest.approx(100 * NS)
    assert device.idle.launching_s == pytest.approx((60 + 100) * NS)
    assert device.launches.unqueued == 1
    assert device.launches.latency_p50_s == pytest.approx(100 * NS)
    assert device.matrix.off_by_dtype_s == {"fp32": pytest.approx(200 * NS)}
    assert [(copy.direction, copy.pageable, copy.size_bytes) for copy in device.copies] == [("HtoD", True, 4096), ("", None, 64)]
    assert profile.steps is not None
    assert profile.steps.count == 1


def test_older_exports_count_memory_kinds_from_one(export: Export) -> None:
    """What an id means is read from the file: here 1 is pageable and 0 unknown."""
    change = (
        "DELETE FROM ENUM_CUDA_MEM_KIND; INSERT INTO ENUM_CUDA_MEM_KIND VALUES (0, 'CUDA_MEMOPR_MEMORY_KIND_UNKNOWN', ''),"
        "(1, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', ''); UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET srcKind = 1 WHERE copyKind = 1;"
    )

    assert read(export(change=change)).devices[0].copies[0].pageable
    assert read(export("ENUM_CUDA_MEM_KIND")).devices[0].copies[0].pageable is None


@pytest.mark.parametrize(
    "lacks",
    [
        ("CUPTI_ACTIVITY_KIND_RUNTIME",),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"),
        ("NVTX_EVENTS", "TARGET_INFO_GPU"),
        ("StringIds",),
    ],
)
def test_tables_that_had_nothing_to_hold_are_missing(export: Export, lacks: tuple[str, ...]) -> None:
    """Exports make tables lazily; what they would tell is absent."""
    (device,) = read(export(*lacks)).devices

    assert device.kernels == 4
    assert (device.idle.launching_s is None) == ("CUPTI_ACTIVITY_KIND_RUNTIME" in lacks or "StringIds" in lacks)


def test_an_export_without_gpu_activity_has_no_device(export: Export) -> None:
    """As of `nsys profile` without --trace=cuda."""
    profile = read(export("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"))

    assert profile.devices == ()
    assert "devices" in profile.absent


def test_columns_that_a_version_lacks_are_absent(export: Export) -> None:
    """Exports of 2020 have no globalPid and no memory kinds' table."""
    change = "".join(
        f"ALTER TABLE {table} DROP COLUMN globalPid;"
        for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
    )
    (device,) = read(export(change=change)).devices

    assert device.process is None
    assert device.kernels == 4


def test_two_processes_on_one_device_are_two(export: Export) -> None:
    """Each counts its own correlations from one."""
    other = OWNER + (1 << 24)
    change = (
        f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT start, end, 0, 1, 7, correlationId, {other}, 2, 2"
        " FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId < 3;"
    )
    first, second = read(export(change=change)).devices

    assert (first.process, second.process) == ("4000", "4001")
    assert (first.launches.uncorrelated, second.launches.uncorrelated) == (0, 2)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'x' WHERE correlationId = 3",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = -5 WHERE correlationId = 3",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 0 WHERE correlationId = 3",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 9223372036854775807 WHERE correlationId = 3",
    ],
)
def test_rows_with_times_that_cannot_be_are_left_out(export: Export, change: str) -> None:
    """One kernel fewer, and said so."""
    profile = read(export(change=change))

    assert profile.devices[0].kernels == 3
    assert "1 events have times" in profile.source.notes[0].english()


def test_values_of_the_wrong_kind_end_nothing(export: Export) -> None:
    """Text in numbers, blobs in names, negative streams."""
    change = (
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = 'a', deviceId = -7, correlationId = 'b', globalPid = x'00';"
        "UPDATE StringIds SET value = x'ff00' WHERE id = 1; UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = NULL;"
        "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = 'many', copyKind = 'x', srcKind = NULL; UPDATE TARGET_INFO_GPU SET name = 3;"
    )
    profile = read(export(change=change))

    assert sum(device.kernels for device in profile.devices) == 4


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    """It says that it is no export."""
    path = tmp_path / "db.sqlite3"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE users (id INTEGER)")

    with pytest.raises(ProfileError, match="no export of Nsight Systems"):
        read(path)


def test_a_view_that_looks_like_a_table_is_not_run(tmp_path: Path) -> None:
    """A file from elsewhere may define anything; only tables are read."""
    path = tmp_path / "db.sqlite3"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT 1 AS start, 2 AS end")

    with pytest.raises(ProfileError, match="none of its tables"):
        read(path)


def test_a_damaged_database_is_refused(export: Export) -> None:
    """Cut in half, and nothing but a header."""
    path = export()
    whole = path.read_bytes()
    for cut in (16, 100, len(whole) // 2):
        path.write_bytes(whole[:cut])

        with pytest.raises(ProfileError, match="damaged SQLite"):
            read(path)


def test_a_damaged_schema_is_refused(export: Export) -> None:
    """What SQLite says of it quotes bytes that are no text."""
    path = export()
    path.write_bytes(
        path.read_bytes().replace(b"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (", b"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL \xf8")
    )

    with pytest.raises(ProfileError, match="damaged SQLite"):
        read(path)


def test_a_report_in_its_own_format_is_told_how_to_export(tmp_path: Path) -> None:
    """The command that makes it readable."""
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"NSYS")

    with pytest.raises(ProfileError, match="nsys export --type sqlite"):
        read(path)
