"""Recordings: gzipped JSON lines of what one node's GPUs, processes and host did.

The first line is a header with the cards' constants, every other line one sample. `fettle record` writes
them; `fettle advise`, the `replay` source and the tests read them. Unknown fields are ignored.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from wire.metrics import METRICS, accept

FORMAT_VERSION: Final = 1
MAX_GPUS: Final = 4096
"""More than any node has; an index beyond it is no index."""
LAST_S: Final = 1e11
"""Seconds since the start, or since 1970 by a writer that knows no better; beyond it a time is none."""
LONGEST_S: Final = 366 * 86_400
MAX_LINE_BYTES: Final = 16_000_000
"""A line of 64 GPUs and a thousand processes has less than a megabyte; a file that unpacks to more than it should is stopped early."""
MAX_BYTES: Final = 4_000_000_000


class RecordedGpu(Struct, frozen=True, kw_only=True):
    """One card's constants as the header has them; None where the card did not say."""

    index: int
    name: str = "unknown GPU"
    uuid: str | None = None
    compute_capability: str | None = None
    mem_total_bytes: int | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    sm_clock_max_mhz: float | None = None
    mem_clock_max_mhz: float | None = None
    pcie_link_gen_max: int | None = None
    pcie_link_width_max: int | None = None
    nvlink_links: int | None = None
    nvlink_bytes_per_s_per_link: float | None = None
    memory_kind: str | None = None
    power_scope: str | None = None
    power_average_s: float | None = None


class RecordedHost(Struct, frozen=True, kw_only=True):
    """The host's size."""

    cores: int | None = None
    mem_total_bytes: int | None = None


class Header(Struct, frozen=True, kw_only=True):
    """The first line of a recording."""

    recording: int
    sampling_hz: float | None = None
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    gpus: tuple[RecordedGpu, ...] = ()
    host: RecordedHost = RecordedHost()


class Sample(Struct, frozen=True, kw_only=True):
    """One line: `t` seconds since the start; readings by registry name, absent ones left out or null."""

    t: float
    gpus: tuple[dict[str, Any], ...] = ()
    processes: tuple[dict[str, Any], ...] = ()
    host: dict[str, Any] = {}


class RecordingError(Exception):
    """The file is not a readable recording; the message names the file, the line and what to do."""


class Recording(Struct, frozen=True, kw_only=True):
    """A whole recording in memory; samples are in time order."""

    name: str
    header: Header
    samples: tuple[Sample, ...]
    file: str = ""
    lines: tuple[int, ...] = ()  # of each sample in `file`
    cut_line: int | None = None  # where the file breaks off, as of a recorder that was killed; None: it is whole

    def place(self, number: int) -> str:
        """Where sample `number` (from 0) stands, for messages."""
        line = self.lines[number] if number < len(self.lines) else number + 2
        return f"{self.file or self.name}: line {line}"


_BOM: Final = b"\xef\xbb\xbf"
_json = msgspec.json.Decoder()


def read(path: Path) -> Recording:
    """The recording in `path`, gzipped or plain; RecordingError when it is empty, damaged or not one.

    A file that breaks off, as of a recorder that was killed, gives the samples that are whole; `cut_line` then says where.
    """
    header: Header | None = None
    samples: list[Sample] = []
    numbers: list[int] = []
    number = size = 0
    line = b""
    cut: int | None = None
    try:
        for number, line in enumerate(_lines(path), start=1):
            size += len(line)
            if len(line) > MAX_LINE_BYTES or size > MAX_BYTES:
                limit = (
                    f"line is longer than {MAX_LINE_BYTES:,}"
                    if len(line) > MAX_LINE_BYTES
                    else f"file is longer than {MAX_BYTES:,}"
                )
                raise RecordingError(f"{path}: line {number}: the {limit} bytes; no recording is, so the rest was not read.")
            if not line.strip():
                continue
            if header is None:
                header = msgspec.convert(_without_nulls(_json.decode(line.removeprefix(_BOM)), deep=True), Header)
                if header.recording != FORMAT_VERSION:
                    raise RecordingError(
                        f"{path}: line {number}: format version {header.recording}; this Fettle reads version {FORMAT_VERSION}."
                    )
                if any(not 0 <= gpu.index < MAX_GPUS for gpu in header.gpus):
                    raise RecordingError(f"{path}: line {number}: a GPU's index is outside 0 to {MAX_GPUS - 1}.")
                continue
            sample = msgspec.convert(_without_nulls(_json.decode(line)), Sample)
            if not 0 <= sample.t <= LAST_S:
                raise RecordingError(f"{path}: line {number}: the time {sample.t:g} s is outside 0 to {LAST_S:.0e} s.")
            if samples and sample.t < samples[-1].t:
                raise RecordingError(f"{path}: line {number}: time goes back from {samples[-1].t} s to {sample.t} s.")
            if samples and sample.t - samples[0].t > LONGEST_S:
                raise RecordingError(f"{path}: line {number}: the recording is longer than {LONGEST_S / 86_400:.0f} days.")
            samples.append(sample)
            numbers.append(number)
    except FileNotFoundError:
        raise RecordingError(f"{path}: no such file.") from None
    except EOFError:
        cut = number + 1
    except (zlib.error, gzip.BadGzipFile) as error:
        raise RecordingError(f"{path}: line {number + 1}: the file is damaged ({error}); copy it again or record anew.") from None
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror or error}.") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError, OverflowError) as error:
        if not samples or line.endswith(b"\n") or isinstance(error, msgspec.ValidationError | RecursionError | OverflowError):
            raise RecordingError(
                f"{path}: line {number}: not a recording's {'header' if header is None else 'sample'}: {error}."
            ) from None
        cut = number
    if cut is not None and not samples:
        raise RecordingError(f"{path}: line {cut}: the file is cut short before its first sample; record anew.")
    if header is None:
        raise RecordingError(f"{path}: line 1: the file is empty; a recording begins with a header line.")
    if not samples:
        raise RecordingError(f"{path}: line {number + 1}: the file ends after its header; there is no sample to judge.")
    return Recording(
        name=path.name.split(".")[0],
        header=header,
        samples=tuple(samples),
        file=str(path),
        lines=tuple(numbers),
        cut_line=cut,
    )


def _without_nulls(line: Any, *, deep: bool = False) -> Any:
    """`line` without the fields that are null: they are absent. `deep`: those of objects within it too."""
    if isinstance(line, dict):
        return {key: _without_nulls(value, deep=deep) if deep else value for key, value in line.items() if value is not None}
    return [_without_nulls(item, deep=True) for item in line] if deep and isinstance(line, list) else line


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as raw:
        magic = raw.read(2)
        raw.seek(0)
        if magic == b"\x1f\x8b":
            with gzip.open(raw, "rb") as unzipped:
                yield from iter(lambda: unzipped.readline(MAX_LINE_BYTES + 1), b"")
        else:
            yield from iter(lambda: raw.readline(MAX_LINE_BYTES + 1), b"")


class Writer:
    """Writes a recording line by line, each handed to the system before the next.

    A run that is killed leaves a file without its end: `read` gives the samples that it has, and says where it breaks off.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self._file = gzip.open(path, "wb")  # noqa: SIM115 - closed by close()
        self._write(msgspec.to_builtins(header))

    def sample(self, sample: Sample) -> None:
        """Append one sample."""
        self._write(msgspec.to_builtins(sample))

    def close(self) -> None:
        """End the file; a recording that was never closed reads as one that breaks off."""
        self._file.close()

    def _write(self, line: object) -> None:
        self._file.write(json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n")
        self._file.flush()


def readings(scope: str, raw: dict[str, Any]) -> tuple[dict[str, int | float], dict[str, str]]:
    """Values and reasons of the metrics of `scope` in one raw dict; what is missing is `not_recorded`."""
    values: dict[str, int | float] = {}
    reasons: dict[str, str] = {}
    for metric in METRICS:
        if metric.scope != scope or metric.kind == "vector":
            continue
        if metric.name not in raw:
            reasons[metric.name] = "not_recorded"
            continue
        value, reason = accept(metric, raw[metric.name])
        if reason is None and value is not None:
            values[metric.name] = value
        else:
            reasons[metric.name] = reason or "unsupported"
    return values, reasons
