"""What a store holds of nodes, counted sample by sample against what they said and what was acked."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl
import pytest

from fleet.store.parquet import ParquetSeries
from fleet.store.series import Series, StoreError
from tests.fleet.faults.nodes import PID, Node, busy, power, temperature
from tests.fleet.store.servers import Program, running, victoria, victoria_program
from tests.serving import Server
from wire.metrics import Scope

ENGINES: Final = ("parquet", pytest.param("victoriametrics", marks=(pytest.mark.slow, pytest.mark.long)))
"""Acks of VictoriaMetrics take a quarter of a minute each: its faults are for the slow tests, but for its own kills."""

Values = dict[tuple[str, int, int], tuple[float | None, ...]]
"""Readings of a row by scope, entity and second."""
READ: Final[dict[Scope, tuple[str, ...]]] = {
    "gpu": ("power_w", "temperature_c"),
    "host": ("cpu_busy_cores",),
    "process": ("gpu_mem_bytes",),
}


@dataclass
class Engine:
    """A store beside a server: what it is told by, and how it is read by a process that is not the server."""

    folder: Path
    program: Program | None = None

    @property
    def env(self) -> dict[str, str]:
        """The server's settings."""
        return {} if self.program is None else {"FETTLE_STORE": "victoriametrics", "FETTLE_STORE_URL": self.program.url}

    @property
    def data(self) -> Path:
        """The server's directory."""
        return self.folder / "data"

    def reader(self) -> Series:
        """The store, read from here."""
        return ParquetSeries(self.data / "series") if self.program is None else victoria(self.program.url, "fettle")


@contextmanager
def engine(kind: str, folder: Path, *flags: str) -> Iterator[Engine]:
    """An empty store of this kind; `flags` are VictoriaMetrics'."""
    if kind == "parquet":
        yield Engine(folder)
    else:
        with running(victoria_program(folder, *flags)) as program:
            yield Engine(folder, program)


class Count:
    """What was said by nodes, and what a store has of it."""

    def __init__(self, server: Server, nodes: Collection[Node], store: Series) -> None:
        self._nodes = list(nodes)
        self._store = store
        self._server = server
        self._gpus = {node.name: node.ids(server) for node in nodes}
        self._ids = {node.name: server.node(node.name)["id"] for node in nodes}

    def expected(self, seqs: dict[Node, set[int]]) -> Values:
        """The values of these samples."""
        told: Values = {}
        for node, some in seqs.items():
            for seq in some:
                second = int(node.times[seq])
                told["host", self._ids[node.name], second] = (busy(node.number, seq),)
                for index, gpu in enumerate(self._gpus[node.name]):
                    told["gpu", gpu, second] = (round(power(node.number, seq, index), 3), temperature(node.number, seq))
                    told["process", gpu, second] = (node.number * 1_000_000 + seq,)
        return told

    def found(self, until: int | None = None) -> Values:
        """All that the store has (before second `until`), each key once or AssertionError."""
        times = [t for node in self._nodes for t in node.times.values()]
        start, end = int(min(times)) - 100, until or int(max(times)) + 100
        held: Values = {}
        for scope, names in READ.items():
            rows = self._store.window(scope, start, end, metrics=names)
            keys = ["entity", "ts", *(["pid"] if scope == "process" else [])]
            assert rows.select(pl.struct(keys).is_unique().all()).item(), f"rows of scope {scope} are there twice"
            if scope == "process":
                assert set(rows["pid"]) <= {PID}
            held |= {
                (scope, entity, ts): tuple(values) for entity, ts, *values in rows.select("entity", "ts", *names).iter_rows()
            }
        return held

    def holds_what_was_acked(self, seconds: float = 20) -> None:
        """Everything that was acked is there with its value, and nothing that nobody said; asked before anything is sent again.

        A server that has just started may take a while to show what it has.
        """
        acked = self.expected({node: set(node.acked) for node in self._nodes})
        said = self.expected({node: set(node.times) for node in self._nodes})
        held = self._once(lambda held: acked.items() <= held.items(), seconds)
        missing = Counter(key[0] for key, value in acked.items() if held.get(key) != value)
        assert not missing, f"acked, and not there: {missing}"
        strange = [key for key, value in held.items() if said.get(key) != value]
        assert not strange, f"{len(strange)} rows that nobody said, such as {strange[0]}"

    def is_exact(self, seconds: float = 20) -> None:
        """The store has what was acked, which is all that was said, and each sample counts once in the coarser series too."""
        for node in self._nodes:
            assert node.acked == set(node.times), node.name
            assert not node.refused, node.refused
        said = self.expected({node: set(node.times) for node in self._nodes})
        held = self._once(lambda held: held == said, seconds)
        assert held == said, _differences(held, said)
        seconds_of: dict[int, list[int]] = defaultdict(list)
        for scope, entity, second in said:
            if scope == "gpu":
                seconds_of[entity].append(second)
        for gpu, told in seconds_of.items():
            series = self._store.series("gpu", gpu, ["power_w"], min(told) // 60 * 60, max(told) + 60, 60, full=True)
            assert series["power_w_n"].sum() == len(told)

    def events_are_exact(self) -> None:
        """Every event that was acked is one row, and every row was said."""
        for node in self._nodes:
            rows = self._server.rows(
                "SELECT seq, text FROM inventory_event WHERE node_id = ? AND boot = ?", self._ids[node.name], node.boot
            )
            assert sorted(row["seq"] for row in rows) == sorted(node.events) == sorted(node.events_acked)
            assert {row["text"] for row in rows} == {f"event {seq} of {node.boot}" for seq in node.events}

    def _once(self, holds: Callable[[Values], bool], seconds: float) -> Values:
        deadline = time.monotonic() + seconds
        while True:
            try:
                held = self.found()
            except StoreError:
                held = {}
            if holds(held) or time.monotonic() > deadline:
                return held
            time.sleep(0.3)


def _differences(held: Values, said: Values) -> str:
    lost = Counter(scope for scope, *_ in said.keys() - held.keys())
    strange = Counter(scope for scope, *_ in held.keys() - said.keys())
    other = Counter(key[0] for key in held.keys() & said.keys() if held[key] != said[key])
    return f"lost {dict(lost)}, nobody's {dict(strange)}, with another value {dict(other)}"
