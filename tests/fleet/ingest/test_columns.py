"""Whatever passes the checks becomes columns: no batch, however odd, can stop the writer."""

import time

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.ingest.accept import Layout, Session, check_batch, check_hello, clean
from fleet.ingest.columns import Accepted, gather
from fleet.ingest.outbox import Outbox
from fleet.ingest.window import Ring
from fleet.store.memory import MemorySeries
from tests.speaking import GPU, PROCESS, batch, hello
from wire import metrics
from wire.codec import WireError, decode_from_agent, encode
from wire.messages import AbsentChange, Batch, Cell, Engines, Hold, Labels, Processes, schema_id

NOW = 1_750_000_000.0
SHORT = ("power_w", "clocks_event_reasons", "sm_active")
CELL = st.one_of(
    st.none(),
    st.floats(),
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.sampled_from([0, 1, 0.5, 40, 2**32, float(0x7FFFFFF0), float("nan")]),
)
NAMES = st.text(max_size=8)
ENGINE = ("requests_running", "kv_cache_used")
SCHEMA = schema_id(SHORT, ("cpu_busy_cores",), PROCESS, ENGINE)


def session_of(layout: Layout, gpus: tuple[int, ...] = (11, 12)) -> Session:
    """A session without a connection."""
    return Session(node=1, node_name="n", boot="boot-1", layout=layout, gpus=gpus, gpu_by_uuid={}, outbox=object.__new__(Outbox))


def ring_of(gpus: tuple[int, ...] = (11, 12)) -> Ring:
    """A ring that knows the session's GPUs."""
    ring = Ring()
    ring.enrol(1, gpus)
    return ring


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Batches of a small layout: mostly of the right shape, with any value in any cell."""
    said = hello("n", gpu_metrics=SHORT, host_metrics=("cpu_busy_cores",), engine_metrics=ENGINE, schema=SCHEMA)
    right = draw(st.integers(0, 4)) > 0
    width = 2 if right else draw(st.integers(0, 3))
    pids = draw(st.lists(st.integers(0, 5), max_size=3))
    urls = draw(st.lists(st.sampled_from(["http://h:1", "http://h:2"]), max_size=2))
    return Batch(
        node="n",
        boot="boot-1",
        seq=draw(st.integers(0, 100)),
        schema=said.schema,
        t=draw(st.sampled_from([NOW, NOW - 1, NOW + 0.999, NOW - 1e8, 1_577_836_800.0])),
        gpu=[
            draw(st.lists(CELL, min_size=width, max_size=width)) for _ in range(len(SHORT) if right else draw(st.integers(0, 4)))
        ],
        host=draw(st.lists(CELL, min_size=1, max_size=1 if right else 2)),
        processes=Processes(
            pid=pids,
            name=[draw(NAMES) for _ in pids],
            user=[draw(NAMES) for _ in pids],
            values=[[draw(CELL) for _ in pids] for _ in PROCESS],
            holds=[
                Hold(
                    draw(st.integers(-1, 2)),
                    draw(st.integers(-1, 9)),
                    draw(st.one_of(st.none(), st.integers(-(1 << 63), 1 << 63))),
                )
                for _ in range(draw(st.integers(0, 3)))
            ],
            labels=[Labels(draw(st.integers(0, 5)), {"torch": draw(NAMES)}) for _ in range(draw(st.integers(0, 1)))],
        ),
        engines=Engines(
            name=urls,
            kind=["vllm"] * len(urls),
            model=[draw(NAMES) for _ in urls],
            pid=[draw(st.one_of(st.none(), st.integers(-1, 9))) for _ in urls],
            values=[[draw(CELL) for _ in urls] for _ in ENGINE] if urls else [],
        ),
        absent=[AbsentChange(draw(st.integers(-2, 3)), draw(st.sampled_from(["power_w", "cpu_busy_cores", "x"])), draw(NAMES))]
        if draw(st.booleans())
        else [],
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(batches(), min_size=1, max_size=5))
def test_what_passes_the_checks_becomes_columns_that_the_store_takes(given_batches: list[Batch]) -> None:
    """Through the codec, the checks and the gate into a store: either a WireError at the check, or rows in range."""
    said = hello("n", gpu_metrics=SHORT, host_metrics=("cpu_busy_cores",), engine_metrics=ENGINE, schema=SCHEMA)
    session = session_of(check_hello(said, "n"))
    taken = []
    for one in given_batches:
        decoded = decode_from_agent(encode(one))
        assert isinstance(decoded, Batch)
        try:
            check_batch(decoded, session, NOW)
        except WireError:
            continue
        taken.append(Accepted(session, decoded, NOW, 100))
    chunk = gather(taken, ring_of())
    store = MemorySeries()
    for scope, frames in chunk.frames.items():
        for frame in frames:
            store.write(scope, frame)
    kv_cache = pl.concat([pl.Series("kv_cache_used", [], pl.Float64), *[frame["kv_cache_used"] for frame in chunk.engines]])

    assert len(kv_cache) == sum(len(one.batch.engines.name) for one in taken)
    assert kv_cache.drop_nulls().is_between(0, 1).all()
    power = pl.concat([pl.Series("power_w", [], pl.Float64), *[frame["power_w"] for frame in chunk.frames["gpu"]]])
    assert len(power) == 2 * len(taken)
    assert power.drop_nulls().is_between(0, 3000).all()
    assert not power.is_nan().any()


def test_nodes_of_different_metrics_share_a_flush() -> None:
    """Old and new agents mix: each one's columns keep their names, what a layout lacks is null."""
    long, short = hello("n"), hello("n", gpu_metrics=SHORT, host_metrics=(), process_metrics=(), schema=schema_id(SHORT, (), ()))
    values: dict[str, Cell] = {"power_w": 300.0, "temperature_c": 50.0}
    taken = [
        Accepted(session_of(check_hello(said, "n"), gpus), batch(said, 0, NOW, values), NOW, 100)
        for said, gpus in ((long, (11, 12)), (short, (13, 14)))
    ]
    ring = ring_of((11, 12, 13, 14))
    frames = gather(taken, ring).frames["gpu"]
    merged = pl.concat(frames, how="diagonal").sort("entity")

    assert merged["power_w"].to_list() == [300.0] * 4
    assert merged["temperature_c"].to_list() == [50.0, 50.0, None, None]
    assert np.isnan(ring.gpu.values[ring.gpu.slots[13], ring.gpu.column["temperature_c"]])


def test_a_second_of_a_large_fleet_is_gathered_at_once() -> None:
    """1,250 nodes in one call: every row is there, under its own GPU."""
    said = hello("n", gpus=8)
    layout = check_hello(said, "n")
    ring = Ring()
    taken = []
    for node in range(1250):
        gpus = tuple(range(node * 8, node * 8 + 8))
        ring.enrol(node, gpus)
        session = session_of(layout, gpus)
        session.node = node
        taken.append(Accepted(session, batch(said, 0, NOW, {"power_w": float(node)}), time.time(), 1500))
    (frame,) = gather(taken, ring).frames["gpu"]

    assert frame.height == 10_000
    assert frame.width == 2 + len(GPU)
    assert frame["power_w"].to_list()[::8] == [float(node) for node in range(1250)]


def test_names_lose_what_would_turn_or_hide_the_text_around_them() -> None:
    """Controls, direction marks, joiners and lone surrogates go; other scripts stay."""
    assert clean("a\u202eb\u2066c\u200bd\x1be\x9bf\ud800g 显卡", 40) == "abcdefg 显卡"


def test_columns_that_were_not_read_hold_what_was_told_last() -> None:
    """Empty ones of slow metrics alone: the ring keeps their values, the store has nothing new of them, whatever the order of arrival."""
    said = hello("n")
    layout = check_hello(said, "n")
    session, ring = session_of(layout), ring_of()
    slow = {name for name in said.gpu_metrics if name in metrics.HELD}
    full = batch(said, 0, NOW, {"power_limit_w": 700.0, "power_w": 100.0})
    thin = batch(said, 1, NOW + 1, {"power_w": 200.0})
    columns = [[] if name in slow else column for name, column in zip(said.gpu_metrics, thin.gpu, strict=True)]
    thin = msgspec.structs.replace(thin, gpu=columns)
    for one in (full, thin):
        check_batch(one, session, NOW + 1)
    chunk = gather([Accepted(session, one, NOW + 1, 1) for one in (thin, full)], ring)
    rows = pl.concat(chunk.frames["gpu"], how="diagonal").sort("entity", "ts")

    assert slow
    assert rows["power_w"].to_list() == [100.0, 200.0] * 2
    assert rows["power_limit_w"].to_list() == [700.0, None] * 2
    newest = ring.gpu.values[[ring.gpu.slots[11], ring.gpu.slots[12]]]
    assert newest[:, ring.gpu.column["power_limit_w"]].tolist() == [700.0, 700.0]
    assert newest[:, ring.gpu.column["power_w"]].tolist() == [200.0, 200.0]


def test_a_fast_metric_must_have_its_values() -> None:
    """An empty column of it is a batch of the wrong shape."""
    said = hello("n")
    session = session_of(check_hello(said, "n"))
    one = batch(said, 0, NOW)
    columns = [[] if name == "power_w" else column for name, column in zip(said.gpu_metrics, one.gpu, strict=True)]

    with pytest.raises(WireError, match="a column of 0 values"):
        check_batch(msgspec.structs.replace(one, gpu=columns), session, NOW)
