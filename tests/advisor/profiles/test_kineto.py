"""Traces of torch.profiler: every number of a small one, what is broken in others, and what the reader holds."""

import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from advisor.profiles import activity, stream
from advisor.profiles.profile import read
from advisor.profiles.summary import Device, Profile
from tests.advisor.profiles import traces
from tests.advisor.profiles.traces import SCENE, SCENE_METADATA, called, copied, kernel, operator, write

US = 1e-6
REAL = Path(__file__).parent / "torch-2.13.0-cpu.json.gz"
"""Written by torch 2.13.0+cpu on Python 3.11: three steps of a linear layer fed by a DataLoader, record_shapes=True; `host_name` changed."""


def profile_of(tmp_path: Path, events: list[Any], **metadata: Any) -> Profile:
    """The profile of a trace with these events."""
    return read(write(tmp_path / "trace.json", events, **metadata))


def device_of(tmp_path: Path, events: list[Any]) -> Device:
    """Its only device."""
    (device,) = profile_of(tmp_path, events).devices
    return device


def test_the_parts_of_the_span_are_what_the_definitions_say(tmp_path: Path) -> None:
    """Compute, exposed communication, exposed copies and idle by hand; together they are the span."""
    device = device_of(tmp_path, SCENE)

    assert device.span_s == pytest.approx(250 * US)
    assert device.busy_s == pytest.approx(110 * US)
    assert device.compute_s == pytest.approx(50 * US)
    assert (device.communication_s, device.communication_exposed_s) == pytest.approx((50 * US, 40 * US))
    assert (device.copies_s, device.copies_exposed_s) == pytest.approx((20 * US, 20 * US))
    assert device.idle.total_s == pytest.approx(140 * US)
    assert (device.streams, device.kernels) == (2, 4)
    assert device.kernel_p50_s == pytest.approx(20 * US)


def test_idle_time_is_split_by_what_the_launching_thread_did(tmp_path: Path) -> None:
    """The DataLoader before its own operators, then waits, then operators and calls, up to the launch; the rest is unknown."""
    idle = device_of(tmp_path, SCENE).idle

    assert idle.queued_s == pytest.approx((1 + 5) * US)
    assert idle.loading_s == pytest.approx(60 * US)
    assert idle.waiting_s == pytest.approx(24 * US)
    assert idle.launching_s == pytest.approx((21 + 10) * US)
    assert idle.unknown_s == pytest.approx((9 + 5 + 5) * US)
    assert idle.longest_s == pytest.approx(100 * US)


def test_launch_gaps_and_latencies_are_of_consecutive_kernels_of_a_stream(tmp_path: Path) -> None:
    """One gap had its kernel queued, the other did not; latencies are 8, 19, 11 and 14 us."""
    launches = device_of(tmp_path, SCENE).launches

    assert (launches.gaps, launches.starved, launches.unqueued, launches.uncorrelated) == (2, 1, 1, 0)
    assert launches.gaps_s == pytest.approx(101 * US)
    assert launches.idle_in_starved_s == pytest.approx(100 * US)
    assert launches.latency_p50_s == pytest.approx(12.5 * US)


def test_the_order_of_events_changes_nothing(tmp_path: Path) -> None:
    """Kineto writes threads and streams mixed; shuffled, the result is the same."""
    expected = profile_of(tmp_path, SCENE, **SCENE_METADATA).as_json()
    for seed in range(5):
        events = list(SCENE)
        random.Random(seed).shuffle(events)
        found = profile_of(tmp_path, events, **SCENE_METADATA).as_json()

        assert found["devices"] == expected["devices"]
        assert found["steps"] == expected["steps"]


def test_it_tells_whose_trace_it_is_and_how_long_its_steps_are(tmp_path: Path) -> None:
    """Rank and card from the file; a step that is also told on the GPU counts once."""
    profile = profile_of(tmp_path, SCENE, **SCENE_METADATA)

    assert (profile.source.rank, profile.source.world_size, profile.source.complete) == (3, 8, True)
    assert profile.devices[0].name == "NVIDIA H200"
    assert profile.steps is not None
    assert profile.steps.count == 2
    assert profile.steps.p50_s == pytest.approx(150 * US)
    assert profile.steps.p95_s == pytest.approx(195 * US)


def test_copies_and_matrix_kernels_are_told_with_their_memory_and_format(tmp_path: Path) -> None:
    """A pageable copy to the GPU, and an fp32 product off the tensor cores."""
    device = device_of(tmp_path, SCENE)

    (copy,) = device.copies
    assert (copy.direction, copy.pageable, copy.count, copy.size_bytes) == ("HtoD", True, 1, 4096)
    assert [row.name for row in device.matrix.off] == [traces.GEMM]
    assert device.matrix.off_by_dtype_s == {"fp32": pytest.approx(20 * US)}
    assert device.top[0].name == traces.ALL_REDUCE
    assert device.top[0].share == pytest.approx(0.5)


def test_the_format_of_a_kernel_that_does_not_tell_comes_from_its_operator(tmp_path: Path) -> None:
    """With record_shapes=True the operator that launched it tells its inputs' types."""
    device = device_of(
        tmp_path,
        [
            kernel("my_gemm_simt(int)", 10, 30, 1, **{"External id": 77}),
            kernel("my_gemm_simt(int)", 40, 50, 2, **{"External id": 78}),
            operator("aten::mm", 0, 5, **{"External id": 77, "Input type": ["float", "float"]}),
        ],
    )

    assert device.matrix.off_by_dtype_s == {"fp32": pytest.approx(20 * US), "unknown": pytest.approx(10 * US)}


def test_what_the_trace_does_not_tell_is_absent_with_its_reason(tmp_path: Path) -> None:
    """Kernels alone: no cause of idle time is known, and none is zero."""
    profile = profile_of(
        tmp_path,
        [kernel(traces.GEMM, 10, 20), kernel(traces.ADD, 30, 40), copied("Memcpy HtoD (Host -> Device)", 50, 60, 1, None)],
    )
    (device,) = profile.devices
    idle = device.idle

    assert (idle.queued_s, idle.loading_s, idle.waiting_s, idle.launching_s) == (None, None, None, None)
    assert idle.unknown_s == pytest.approx(20 * US)
    assert (device.launches.starved, device.launches.latency_p50_s, device.launches.uncorrelated) == (None, None, 2)
    assert {"idle.launching_s", "idle.loading_s", "idle.queued_s", "launches.starved"} <= set(device.absent)
    assert (device.copies[0].pageable, device.copies[0].size_bytes) == (None, None)
    assert profile.steps is None
    assert {"steps", "source.rank"} <= set(profile.absent)
    assert {one.rule: one.verdict for one in profile.evidence}["h2d-unpinned-copy"] == "cannot tell"


def test_a_real_trace_of_the_cpu_alone_has_steps_and_no_device() -> None:
    """The true writer's file: no GPU is no idle GPU."""
    profile = read(REAL)

    assert profile.source.events == 416
    assert profile.source.notes == ()
    assert profile.steps is not None
    assert profile.steps.count == 3
    assert profile.devices == ()
    assert "ProfilerActivity.CUDA" in profile.absent["devices"].english()
    assert {one.verdict for one in profile.evidence} == {"cannot tell"}


def test_kernels_of_a_graph_share_one_launch(tmp_path: Path) -> None:
    """Latency is of the first; gaps within a graph are the GPU's own and starve nobody."""
    device = device_of(
        tmp_path,
        [called("cudaGraphLaunch", 0, 5, 9), *(kernel(traces.ADD, 10 + 20 * index, 20 + 20 * index, 9) for index in range(3))],
    )

    assert device.launches.latency_p95_s == pytest.approx(10 * US)
    assert device.launches.unqueued == 0
    assert device.idle.queued_s == pytest.approx(20 * US)


def test_times_that_cannot_be_true_are_left_out_and_counted(tmp_path: Path) -> None:
    """Negative, not finite, longer than a year, text, missing, and CUPTI's zero."""
    broken: list[tuple[str, object]] = [
        ("dur", -1),
        ("dur", float("nan")),
        ("dur", float("inf")),
        ("dur", 1e30),
        ("dur", 10**400),
        ("dur", "5"),
        ("dur", True),
        ("dur", None),
        ("ts", -5.0),
        ("ts", 1e300),
        ("ts", float("-inf")),
        ("ts", 0),
    ]
    events = [{**kernel(traces.ADD, 10, 20), field: value} for field, value in broken]
    profile = profile_of(tmp_path, [*SCENE, *events])

    assert profile.devices == profile_of(tmp_path, SCENE).devices
    assert f"{len(broken)} events have times" in profile.source.notes[0].english()


@pytest.mark.parametrize(
    "strange",
    [
        {"cat": ["kernel"]},
        {"cat": None},
        {"name": None},
        {"name": {"a": 1}},
        {"args": None},
        {"args": [1]},
        {"args": {"device": "x", "stream": -1, "correlation": 2.5, "External id": []}},
        {"args": {"device": 1 << 80, "stream": True, "correlation": 1 << 90}},
        {"pid": None, "tid": [1]},
        {"ph": 7},
    ],
)
def test_members_of_the_wrong_kind_end_nothing(tmp_path: Path, strange: dict[str, Any]) -> None:
    """Whatever one event holds, the others are judged and the result is JSON."""
    for of in range(len(SCENE)):
        events = [*SCENE[:of], {**SCENE[of], **strange}, *SCENE[of + 1 :]]
        profile = profile_of(tmp_path, events, distributedInfo=[1], deviceProperties={"id": []})

        assert sum(device.kernels for device in profile.devices) >= 3
        assert json.dumps(profile.as_json(), allow_nan=False)


def test_a_trace_cut_short_tells_what_came_before(tmp_path: Path) -> None:
    """As of a run that was killed: the events before the cut, and that the file ends early."""
    path = write(tmp_path / "trace.json", [*SCENE, kernel(traces.ADD, 300, 310)], **SCENE_METADATA)
    path.write_bytes(path.read_bytes()[:-40])

    profile = read(path)

    assert not profile.source.complete
    assert "ends in the middle" in profile.source.notes[0].english()
    assert profile.devices[0].kernels == 4


def test_what_is_no_json_behind_the_events_costs_none_of_them(tmp_path: Path) -> None:
    """The trace is whole; who wrote it may be unknown."""
    path = write(tmp_path / "trace.json", SCENE)
    path.write_text(path.read_text().removesuffix("}") + ', "note": say "x", "distributedInfo": {"rank": 1}}' + " " * 10)

    profile = read(path)

    assert profile.source.complete
    assert profile.devices[0].kernels == 4
    assert "whose trace it is may be unknown" in profile.source.notes[0].english()


def test_more_activities_than_are_kept_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones are judged, and the result says that they are not all."""
    monkeypatch.setattr(activity, "MAX_ACTIVITIES", 100)
    profile = profile_of(tmp_path, [kernel(traces.ADD, 20 * index, 20 * index + 10) for index in range(500)])

    assert profile.devices[0].kernels <= 101
    assert not profile.source.complete
    assert "more activities than are kept" in profile.source.notes[0].english()


def test_more_devices_than_can_be_end_nothing(tmp_path: Path) -> None:
    """A trace that makes devices up is read as far as they go."""
    profile = profile_of(tmp_path, [kernel(traces.ADD, index, index + 1, device=index) for index in range(100)])

    assert len(profile.devices) == activity.MAX_GPUS
    assert not profile.source.complete


def test_names_without_end_are_held_to_a_number_and_summed(tmp_path: Path) -> None:
    """20,000 names: the heavy ones are told wherever they come, the rest is one sum, and the total is exact."""
    light = [kernel(f"fused_{index}", index, index + 0.5) for index in range(20_000)]
    light.insert(19_000, kernel(traces.GEMM, 30_000, 31_000))
    light.insert(0, kernel(traces.RELU, 32_000, 32_500))
    device = device_of(tmp_path, light)

    assert [row.name for row in device.top[:2]] == [traces.GEMM, traces.RELU]
    assert device.names_folded
    assert device.kernels == 20_002
    assert device.kernel_total_s == pytest.approx(11_500 * US)
    assert device.other_kernels == 20_002 - len(device.top)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """10,000 kernels with their launches and operators, some 8 MB: the reader keeps 80 bytes of each beside its buffers."""
    events = []
    for index in range(10_000):
        at = index * 30
        events += [
            operator("aten::add_", at, at + 9, **{"External id": index, "Input type": ["float"], "Input Dims": [[64, 128]] * 8}),
            called("cudaLaunchKernel", at + 2, at + 8, index),
            kernel(traces.ADD, at + 12, at + 20, index, grid=[100, 1, 1], block=[128, 1, 1], **{"External id": index}),
            {"ph": "f", "id": index, "pid": 0, "tid": 7, "ts": at + 12.0, "cat": "ac2g", "name": "ac2g", "bp": "e"},
        ]
    path = write(tmp_path / "trace.json", events)
    del events
    size = path.stat().st_size
    tracemalloc.start()

    profile = read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert size > 7_000_000
    assert profile.devices[0].kernels == 10_000
    assert peak < 4 * stream.CHUNK + 250 * 10_000
