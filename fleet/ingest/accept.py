"""What ingest takes: the checks that each frame passes on the event loop, cheap enough for every batch.

Shapes, names and times are judged here; values are judged later, over many batches at once (columns.py).
"""

import math
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import msgspec
from django.core.exceptions import ValidationError

from fleet.accounts.models import node_name
from fleet.ingest.cleaning import clean as clean
from fleet.ingest.outbox import Outbox
from fleet.ingest.skew import Skew
from fleet.ingest.times import check_time
from fleet.ingest.told import check_engine_absences, check_gpu_labels
from fleet.store.kept import Kept
from wire import labels, metrics
from wire.codec import WireError
from wire.messages import (
    DETAILS,
    KERNEL_LOG,
    PODS,
    PROCESSES,
    PROTOCOL_VERSION,
    SEVERITIES,
    Batch,
    Event,
    GpuFacts,
    Hello,
    schema_id,
)
from wire.metrics import Scope

MAX_GPUS: Final = 64
"""Of one node: 16 cards, or 8 cut into 7 instances each."""
MAX_PROCESSES: Final = 1_024
MAX_HOLDS: Final = 4_096
MAX_ENGINES: Final = 64
MAX_NAME: Final = 200
"""Characters of an engine's name."""
MAX_SEQ: Final = 1 << 53

_BOOT = re.compile(r"[A-Za-z0-9._:-]{1,64}", re.ASCII)
_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/-]{0,79}", re.ASCII)
_URL = re.compile(
    r"https?://(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,200})(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~%/+:,;=-]*)?", re.ASCII
)
"""Where an engine is asked. A name is shown to all who may look: credentials and queries, which may hold keys, have no place in it."""
_LABEL = re.compile(r"[A-Za-z0-9_.-]{1,80}", re.ASCII)
_WORD = re.compile(r"[a-z][a-z0-9_]{0,19}", re.ASCII)
_NAMES: Final[dict[Scope, frozenset[str]]] = {
    scope: frozenset(metric.name for metric in metrics.of(scope)) for scope in ("gpu", "host", "process", "engine")
}
_ABSENT: Final = {"gpu": _NAMES["gpu"] | {PROCESSES}, "host": _NAMES["host"] | {PODS, KERNEL_LOG}}
"""What a batch may call absent."""
_SENT: Final[dict[Scope, frozenset[str]]] = {
    scope: frozenset(metric.name for metric in metrics.sent(scope)) for scope in ("gpu", "host", "process", "engine")
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The ordered metrics of one schema."""

    schema: str
    gpu: tuple[str, ...]
    host: tuple[str, ...]
    process: tuple[str, ...]
    engine: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Session:
    """One boot of one node as its hello described it; what its batches are read by."""

    node: int
    node_name: str
    boot: str
    layout: Layout
    gpus: tuple[int, ...]
    gpu_by_uuid: dict[str, int]
    outbox: Outbox
    skew: Skew = field(default_factory=Skew)
    pids: set[int] = field(default_factory=set)  # of processes that its batches named, the newest among them


def check_hello(hello: Hello, node: str) -> Layout:
    """The layout that the hello describes; WireError when it may not be believed or contradicts itself."""
    if hello.node != node:
        raise WireError("wrong_node", f"the token is {node}'s, the hello says {clean(hello.node, 60)!r}")
    try:
        node_name(hello.node)
    except ValidationError as error:
        raise WireError("bad_hello", f"{clean(hello.node, 60)!r} is no node name: {error.message}") from None
    if hello.v != PROTOCOL_VERSION:
        raise WireError("bad_hello", f"the agent speaks version {hello.v}, this server {PROTOCOL_VERSION}")
    if not _BOOT.fullmatch(hello.boot):
        raise WireError("bad_hello", "boot must be 1 to 64 letters, digits, dots, colons, dashes or underscores")
    if not (math.isfinite(hello.interval_s) and 0.01 <= hello.interval_s <= 3600):
        raise WireError("bad_hello", f"interval_s is {hello.interval_s}; 0.01 to 3600 is possible")
    _check_gpus(hello.gpus)
    for scope, names in _scopes(hello):
        unknown = [name for name in names if name not in _SENT[scope]]
        if unknown:
            raise WireError("unknown_metric", f"{scope} {', '.join(clean(name, 40) for name in unknown[:5])}")
        if len(set(names)) != len(names):
            raise WireError("bad_hello", f"a {scope} metric is listed twice")
    layout = _layout(hello.gpu_metrics, hello.host_metrics, hello.process_metrics, hello.engine_metrics)
    if hello.schema != layout.schema:
        raise WireError("bad_hello", f"schema is {clean(hello.schema, 40)!r}, its metrics make {layout.schema!r}")
    return layout


@cache  # the names are the registry's by now, and few orders of them exist
def _layout(gpu: tuple[str, ...], host: tuple[str, ...], process: tuple[str, ...], engine: tuple[str, ...]) -> Layout:
    return Layout(schema_id(gpu, host, process, engine), gpu, host, process, engine)


def _scopes(hello: Hello) -> tuple[tuple[Scope, tuple[str, ...]], ...]:
    return (
        ("gpu", hello.gpu_metrics),
        ("host", hello.host_metrics),
        ("process", hello.process_metrics),
        ("engine", hello.engine_metrics),
    )


def _check_gpus(gpus: tuple[GpuFacts, ...]) -> None:
    if len(gpus) > MAX_GPUS:
        raise WireError("bad_hello", f"{len(gpus)} GPUs; one node has at most {MAX_GPUS}")
    for gpu in gpus:
        if not _UUID.fullmatch(gpu.uuid):
            raise WireError("bad_hello", f"{clean(gpu.uuid, 60)!r} is no GPU's UUID")
        if not 0 <= gpu.index < 32_768:
            raise WireError("bad_hello", f"GPU index {gpu.index}")
    if len({gpu.uuid for gpu in gpus}) != len(gpus) or len({gpu.index for gpu in gpus}) != len(gpus):
        raise WireError("bad_hello", "two GPUs share a UUID or an index")


def check_batch(batch: Batch, session: Session, received: float, kept: Kept | None = None) -> None:
    """None when the batch, whose boot and schema are the session's, fits it; else WireError with the batch's seq.

    `kept` is for how long the store keeps rows; None where its server has not told yet.
    """
    layout, gpus = session.layout, len(session.gpus)
    if len(batch.gpu) != len(layout.gpu):
        raise WireError("wrong_shape", f"{len(batch.gpu)} GPU metrics where the hello lists {len(layout.gpu)}", batch.seq)
    for name, column in zip(layout.gpu, batch.gpu, strict=True):
        if len(column) != gpus and (column or name not in metrics.HELD):
            raise WireError("wrong_shape", f"a column of {len(column)} values for {gpus} GPUs", batch.seq)
    if len(batch.host) != len(layout.host):
        raise WireError("wrong_shape", f"{len(batch.host)} host metrics where the hello lists {len(layout.host)}", batch.seq)
    check_time(batch.t, batch.seq, session.skew, received, kept)
    if batch.processes.pid or batch.processes.holds or batch.processes.values:
        _check_processes(batch, layout, gpus)
    told: set[tuple[int, str]] = set()
    for change in batch.absent:
        names = _ABSENT["host" if change.gpu == -1 else "gpu"]
        is_known = change.metric in names and (change.reason is None or change.reason in metrics.REASONS)
        if not -1 <= change.gpu < gpus or not is_known or (change.gpu, change.metric) in told:
            detail = f"absent: GPU {change.gpu}, {clean(change.metric, 40)!r}: {clean(change.reason or 'back', 40)!r}"
            raise WireError("wrong_shape", detail, batch.seq)
        told.add((change.gpu, change.metric))
    if batch.engines.name or batch.engines.values:
        _check_engines(batch, layout)
    if batch.engines.absent:
        check_engine_absences(batch, batch.engines.name)
    if batch.gpu_labels:
        check_gpu_labels(batch, gpus)
    if batch.processes.labels:
        _check_labels(batch, session.pids)
    if not session.pids.issuperset(batch.processes.pid):
        session.pids.update(batch.processes.pid)
        if len(session.pids) > 4 * MAX_PROCESSES:
            session.pids = set(batch.processes.pid)


def _check_processes(batch: Batch, layout: Layout, gpus: int) -> None:
    processes = batch.processes
    count = len(processes.pid)
    if count > MAX_PROCESSES or len(processes.holds) > MAX_HOLDS:
        detail = f"{count} processes, {len(processes.holds)} holds; at most {MAX_PROCESSES} and {MAX_HOLDS} are taken"
        raise WireError("wrong_shape", detail, batch.seq)
    if len(processes.name) != count or len(processes.user) != count:
        raise WireError("wrong_shape", f"{count} pids, {len(processes.name)} names, {len(processes.user)} users", batch.seq)
    if len(processes.values) != (len(layout.process) if count or processes.values else 0):
        raise WireError(
            "wrong_shape", f"{len(processes.values)} process metrics where the hello lists {len(layout.process)}", batch.seq
        )
    if any(len(column) != count for column in processes.values):
        raise WireError("wrong_shape", f"a process column's length is not {count}", batch.seq)
    if any(not 0 <= pid < 1 << 31 for pid in processes.pid):
        raise WireError("wrong_shape", "a pid is negative or has more than 31 bits", batch.seq)
    if len(set(processes.pid)) != count or len({(hold.gpu, hold.pid) for hold in processes.holds}) != len(processes.holds):
        raise WireError("wrong_shape", "a pid is listed twice, or holds one GPU twice", batch.seq)
    if any(not 0 <= hold.gpu < gpus or not 0 <= hold.pid < 1 << 31 for hold in processes.holds):
        raise WireError("wrong_shape", "a process holds a GPU that the hello does not list", batch.seq)


def _check_engines(batch: Batch, layout: Layout) -> None:
    engines = batch.engines
    count = len(engines.name)
    if count > MAX_ENGINES:
        raise WireError("wrong_shape", f"{count} serving engines; at most {MAX_ENGINES} are taken", batch.seq)
    if not count == len(engines.kind) == len(engines.model) == len(engines.pid):
        lengths = f"{len(engines.kind)} kinds, {len(engines.model)} models, {len(engines.pid)} pids"
        raise WireError("wrong_shape", f"{count} serving engines, {lengths}", batch.seq)
    if len(engines.values) != len(layout.engine) or any(len(column) != count for column in engines.values):
        detail = f"engine values of another shape than {len(layout.engine)} metrics by {count} engines"
        raise WireError("wrong_shape", detail, batch.seq)
    for name, kind, pid in zip(engines.name, engines.kind, engines.pid, strict=True):
        if len(name) > MAX_NAME or not _URL.fullmatch(name):
            detail = f"an engine's name is no http(s) address of {MAX_NAME} characters without credentials and query"
            raise WireError("wrong_shape", detail, batch.seq)
        if kind not in labels.ENGINES:
            raise WireError("wrong_shape", f"{clean(kind, 40)!r} is no kind of engine: {', '.join(labels.ENGINES)}", batch.seq)
        if pid is not None and not 0 <= pid < 1 << 31:
            raise WireError("wrong_shape", "an engine's pid is negative or has more than 31 bits", batch.seq)
    if len(set(engines.name)) != count:
        raise WireError("wrong_shape", "an engine is listed twice", batch.seq)


def _check_labels(batch: Batch, earlier: set[int]) -> None:
    told = [one.pid for one in batch.processes.labels]
    if len(set(told)) != len(told):
        raise WireError("wrong_shape", "labels of one process are told twice", batch.seq)
    if strange := set(told).difference(batch.processes.pid, earlier):
        raise WireError("wrong_shape", f"labels of process {min(strange)}, of which nothing was told", batch.seq)
    for one in batch.processes.labels:
        if len(one.labels) > labels.MAX_LABELS:
            detail = f"{len(one.labels)} labels of process {one.pid}; at most {labels.MAX_LABELS} are taken"
            raise WireError("wrong_shape", detail, batch.seq)
        for name, value in one.labels.items():
            if not (_LABEL.fullmatch(name) and labels.is_label(name)):
                raise WireError("wrong_shape", f"{clean(name, 60)!r} is no label of a process", batch.seq)
            if len(value) > labels.MAX_LABEL:
                detail = f"{len(value)} characters in label {name}; at most {labels.MAX_LABEL} are taken"
                raise WireError("wrong_shape", detail, batch.seq)


def weight(batch: Batch) -> int:
    """Bytes of memory, about, that the batch takes while it waits: a hold of nine bytes on the wire becomes a row."""
    processes, columns, engines = batch.processes, len(batch.processes.values), batch.engines
    cells = len(batch.host) + sum(map(len, batch.gpu)) + columns * (len(processes.pid) + len(processes.holds))
    cells += (len(engines.values) + 10) * len(engines.name) + 10 * sum(len(one.labels) + 1 for one in processes.labels)
    cells += 10 * (sum(len(one.metrics) + 1 for one in engines.absent) + sum(len(one.labels) + 1 for one in batch.gpu_labels))
    return 16 * cells + 100 * (len(processes.pid) + len(processes.holds) + len(batch.absent))


def details(event: Event) -> dict[str, int | str]:
    """What the event says of itself under names that are known, whole numbers and short words alone; the rest is left out."""
    found: dict[str, int | str] = {}
    for name in DETAILS:
        value = event.details.get(name)
        if isinstance(value, str):
            found[name] = clean(value, 60)
        elif isinstance(value, int) and -(1 << 53) <= value <= 1 << 53:
            found[name] = int(value)
    return found


def check_event(event: Event) -> None:
    """None when the event may be stored; else WireError. No time is wrong enough to lose a fault for it."""
    if not _WORD.fullmatch(event.kind):
        raise WireError("malformed", f"kind {clean(event.kind, 40)!r}", event.seq)
    if event.code is not None and not -(1 << 31) <= event.code < 1 << 31:
        raise WireError("malformed", f"code {event.code}", event.seq)
    if event.severity is not None and event.severity not in SEVERITIES:
        raise WireError("malformed", f"severity {clean(event.severity, 40)!r}", event.seq)


class _Tagged(msgspec.Struct):
    type: str | None = None


_tagged_binary = msgspec.msgpack.Decoder(_Tagged)
_tagged_text = msgspec.json.Decoder(_Tagged)


def calls_itself(frame: bytes | str) -> str | None:
    """The type that a frame which does not decode says it has; None where nothing sure can be said."""
    try:
        tagged = _tagged_text.decode(frame) if isinstance(frame, str) else _tagged_binary.decode(frame)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        found = _TYPE.match(frame) if isinstance(frame, str) else None
        return found[1] if found else None
    return tagged.type


_TYPE = re.compile(r'\s*\{\s*"type"\s*:\s*"(\w{1,20})"')
