"""A JSON trace read piece by piece: the events of a file that is larger than memory, plain or gzipped.

`json.loads` makes three bytes of objects for each byte of a trace, beside its text; here one event lives at a time. The standard library's C scanner
(`raw_decode`) does the work on a sliding buffer of at most CHUNK + LARGEST characters. A file that breaks off gives what it has.
"""

import codecs
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

CHUNK: Final = 1 << 20
LARGEST: Final = 4 << 20
"""Characters of one event or member; Kineto writes some hundred, with shapes and stacks a few thousand."""
KEPT: Final = frozenset(("deviceProperties", "distributedInfo"))
"""Members of a trace beside its events that are of use."""
MAX_BYTES: Final = 8 << 30
"""Unpacked; a gzip file of a few MB can unpack to more than any disk holds."""


CUT: Final = "ends in the middle"
DAMAGED: Final = "is damaged from some point on"
TOO_LARGE: Final = f"has more than {MAX_BYTES >> 30} GiB, of which the rest was not read"
UNREADABLE_END: Final = "breaks off behind its events"


class ProfileError(Exception):
    """The file is no profile that can be read; the message says why and what to do."""


class _NoValueError(Exception):
    """Where a value should begin, none does."""


class Trace:
    """The events of one trace. `metadata` holds those of the file's other members that are in KEPT; complete once `events` is used up.

    `ended_early` then is CUT, DAMAGED, TOO_LARGE or UNREADABLE_END, None for a file that was read to its end; `broken` counts the places
    that are not JSON and were passed over. `read_bytes` is what was unpacked.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}
        self.ended_early: str | None = None
        self.broken = 0
        self.read_bytes = 0
        self._text, self._at, self._end = "", 0, False
        self._found = self._closed = False
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._decoder = json.JSONDecoder(strict=False)

    def events(self) -> Iterator[dict[str, Any]]:
        """Every object of `traceEvents`, in the file's order; of a file that is one list, its objects."""
        try:
            with _opened(self.path) as self._file:
                yield from self._document()
        except OSError as error:
            raise ProfileError(f"{self.path} cannot be read: {error.strerror or error}.") from None

    def _document(self) -> Iterator[dict[str, Any]]:
        first = self._peek()
        if not first:
            raise ProfileError(f"{self.path} is empty." if not self.ended_early else f"{self.path} {self.ended_early}.")
        if first == "[":
            self._at += 1
            yield from self._list()
            return
        if first != "{":
            raise ProfileError(f"{self.path} is not JSON: it begins with {self._text[self._at : self._at + 20]!r}.")
        self._at += 1
        while True:
            try:
                yield from self._members()
                break
            except _NoValueError:
                self.broken += not self._end
                where = self._text[self._at : self._at + 20]
                if not self._found and self._seek():
                    yield from self._list()
                    continue
                self.ended_early = UNREADABLE_END if self._closed else self.ended_early or CUT
                if not self._found:
                    why = f"at {where!r} there is no value" if where else f"it {self.ended_early} before any event"
                    raise ProfileError(f"{self.path} is not JSON: {why}.") from None
                break
        if not self._found:
            raise ProfileError(f"{self.path} has no list named traceEvents: it is JSON, but no trace of torch.profiler.")

    def _members(self) -> Iterator[dict[str, Any]]:
        """The events, while the file's members pass by up to the closing brace; of the others those in KEPT stay."""
        while (sign := self._peek()) != "}":
            if sign == ",":
                self._at += 1
                continue
            name = self._value()
            if not isinstance(name, str) or self._peek() != ":":
                raise _NoValueError
            self._at += 1
            if name == "traceEvents" and self._peek() == "[":
                self._found = True
                self._at += 1
                yield from self._list()
                continue
            value = self._value()
            if name in KEPT:
                self.metadata[name] = value

    def _seek(self) -> bool:
        """Goes to the first event behind a member that is no JSON, or larger than LARGEST; False where the file ends before."""
        while not (found := _EVENTS.search(self._text, self._at)):
            self._at = max(self._at, len(self._text) - 200)
            if not self._more():
                return False
        self._at, self._found = found.end(), True
        return True

    def _list(self) -> Iterator[dict[str, Any]]:
        """The objects up to the closing bracket; what is no JSON is passed over up to where the next event begins."""
        while (sign := self._peek()) and sign != "]":
            if sign == ",":
                self._at += 1
                continue
            if sign == "{" and (event := self._object()) is not None:
                yield event
            elif not self._pass_over():
                break
        if sign == "]":
            self._at += 1
            self._closed = True
        elif not self.ended_early:
            self.ended_early = CUT

    def _object(self) -> dict[str, Any] | None:
        """The object that begins here; None where it is not JSON, or larger than LARGEST."""
        mended = False
        while True:
            try:
                event, self._at = self._decoder.raw_decode(self._text, self._at)
                return event  # type: ignore[no-any-return]  # it begins with a brace
            except (RecursionError, ValueError) as error:
                if not isinstance(error, json.JSONDecodeError):  # nested too deep, or a number of thousands of digits
                    return None
                if not mended and _NOT_NUMBERS.match(self._text, error.pos):
                    # C's printf writes inf and nan, which Python's scanner knows as NaN
                    self._text = self._text[: self._at] + _AS_PRINTED.sub(r"\1NaN", self._text[self._at :])
                    mended = True
                elif len(self._text) - self._at >= LARGEST or not self._more():
                    return None

    def _pass_over(self) -> bool:
        """Goes to where the next event seems to begin; False where the file ends before."""
        self._at += 1
        while True:
            if found := _EVENT.search(self._text, self._at):
                self._at = found.start()
                self.broken += 1
                return True
            self._at = max(self._at, len(self._text) - 200)
            if not self._more():
                self.ended_early = self.ended_early or CUT
                self._at = len(self._text)
                return False

    def _value(self) -> Any:
        """The value that begins here; _NoValueError where there is none: the file ends, or it is larger than LARGEST."""
        self._peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError):
                if len(self._text) - self._at >= LARGEST or not self._more():
                    raise _NoValueError from None
                continue
            if end < len(self._text) or not self._more():  # a number at the end of the buffer may go on
                self._at = end
                return value

    def _peek(self) -> str:
        """The next character that is no white space, which is not passed; "" at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # matches nothing too
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _more(self) -> bool:
        """Whether another chunk came."""
        while not self._end:
            try:
                data = self._file.read1(CHUNK)  # read() would lose what came before the place where a gzip file breaks off
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                self._end, data = True, b""
                self.ended_early = CUT if isinstance(error, EOFError) else DAMAGED
            self.read_bytes += len(data)
            if self.read_bytes > MAX_BYTES:
                self._end, self.ended_early = True, TOO_LARGE
            self._end |= not data
            text = self._utf8.decode(data, final=self._end)
            if text:
                self._text, self._at = self._text[self._at :] + text, 0
                return True
        return False


_SPACE: Final = re.compile(r"[ \t\r\n]*")
_EVENT: Final = re.compile(r'\{\s*"(?:ph|cat|name|pid|tid|ts|dur|id|args)"\s*:')
_EVENTS: Final = re.compile(r'"traceEvents"\s*:\s*\[')
_NOT_NUMBERS: Final = re.compile(r"[-+]?(?:inf|nan)\b")
_AS_PRINTED: Final = re.compile(r"([:\[,]\s*)[-+]?(?:inf|nan)(?=\s*[,}\]])")


def _opened(path: Path) -> io.BufferedReader | gzip.GzipFile:
    """The file unpacked where its first bytes say gzip, whatever its name says."""
    file = path.open("rb")
    try:
        magic = file.read(2)
        file.seek(0)
    except OSError:
        file.close()
        raise
    if magic != b"\x1f\x8b":
        return file
    return _Unpacked(file)


class _Unpacked(gzip.GzipFile):
    """A gzip file that closes what it reads from."""

    def __init__(self, file: io.BufferedReader) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._packed = file

    def close(self) -> None:
        super().close()
        self._packed.close()
