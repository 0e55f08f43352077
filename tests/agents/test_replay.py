"""Every recording as a node: ranges hold, counters never go back, ratios stay the recording's."""

from pathlib import Path

import pytest

from agents.config import ConfigError
from agents.recorded_seconds import steady_span
from agents.replay import PID_STEP, ReplayNode, nodes
from agents.source import GPU, HOST, PROCESS, SCHEMA, Tick
from wire import recording
from wire.codec import MAX_FRAME_BYTES, encode
from wire.messages import Batch, Cell, Hold
from wire.metrics import REASONS, Metric, Scope, accept, sent
from wire.recording import Header, RecordedGpu, RecordedHost, Recording, Sample

RECORDINGS = sorted((Path(__file__).parent.parent.parent / "recordings").glob("*.jsonl.gz"))
SECONDS = 150


def metric(tick: Tick, name: str, gpu: int = 0) -> float:
    """One reading that must be there."""
    value = tick.gpu[GPU.index(name)][gpu]
    assert value is not None
    return value


@pytest.fixture(params=RECORDINGS, ids=lambda path: path.name.split(".")[0])
def played(request: pytest.FixtureRequest) -> Recording:
    """One recording."""
    return recording.read(request.param)


def test_there_are_recordings() -> None:
    """The parametrised tests below would pass without any."""
    assert len(RECORDINGS) >= 18


def test_values_are_possible_and_counters_never_go_back(played: Recording) -> None:
    """Over the start-up and several repeats of the steady part, on a node filled to eight GPUs."""
    node = ReplayNode(played, 8)
    rows: dict[Scope, tuple[Metric, ...]] = {
        "gpu": tuple(sent("gpu")),
        "host": tuple(sent("host")),
        "process": tuple(sent("process")),
    }
    last: dict[tuple[str, int, int], float] = {}
    for second in range(SECONDS):
        tick = node.second(second)
        assert all(len(column) == 8 for column in tick.gpu)
        keyed: list[tuple[Scope, int, int, Cell]] = [
            ("gpu", m, g, column[g]) for m, column in enumerate(tick.gpu) for g in range(8)
        ]
        keyed += [("host", m, 0, value) for m, value in enumerate(tick.host)]
        keyed += [
            ("process", m, pid, column[p])
            for m, column in enumerate(tick.processes.values)
            for p, pid in enumerate(tick.processes.pid)
        ]
        for scope, m, which, value in keyed:
            if value is None:
                continue
            row = rows[scope][m]
            assert accept(row, value) == (value, None), (row.name, value)
            if row.kind == "counter":
                assert value >= last.get((scope, m, which), value), (second, row.name)
                last[scope, m, which] = value
    assert any(scope == "gpu" for scope, _, _ in last)


def test_absent_readings_have_a_reason_and_others_have_none(played: Recording) -> None:
    """Exactly one of value and reason, for each GPU and the host."""
    tick = ReplayNode(played).second(30)

    for g, reasons in enumerate(tick.gpu_reasons):
        assert all((column[g] is None) == (reason is not None) for column, reason in zip(tick.gpu, reasons, strict=True))
        assert {reason for reason in reasons if reason} <= set(REASONS)
    assert all((value is None) == (reason is not None) for value, reason in zip(tick.host, tick.host_reasons, strict=True))


def test_a_node_fits_into_a_frame(played: Recording) -> None:
    """Eight GPUs with their processes are far from the limit."""
    tick = ReplayNode(played, 8).second(40)
    batch = Batch(node="n", boot="b", seq=0, schema=SCHEMA, t=1.8e9, gpu=tick.gpu, host=tick.host, processes=tick.processes)

    assert len(encode(batch)) < MAX_FRAME_BYTES / 16


def test_the_steady_part_repeats_and_the_start_up_does_not(played: Recording) -> None:
    """The GPU is held in every second of the repeats."""
    node = ReplayNode(played)
    start, end = steady_span(played)

    assert end - start >= 5
    assert not node.second(0).processes.pid
    assert all(node.second(second).processes.pid for second in range(int(start) + 2, SECONDS))


def test_copies_keep_the_ratios() -> None:
    """A recording of one GPU on eight: host and counters are eightfold, percentages are the recording's."""
    played = recording.read(next(path for path in RECORDINGS if path.name.startswith("disk_loader")))
    one, eight = ReplayNode(played), ReplayNode(played, 8)
    a, b = one.second(60), eight.second(60)

    assert eight.inventory.host.cores == 8 * (one.inventory.host.cores or 0) == 256
    for name in ("cpu_busy_cores", "disk_read_bytes_total", "mem_used_bytes"):
        assert b.host[HOST.index(name)] == pytest.approx(8 * (a.host[HOST.index(name)] or 0))
    for name in ("cpu_core_max_pct", "cpu_iowait_pct"):
        assert b.host[HOST.index(name)] == a.host[HOST.index(name)]
    assert b.processes.pid == [a.processes.pid[0] + copy * PID_STEP for copy in range(8)]
    assert [hold.gpu for hold in b.processes.holds] == list(range(8))
    assert set(b.processes.name) == {"disk_loader"}
    assert set(b.processes.user) == {"demo"}


def test_a_recording_of_two_gpus_fills_eight_in_pairs() -> None:
    """Each process holds the GPU of its own copy."""
    played = recording.read(next(path for path in RECORDINGS if path.name.startswith("ddp_big")))
    tick = ReplayNode(played, 8).second(60)

    assert [hold.gpu for hold in tick.processes.holds] == list(range(8))
    assert metric(tick, "power_w", 0) == metric(tick, "power_w", 2) != metric(tick, "power_w", 1)


def test_nodes_are_named_and_their_gpus_are_known_again() -> None:
    """The same recording has the same UUIDs in every run, and no two GPUs share one."""
    found = nodes([RECORDINGS[0].parent], gpus=8)
    again = nodes([RECORDINGS[0].parent], gpus=8)
    uuids = [facts.uuid for _, node in found for facts in node.inventory.gpus]

    assert "replay-bf16-train" in [name for name, _ in found]
    assert uuids == [facts.uuid for _, node in again for facts in node.inventory.gpus]
    assert len(set(uuids)) == 8 * len(RECORDINGS)
    assert all(uuid.startswith("GPU-REPLAY-") for uuid in uuids)
    assert found[0][1].inventory.recording == "bf16_train"


def made(samples: list[Sample]) -> Recording:
    """A small recording of one GPU."""
    return Recording(
        name="made",
        header=Header(recording=1, gpus=(RecordedGpu(index=0),), host=RecordedHost(cores=2)),
        samples=tuple(samples),
    )


def test_means_are_averaged_and_the_rest_is_the_last_of_the_second() -> None:
    """Four samples become one tick by the kind of each metric."""
    samples = [
        Sample(
            t=i / 4,
            gpus=(
                {
                    "index": 0,
                    "gr_engine_active": 0.5 + (i % 4) / 10,
                    "power_w": float(i),
                    "clocks_event_reasons": i,
                    "pids": {"7": 1},
                },
            ),
            processes=({"pid": 7, "cpu_pct": 10.0 * (i % 4)},),
            host={"cpu_pct_per_core": [100.0 if i % 2 else 0.0, 0.0]},
        )
        for i in range(41)
    ]
    node = ReplayNode(made(samples))
    tick = node.second(len(node._first) + 2)

    assert metric(tick, "gr_engine_active") == pytest.approx(0.65)
    assert metric(tick, "power_w") == metric(tick, "clocks_event_reasons")
    assert tick.host[HOST.index("cpu_busy_cores")] == pytest.approx(0.5)
    assert tick.host[HOST.index("cpu_core_max_pct")] == pytest.approx(50)
    assert tick.processes.values[PROCESS.index("cpu_pct")] == [pytest.approx(15)]
    assert tick.processes.holds == [Hold(0, 7, 1)]


def test_a_recording_with_nothing_running_is_played_all_the_same() -> None:
    """No GPU held, one sample, impossible values: absence, not an error."""
    node = ReplayNode(made([Sample(t=0.0, gpus=({"index": 0, "power_w": "N/A", "gpu_util_pct": 4294967295},), host={})]))
    tick = node.second(1000)

    assert tick.gpu_reasons[0][GPU.index("power_w")] == "not_a_number"
    assert tick.gpu_reasons[0][GPU.index("gpu_util_pct")] == "blank"
    assert tick.processes.pid == []


def test_a_path_without_recordings_is_a_clear_error(tmp_path: Path) -> None:
    """The message names the path or the file."""
    with pytest.raises(ConfigError, match="no recording"):
        nodes([tmp_path])
    bad = tmp_path / "x.jsonl"
    bad.write_text("nonsense\n")
    with pytest.raises(ConfigError, match="line 1"):
        nodes([bad])


def test_a_second_playing_is_another_run() -> None:
    """The same program started again has other pids, and none of them meets another copy's."""
    path = next(path for path in RECORDINGS if path.name.startswith("bf16_train"))
    (_, first), (_, second) = nodes([path], 8, run=1)[0], nodes([path], 8, run=2)[0]
    a, b = first.second(40).processes, second.second(40).processes

    assert len(set(a.pid) | set(b.pid)) == 16
    assert a.values == b.values


@pytest.mark.parametrize(("name", "end"), [("loader_ok", 29.25), ("vit_compiled", 43.25), ("ckpt_stall", 24.5)])
def test_the_repeats_leave_out_how_the_process_winds_down(name: str, end: float) -> None:
    """Five idle seconds before loader_ok's exit are no part of its steady state; ckpt_stall's last save is."""
    played = recording.read(next(path for path in RECORDINGS if path.name.startswith(name)))

    assert steady_span(played)[1] == end
