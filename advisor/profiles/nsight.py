"""Reads the SQLite file that `nsys export --type sqlite` writes.

Written against the published schema (docs.nvidia.com/nsight-systems, "SQLite Export Schema Reference") and the schemas that exports
of 2021 to 2026 have in public. Tables are made lazily: one that is missing had nothing to hold. Times are whole nanoseconds. What the ids
of memory kinds mean is read from the file, for they changed: CUPTI counts "pageable" as 1, newer exports as 0.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from advisor.profiles.activity import NO_CORRELATION, Collected, Full
from advisor.profiles.kernels import call, is_loader, step
from advisor.profiles.stream import ProfileError
from advisor.profiles.summary import NO_ORDER, Source
from advisor.text import Text, _

_KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_MEMCPY: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
_MEMSET: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
_CALLS: Final = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
_DIRECTIONS: Final = {"HTOD": "HtoD", "DTOH": "DtoH", "DTOD": "DtoD", "PTOP": "PtoP", "HTOH": "HtoH"}
_KINDS: Final = {"PAGEABLE": "Pageable", "PINNED": "Pinned", "DEVICE": "Device", "ARRAY": "Array", "MANAGED": "Managed"}
_PROCESS: Final = 0xFFFFFF
"""A `globalTid` holds the process in bits 24 to 47 and the thread below; a `globalPid` is one with no thread."""


def read(path: Path) -> tuple[Source, Collected]:
    """What the export tells; ProfileError where the file is something else, or damaged."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)) as database:
            database.text_factory = lambda text: text.decode("utf-8", "replace")
            database.execute("PRAGMA trusted_schema = OFF")
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000_000)  # of one string
            return _Export(path, database).read()
    except UnicodeDecodeError:  # sqlite3 could not even say what is wrong: its message quotes the damage
        raise _damaged(path, "its schema is no text") from None
    except sqlite3.Error as error:
        raise _damaged(path, str(error)) from None


def _damaged(path: Path, why: str) -> ProfileError:
    return ProfileError(f"{path} is a damaged SQLite file: {why}. Export it again: nsys export --type sqlite.")


class _Export:
    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self._path, self._database, self._found = path, database, Collected()
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'")
        tables = {name for (name,) in rows}
        self._columns: dict[str, set[str]] = {
            name: {str(row[1]) for row in database.execute(f"PRAGMA table_info({name})")}
            for name in (_KERNELS, _MEMCPY, _MEMSET, *_CALLS, "NVTX_EVENTS", "StringIds", "TARGET_INFO_GPU", *_ENUMS)
            if name in tables
        }
        self._processes: dict[int, int] = {}

    def read(self) -> tuple[Source, Collected]:
        if not any(name.startswith(("CUPTI", "NVTX", "TARGET_INFO")) for name in self._columns):
            raise ProfileError(f"{self._path} is a SQLite file, but no export of Nsight Systems: it has none of its tables.")
        found, full = self._found, False
        try:
            self._kernels()
            self._copies()
            self._memsets()
            for table in _CALLS:
                self._calls(table)
            self._ranges()
        except Full:
            full = True
        notes = []
        if full:
            notes.append(
                Text(
                    _("The trace has more activities than are kept: what is judged are its first {events:,} events."),
                    {"events": found.events},
                )
            )
            notes.append(NO_ORDER)
        if found.impossible:
            notes.append(
                Text(
                    _(
                        "{count:,} events have times that cannot be true (negative, not numbers, longer than a year) and are left out."
                    ),
                    {"count": found.impossible},
                )
            )
        names = {row[0]: row[1][:100] for row in self._rows("TARGET_INFO_GPU", "id", "name") if isinstance(row[1], str)}
        size = self._path.stat().st_size
        return Source("nsight", found.events, size, not full, gpu_names=names, notes=tuple(notes)), found

    def _rows(self, table: str, *wanted: str, named: str | None = None) -> Iterator[tuple[Any, ...]]:
        """The columns of each row, None for those that this version of the schema lacks; `named` adds the text of a string's id."""
        columns = self._columns.get(table)
        if columns is None:
            return
        asked = [f't."{name}"' if name in columns else "NULL" for name in wanted]
        joined = ""
        if named is not None:
            has = named in columns and {"id", "value"} <= self._columns.get("StringIds", set())
            asked.append("s.value" if has else "NULL")
            joined = f' LEFT JOIN StringIds s ON s.id = t."{named}"' if has else ""
        # the names are this module's own
        yield from self._database.execute(f"SELECT {', '.join(asked)} FROM {table} t{joined}")  # noqa: S608

    def _times(self, start: object, end: object) -> tuple[int, int] | None:
        self._found.events += 1
        if isinstance(start, int) and isinstance(end, int):
            return self._found.times(start, end - start)
        self._found.impossible += 1
        return None

    def _process(self, identity: object) -> int | None:
        return identity >> 24 & _PROCESS if isinstance(identity, int) else None

    def _correlation(self, process: int | None, correlation: object) -> int:
        """One number for process and correlation: each process counts its own."""
        if not isinstance(correlation, int) or not 0 < correlation < 1 << 38:
            return NO_CORRELATION
        return (self._processes.setdefault(process or 0, len(self._processes)) & _PROCESS) << 38 | correlation

    def _kernels(self) -> None:
        named = "demangledName" if "demangledName" in self._columns.get(_KERNELS, ()) else "shortName"
        for start, end, device, stream, correlation, owner, name in self._rows(
            _KERNELS, "start", "end", "deviceId", "streamId", "correlationId", "globalPid", named=named
        ):
            if times := self._times(start, end):
                process = self._process(owner)
                gpu = self._found.gpu(process, _small(device))
                text = name if isinstance(name, str) else ""
                self._found.kernel(gpu, text, _small(stream), *times, self._correlation(process, correlation), None)

    def _copies(self) -> None:
        directions, kinds = self._enum(_ENUMS[0], _DIRECTIONS), self._enum(_ENUMS[1], _KINDS)
        for start, end, device, stream, correlation, owner, size, way, source, target in self._rows(
            _MEMCPY,
            *("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes", "copyKind", "srcKind", "dstKind"),
        ):
            if times := self._times(start, end):
                process = self._process(owner)
                told = (directions.get(way, ""), kinds.get(source), kinds.get(target))
                self._found.copy(
                    self._found.gpu(process, _small(device)),
                    told,
                    size if isinstance(size, int) and size >= 0 else None,
                    _small(stream),
                    *times,
                    self._correlation(process, correlation),
                )

    def _memsets(self) -> None:
        for start, end, device, stream, correlation, owner in self._rows(
            _MEMSET, "start", "end", "deviceId", "streamId", "correlationId", "globalPid"
        ):
            if times := self._times(start, end):
                process = self._process(owner)
                gpu = self._found.gpu(process, _small(device))
                self._found.copy(gpu, None, None, _small(stream), *times, self._correlation(process, correlation))

    def _calls(self, table: str) -> None:
        found = self._found
        for start, end, thread, correlation, name in self._rows(
            table, "start", "end", "globalTid", "correlationId", named="nameId"
        ):
            if (times := self._times(start, end)) and isinstance(name, str):
                found.calls += 1
                index = found.thread(thread)
                waits, launches = call(name[:100])
                found.host(found.hosts[index].waiting if waits else found.hosts[index].busy, *times)
                told = self._correlation(self._process(thread), correlation) if launches else NO_CORRELATION
                if told != NO_CORRELATION:
                    found.launch(index, told, *times)

    def _ranges(self) -> None:
        """Ranges that PyTorch pushes to NVTX (`torch.autograd.profiler.emit_nvtx`): steps and waits for a batch."""
        for start, end, thread, text, by_id in self._rows("NVTX_EVENTS", "start", "end", "globalTid", "text", named="textId"):
            name = text if isinstance(text, str) else by_id
            if not isinstance(name, str) or end is None:
                continue
            number = step(name[:100])
            if number is None and not is_loader(name):
                continue
            if times := self._times(start, end):
                if number is not None:
                    self._found.step(self._process(thread), number, times[1] - times[0])
                else:
                    self._found.loads += 1
                    self._found.host(self._found.hosts[self._found.thread(thread)].loading, *times)

    def _enum(self, table: str, words: dict[str, str]) -> dict[int, str]:
        """What the ids mean by the end of their names, `CUDA_MEMOPR_MEMORY_KIND_PAGEABLE`; those of no known word are left out."""
        return {
            identity: words[name.rpartition("_")[2]]
            for identity, name in self._rows(table, "id", "name")
            if isinstance(name, str) and name.rpartition("_")[2] in words and "UVM" not in name and "STATIC" not in name
        }


_ENUMS: Final = ("ENUM_CUDA_MEMCPY_OPER", "ENUM_CUDA_MEM_KIND")


def _small(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 40 else -1
