"""/metrics/gpus: every reading of now, for a Prometheus that shall hold all of it; off unless FETTLE_METRICS_GPUS says so.

Names and labels are those of the series in VictoriaMetrics and of what is forwarded. A reading older than STALE_AFTER is left
out, so a scraper ends its series. The page of a large fleet has hundreds of megabytes: it is made while it is sent.
"""

import asyncio
import threading
import time
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Final

import polars as pl
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Q
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.translation import gettext
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.views import APIView

from fleet.inventory.models import STALE_AFTER, Engine, Gpu, Node
from fleet.store import clock
from fleet.store.labels import Labels
from fleet.store.series import StoreError
from fleet.store.victoria_rows import metric
from wire import metrics
from wire.metrics import Scope

SCOPES: Final[tuple[Scope, ...]] = ("gpu", "host", "engine")
"""Of processes there is nothing: each run would leave new series behind."""
CACHED_S: Final = 1.0
ROWS: Final = 5_000
"""Lines that are made at a time."""
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_TYPES: Final = {"counter": "counter"}


class Newest:
    """The newest rows of each scope, read once for all who ask within CACHED_S."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Scope, tuple[float, pl.DataFrame]] = {}
        self.labels = Labels()

    def rows(self, scope: Scope) -> pl.DataFrame:
        """Rows that are no older than STALE_AFTER; StoreError when the store cannot be read."""
        with self._lock:
            kept = self._kept.get(scope)
            if kept is None or time.monotonic() - kept[0] > CACHED_S:
                frame = clock.latest(scope, int(time.time() - STALE_AFTER.total_seconds()))
                kept = self._kept[scope] = (time.monotonic(), frame)
            return kept[1]

    def forget(self) -> None:
        """Read anew when asked next."""
        self._kept.clear()
        self.labels = Labels()


NEWEST: Final = Newest()


class GpuMetricsView(APIView):
    """The page, for whoever may see /metrics."""

    also_read_by = ("metrics",)
    schema = None  # no part of the REST API

    def get(self, request: Request) -> HttpResponseBase:
        """The readings that scope=, metric= and node= name, each as often as wanted; without them all of the GPUs."""
        if not settings.FETTLE_METRICS_GPUS:
            raise NotFound(gettext("This page is off; set FETTLE_METRICS_GPUS=1 for the web processes that shall have it."))
        wanted = _wanted(request)
        nodes = set(request.query_params.getlist("node"))
        there = {scope: _there(scope, nodes) for scope in wanted}
        try:
            frames = {scope: NEWEST.rows(scope) for scope in wanted}
        except StoreError:
            return HttpResponse("The store cannot be read now; the server's log says why.\n", status=503, content_type=TEXT)
        frames = {scope: frame.filter(pl.col("entity").is_in(there[scope])) for scope, frame in frames.items()}
        labels = {scope: NEWEST.labels(scope, frame["entity"].to_list()) for scope, frame in frames.items()}
        text = (part for scope, names in wanted.items() for part in page(scope, frames[scope], labels[scope], names))
        packed = "gzip" in request.headers.get("Accept-Encoding", "")
        parts = _gzipped(text) if packed else (part.encode() for part in text)
        headers = {"Cache-Control": "no-store", "Vary": "Accept-Encoding"} | ({"Content-Encoding": "gzip"} if packed else {})
        stream: Any = _in_a_thread(parts) if isinstance(request._request, ASGIRequest) else parts
        return StreamingHttpResponse(stream, content_type=TEXT, headers=headers)

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Whatever the Accept: there is one format."""
        return super().perform_content_negotiation(request, force=True)


def page(scope: Scope, frame: pl.DataFrame, labels: Mapping[int, Mapping[str, str]], names: Iterable[str]) -> Iterator[str]:
    """The families of these metrics in Prometheus's text format, in parts; one without a reading is left out."""
    heads = [_head(entity, labels.get(entity, {})) for entity in frame["entity"].to_list()]
    for name in names:
        if name not in frame.columns or frame[name].null_count() == frame.height:
            continue
        about = metrics.BY_KEY[f"{scope}.{name}"]
        family = metric(scope, name)
        yield f"# HELP {family} {about.help}\n# TYPE {family} {_TYPES.get(about.kind, 'gauge')}\n"
        values = frame[name].to_list()
        for start in range(0, len(values), ROWS):
            lines = zip(heads[start : start + ROWS], values[start : start + ROWS], strict=True)
            yield "".join(f"{family}{head} {value}\n" for head, value in lines if value is not None)


def _wanted(request: Request) -> dict[Scope, list[str]]:
    """The metrics asked for, by scope; ValidationError for what there is none of."""
    asked = request.query_params
    if unknown := sorted(set(asked) - {"scope", "metric", "node"}):
        says = gettext("There is no parameter {name}; there are: {known}.")
        raise ValidationError({unknown[0][:40]: says.format(name=unknown[0][:40], known="metric, node, scope")})
    scopes = _words(asked.getlist("scope")) or ["gpu"]
    if wrong := [scope for scope in scopes if scope not in SCOPES]:
        raise ValidationError(
            {"scope": gettext("{name} is none of {known}.").format(name=wrong[0][:40], known=", ".join(SCOPES))}
        )
    known = {scope: [one.name for one in metrics.sent(scope)] for scope in SCOPES if scope in scopes}
    wanted = _words(asked.getlist("metric"))
    if lacking := [name for name in wanted if not any(name in names for names in known.values())]:
        says = gettext("There is no metric {name} of {scopes}; docs/reference/metrics.md lists them.")
        raise ValidationError({"metric": says.format(name=lacking[0][:60], scopes=", ".join(known))})
    return {scope: [name for name in names if not wanted or name in wanted] for scope, names in known.items()}


def _words(given: Iterable[str]) -> list[str]:
    return [word for text in given for word in text.split(",") if word]


def _there(scope: Scope, nodes: set[str]) -> list[int]:
    """The entities that the inventory has, of these nodes if there are any: of a GPU that is gone nothing is told."""
    on = {"host": "name__in", "gpu": "node__name__in", "engine": "node__name__in"}[scope]
    of = Q(**{on: nodes}) if nodes else Q()
    if scope == "host":
        return list(Node.objects.filter(of).values_list("pk", flat=True))
    if scope == "engine":
        return list(Engine.objects.filter(of).values_list("pk", flat=True))
    return list(Gpu.objects.filter(of, present=True).values_list("pk", flat=True))


def _head(entity: int, labels: Mapping[str, str]) -> str:
    told = {"entity": str(entity), **labels}
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in told.items() if value) + "}"


def _gzipped(text: Iterable[str]) -> Iterator[bytes]:
    packer = zlib.compressobj(1, wbits=31)
    for part in text:
        if packed := packer.compress(part.encode()):
            yield packed
    yield packer.flush()


async def _in_a_thread(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The parts, each made away from the event loop."""
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        yield part
