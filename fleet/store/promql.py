"""Prometheus' query API, which VictoriaMetrics, Thanos and Mimir have too: matrices to frames."""

from collections.abc import Iterable
from typing import Final

import msgspec
import polars as pl

from fleet.store.endpoint import Endpoint
from fleet.store.series import StoreError

POINTS: Final = 10_000
"""Of one series in one answer; Prometheus gives no more than 11,000."""


class Result(msgspec.Struct):
    """One series of an answer: an instant vector has `value`, a matrix `values`, each as (second, number in text)."""

    metric: dict[str, str]
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    result: list[Result]


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""


_decoder: Final = msgspec.json.Decoder(_Answer)


def answer(endpoint: Endpoint, body: bytes) -> list[Result]:
    """The series of an answer; StoreError when it is an error or none of the query API."""
    try:
        told = _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise StoreError(f"{endpoint.name} gives an answer that is none of Prometheus' query API: {error}.") from error
    if told.status != "success" or told.data is None:
        raise StoreError(f"{endpoint.name} cannot answer a query: {told.error[:300] or told.status}.")
    return told.data.result


def instant(endpoint: Endpoint, query: str, at: float) -> list[Result]:
    """What a query gives at one time, without what a cache might hold back."""
    return answer(endpoint, endpoint.ask("/api/v1/query", {"query": query, "time": f"{at:.3f}", "nocache": "1"}))


def over(endpoint: Endpoint, query: str, start: float, end: float, step_s: int) -> list[Result]:
    """What a query gives at start, start + step_s, … up to and with end; in several requests where the points are many."""
    found: list[Result] = []
    while start <= end:
        until = min(end, start + (POINTS - 1) * step_s)
        form = {"query": query, "start": f"{start:.3f}", "end": f"{until:.3f}", "step": f"{step_s}", "nocache": "1"}
        found += answer(endpoint, endpoint.ask("/api/v1/query_range", form))
        start += POINTS * step_s
    return found


def points(results: Iterable[Result]) -> pl.DataFrame:
    """`at` (ms) and `value` of all the points of a matrix."""
    pairs = [(round(at * 1000), float(text)) for one in results for at, text in one.values]
    return pl.DataFrame(pairs, schema={"at": pl.Int64, "value": pl.Float64}, orient="row")


def joined(*matchers: str) -> str:
    """Lists of matchers as one, empty ones left out."""
    return ",".join(one.strip().rstrip(",") for one in matchers if one.strip())


def quoted(text: str) -> str:
    """A string as PromQL writes it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
