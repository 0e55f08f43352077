"""Fleet windows: free GPUs, gaps, several jobs on a node, looped recordings, programs that begin or end within."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from advisor.diagnosis import diagnose
from advisor.engine import evaluate
from advisor.features import Frames, features
from advisor.frames import Window, from_recording
from advisor.rule import load
from advisor.samples import Span, facts_of, judged
from tests.advisor.invented import CASES, TRAINING, gpu
from tests.advisor.programs import Process, Program, record
from wire import recording

RECORDINGS = Path(__file__).resolve().parent.parent.parent / "recordings"


def running(name: str) -> Window:
    """The steady part of a recording at 1 Hz, as the store would hold it."""
    whole = from_recording(recording.read(RECORDINGS / f"{name}.jsonl.gz"))
    times = judged(whole, facts_of(whole), Span(from_start=True)).samples.get_column("t")
    inside = pl.col("t").is_between(times.min(), times.max())
    second = (pl.col("t") - times.min()).floor()

    def thinned(frame: pl.DataFrame, *keys: str) -> pl.DataFrame:
        return (
            frame.filter(inside)
            .with_columns(t=second)
            .group_by(*keys, "t", maintain_order=True)
            .agg(pl.all().last())
            .sort(*keys, "t")
        )

    return Window(thinned(whole.gpu, "gpu"), thinned(whole.host, "node"), thinned(whole.process, "gpu", "pid"), whole.facts)


def looped(name: str, seconds: int) -> Window:
    """A recording's steady part played over and over: gauges fall back at each loop, counters too."""
    part = running(name)

    def again(frame: pl.DataFrame) -> pl.DataFrame:
        length = int(max(frame.get_column("t").to_list())) + 1
        copies = [frame.with_columns(pl.col("t") + k * length) for k in range(seconds // length + 1)]
        return pl.concat(copies).filter(pl.col("t") < seconds)

    return Window(again(part.gpu), again(part.host), again(part.process), part.facts)


def labels(frames: Frames) -> dict[str, str | None]:
    """The label of each target."""
    return {f"{one.scope} {one.target}": one.bottleneck for one in diagnose(frames)}


def fleet_of(*programs: Program) -> Window:
    """Several programs at 1 Hz on one node, each a job of its own, caught in the middle of their work."""
    parts = [from_recording(record(program, hz=1.0)) for program in programs]
    frames: dict[str, list[pl.DataFrame]] = {"gpu": [], "process": [], "facts": []}
    for number, part in enumerate(parts):
        for name in frames:
            frame: pl.DataFrame = getattr(part, name)
            frame = frame.with_columns(pl.col("gpu") + 10 * number)
            if name == "facts":
                frame = frame.with_columns(job=pl.lit(f"job {number}"))
            if name == "process":
                frame = frame.with_columns(pl.col("pid") + 1000 * number)
            frames[name].append(frame if name == "facts" else frame.filter(pl.col("t") > 8))
    joined = {name: pl.concat(rows) for name, rows in frames.items()}
    host = pl.concat([part.host for part in parts]).group_by("node", "t", maintain_order=True).agg(pl.all().max())
    return Window(joined["gpu"], host.filter(pl.col("t") > 8), joined["process"], joined["facts"])


def test_a_free_gpu_is_idle_without_a_finding() -> None:
    """Nothing runs and nothing is held: that is what the scheduler is for."""
    frames = features(fleet_of(Program([gpu(0.0001, 0.0, mem_used_bytes=0.65e9)], processes=())))

    assert labels(frames)["gpu 0"] == "idle"
    assert evaluate(load(), frames).findings == []


def test_jobs_on_one_node_are_judged_apart() -> None:
    """A starved job beside a healthy and an idle one: each has its own label."""
    frames = features(
        fleet_of(CASES["workers at full CPU"].program, Program([TRAINING]), CASES["weights loaded, no request"].program)
    )
    found = labels(frames)

    assert (found["job job 0"], found["job job 1"], found["job job 2"]) == ("data", "compute", "idle")


def test_a_launch_bound_job_is_not_blamed_for_its_neighbours_reads() -> None:
    """What the host reads is evidence only where one job uses the node."""
    eager = CASES["eager inference of a small model"].program
    reader = CASES["main thread reads small files from a slow disk"].program

    found = labels(features(fleet_of(eager, reader)))

    assert found["job job 0"] == "launch"


@pytest.mark.parametrize(("kept", "evaluated"), [(0.95, True), (0.5, False)])
def test_a_window_with_gaps_is_not_judged(kept: float, evaluated: bool) -> None:
    """Below four fifths of the expected samples nothing is concluded, and the rules say so."""
    window = looped("bf16_train", 120)
    window = Window(window.gpu.sample(fraction=kept, seed=1).sort("gpu", "t"), window.host, window.process, window.facts)
    frames = features(window)

    assert (labels(frames)["gpu 0"] is not None) is evaluated
    assert any(gap.missing == ("samples",) for gap in evaluate(load(), frames).not_evaluated) is not evaluated


def test_a_window_with_a_hole_in_the_middle_is_not_judged() -> None:
    """A node that was away for half of the window is unknown, not idle."""
    window = looped("bf16_train", 120)
    hole = pl.col("t").is_between(30, 90)
    frames = features(Window(window.gpu.filter(~hole), window.host.filter(~hole), window.process.filter(~hole), window.facts))

    assert labels(frames)["gpu 0"] is None


def test_a_short_window_is_not_judged() -> None:
    """Twenty samples at least."""
    window = looped("bf16_train", 120)
    early = pl.col("t") < 15
    frames = features(Window(window.gpu.filter(early), window.host.filter(early), window.process.filter(early), window.facts))

    assert labels(frames)["gpu 0"] is None


@pytest.mark.parametrize(
    ("name", "label", "rule"),
    [
        ("loader_starved", "data", "dataloader-too-few-workers"),
        ("disk_loader", "data", "storage-throughput-bound"),
        ("launch_bound", "launch", "launch-bound-small-kernels"),
        ("h2d_pageable", "copy", "h2d-unpinned-copy"),
        ("ckpt_stall", "checkpoint", "checkpoint-stall"),
        ("ddp_comm_bound", "communication", "comm-not-overlapped"),
        ("noisy_neighbour", "contention", "gpu-co-tenant-contention"),
        ("decode_b1", "memory_bandwidth", "serving-underbatched"),
        ("fp32_train", "compute", "fp32-without-tensor-cores"),
        ("launch_graphed", "underfilled", "batch-underfills-gpu"),
        ("idle_context", "idle", "gpu-memory-held-idle"),
        ("leak", "idle", "gpu-memory-leak"),
    ],
)
def test_a_looped_recording_is_judged_as_the_recording(name: str, label: str, rule: str) -> None:
    """Five minutes of a recording's steady part at 1 Hz, gauges falling back at each loop."""
    frames = features(looped(name, 300), patience_s=30)
    found = evaluate(load(), frames).findings

    assert next(one.bottleneck for one in diagnose(frames) if one.scope == "job") == label
    assert rule in [finding.rule for finding in found]


def test_a_leak_in_a_loop_grows_by_one_rise_not_by_their_sum() -> None:
    """Memory that falls back at each repeat never grew by more than it really did, and is not about to be full."""
    window = looped("leak", 60)
    used = window.gpu.get_column("mem_used_bytes").drop_nulls().to_list()
    frames = features(window, patience_s=20)
    row = frames.job.row(0, named=True)
    (leak,) = [one for one in evaluate(load(), frames).findings if one.rule == "gpu-memory-leak"]

    assert 0.15 * row["mem_total_bytes"] < row["mem_growth_bytes"] <= max(used) - min(used)
    assert row["mem_growth_share"] <= row["mem_used_share_max"]
    assert row["mem_growth_bytes_per_s"] == pytest.approx(2.8e9, rel=0.1)
    assert row["seconds_to_full"] is None
    assert "then fell back or stood still" in leak.summary.english()
    assert leak.recoverable == 0


def test_the_time_to_a_full_card_counts_from_what_is_in_use_now() -> None:
    """A rise that goes on: what is free divided by its pace; none once it has ended."""
    window = running("leak")
    last = float(window.gpu.get_column("mem_used_bytes")[-1])
    total = float(window.facts.get_column("mem_total_bytes")[0])

    def leaks(frame: pl.DataFrame) -> dict[str, float | None]:
        part = Window(frame, window.host, window.process, window.facts)
        return features(part, min_samples=2).job.row(0, named=True)

    going_on = leaks(window.gpu)
    ended = leaks(window.gpu.with_columns(mem_used_bytes=pl.col("mem_used_bytes").clip(None, 0.8 * last)))

    assert going_on["seconds_to_full"] == pytest.approx((total - last) / 2.75e9, rel=0.1)
    assert ended["seconds_to_full"] is None


def test_breathing_memory_is_no_leak() -> None:
    """Activations that come and go with each step of four seconds."""
    window = looped("bf16_train", 60)
    breath = 40e9 + (pl.col("t") % 4) * 5e9
    breathing = Window(window.gpu.with_columns(mem_used_bytes=breath), window.host, window.process, window.facts)

    assert "gpu-memory-leak" not in [one.rule for one in evaluate(load(), features(breathing)).findings]


@pytest.mark.parametrize("name", ["bf16_train", "ddp_big", "loader_ok", "vit_compiled", "train_eval_phases"])
def test_a_healthy_recording_in_a_loop_stays_healthy(name: str) -> None:
    """No warning in the fleet either."""
    found = evaluate(load(), features(looped(name, 300), patience_s=30)).findings

    assert [finding.rule for finding in found if finding.severity in ("warn", "critical")] == []


def test_a_program_that_begins_within_the_window_gets_its_patience() -> None:
    """Imports and warm-up are not judged; what follows is."""
    window = from_recording(record(Program([TRAINING]), seconds=90, hz=1.0, startup=30))
    frames = features(window, patience_s=20)

    assert labels(frames)["gpu 0"] == "compute"
    assert frames.gpu.get_column("from_t").to_list() == [51.0]


def test_a_program_that_began_a_moment_ago_is_not_judged_yet() -> None:
    """With less than twenty samples after its warm-up there is no verdict."""
    window = from_recording(record(Program([TRAINING]), seconds=30, hz=1.0, startup=90))

    assert labels(features(window, patience_s=20))["gpu 0"] is None


def test_a_process_that_reaches_into_another_gpu_is_no_tenant_there() -> None:
    """Contexts that ranks leave on GPU 0 do not make it shared."""
    program = Program([TRAINING, TRAINING], [Process(gpus=(0,)), Process(gpus=(0, 1))])
    window = from_recording(record(program))
    small = pl.when((pl.col("pid") == 901) & (pl.col("gpu") == 0)).then(5.4e8).otherwise(pl.col("gpu_mem_bytes"))
    frames = features(
        Window(window.gpu, window.host, window.process.with_columns(gpu_mem_bytes=small), window.facts), from_start=True
    )

    assert frames.gpu.sort("gpu").get_column("tenants").to_list() == [1, 1]


def test_a_program_that_restarts_is_one_tenant() -> None:
    """Two pids one after the other do not share a GPU."""
    window = from_recording(record(Program([TRAINING]), hz=1.0))
    half = window.process.get_column("t").mean()
    pids = window.process.with_columns(pid=pl.when(pl.col("t") > half).then(4242).otherwise(pl.col("pid")))
    frames = features(Window(window.gpu, window.host, pids, window.facts), from_start=True)

    assert frames.gpu.get_column("tenants").to_list() == [1]
    assert labels(frames)["gpu 0"] == "compute"


def test_a_second_run_within_the_window_is_judged_alone() -> None:
    """The newest run gets a start-up of its own; what the run before did is not its doing."""
    first = from_recording(record(CASES["eager inference of a small model"].program, seconds=60, hz=1.0))
    second = from_recording(record(Program([TRAINING]), seconds=90, hz=1.0, startup=20))
    later = [frame.with_columns(pl.col("t") + 70) for frame in (second.gpu, second.host, second.process)]
    gpu_rows, host, process = (pl.concat(pair) for pair in zip((first.gpu, first.host, first.process), later, strict=True))
    process = process.with_columns(pid=pl.when(pl.col("t") >= 70).then(4242).otherwise(pl.col("pid")))
    frames = features(Window(gpu_rows, host, process, first.facts), patience_s=20)

    assert labels(frames)["gpu 0"] == "compute"
    assert frames.gpu.get_column("from_t").to_list() == [111.0]
    assert evaluate(load(), frames).findings == []


def test_a_start_up_that_began_before_the_window_is_no_checkpoint() -> None:
    """A program that unpacks its data set before the window's first activity is not saving."""
    whole = from_recording(record(Program([TRAINING]), seconds=60, hz=1.0, startup=60))
    writes = whole.process.with_columns(write_chars_total=pl.col("t").clip(None, 60) * 3e8)
    late = pl.col("t") > 40
    frames = features(Window(whole.gpu.filter(late), whole.host.filter(late), writes.filter(late), whole.facts), patience_s=5)

    assert labels(frames)["gpu 0"] == "compute"
    assert evaluate(load(), frames).findings == []


def test_frames_without_columns_or_rows_are_survived() -> None:
    """A store that holds next to nothing yields nothing, and breaks nothing."""
    bare = Window(
        gpu=pl.DataFrame({"gpu": [1], "t": [0.0]}),
        host=pl.DataFrame(schema={"node": pl.Int64, "t": pl.Float64}),
        process=pl.DataFrame(schema={"gpu": pl.Int64, "pid": pl.Int64, "t": pl.Float64}),
        facts=pl.DataFrame({"gpu": [1], "node": [1]}),
    )
    empty = Window(bare.gpu.clear(), bare.host, bare.process, bare.facts.clear())

    assert labels(features(bare)) == {"gpu 1": None}
    assert labels(features(empty)) == {}
    assert evaluate(load(), features(bare)).findings == []


def test_power_is_not_judged_by_a_limit_that_a_cpu_shares() -> None:
    """A superchip's module limit holds the GPU down long before its own shows it; what it draws is still told."""
    own = from_recording(recording.read(RECORDINGS / "near_oom.jsonl.gz"))
    capped = own.facts.with_columns(power_limit_default_w=pl.col("power_limit_w") * 2)
    found = {
        scope: features(replace(own, facts=capped.with_columns(power_scope=pl.lit(scope)))).gpu for scope in ("gpu", "module")
    }

    assert found["gpu"]["power_limit_ratio"].to_list() == [0.5]
    assert found["gpu"]["power_share"][0] > 0
    for name in ("power_limit_ratio", "power_share"):
        assert found["module"][name].to_list() == [None]
    assert found["module"]["power_w"].to_list() == found["gpu"]["power_w"].to_list()


@pytest.mark.parametrize(("models", "warmer"), [(("A", "A", "A", "A"), 20.0), (("A", "B", "B", "B"), None), ((None,) * 4, 20.0)])
def test_temperature_is_compared_among_cards_of_one_model(models: tuple[str | None, ...], warmer: float | None) -> None:
    """Another model is cooled and told otherwise: the mean of a second beside an instant, say."""
    times = [float(t) for t in range(60)]
    rows = [
        {"gpu": g, "t": t, "gpu_util_pct": 99.0, "power_w": 500.0, "temperature_c": 80.0 if g == 0 else 60.0}
        for g in range(4)
        for t in times
    ]
    window = Window(
        gpu=pl.DataFrame(rows),
        host=pl.DataFrame(schema={"node": pl.Int64, "t": pl.Float64}),
        process=pl.DataFrame(schema={"gpu": pl.Int64, "pid": pl.Int64, "t": pl.Float64}),
        facts=pl.DataFrame({"gpu": [0, 1, 2, 3], "node": [1] * 4, "name": pl.Series(models, dtype=pl.String)}),
    )

    assert features(window).gpu["warmer_than_peers_c"][0] == warmer


def test_memory_that_is_one_with_the_hosts_is_compared_with_no_size() -> None:
    """How much of it is free depends on every program of the machine: no share, and nothing to foretell."""
    own = from_recording(recording.read(RECORDINGS / "near_oom.jsonl.gz"))
    unified = replace(own, facts=own.facts.with_columns(memory_kind=pl.lit("unified")))
    found = {kind: features(window) for kind, window in (("own", own), ("unified", unified))}

    assert found["own"].gpu["mem_used_share"][0] > 0.9
    for name in ("mem_used_share", "mem_growth_share", "seconds_to_full"):
        assert found["unified"].gpu[name].to_list() == [None]
    assert found["unified"].gpu["mem_used_max_bytes"].to_list() == found["own"].gpu["mem_used_max_bytes"].to_list()
    told = {kind: {finding.rule for finding in evaluate(load(), frames).findings} for kind, frames in found.items()}
    assert "memory-nearly-full" in told["own"]
    assert not {"memory-nearly-full", "gpu-memory-leak", "gpu-oversized-for-job"} & told["unified"]


def test_a_job_on_two_nodes_is_compared_with_the_cores_of_one() -> None:
    """Its helper processes are those of the node where they do most: of another node's nobody would find cores here. GPUs are all of them."""
    one = running("loader_starved")
    keys = [pl.col(name) + 1 for name in ("gpu", "node")]

    def beside(frame: pl.DataFrame, *changed: pl.Expr) -> pl.DataFrame:
        here = [key for key in keys if key.meta.output_name() in frame.columns]
        return pl.concat([frame, frame.with_columns(*here, *changed)], how="vertical_relaxed")

    half = [pl.col(name) / 2 for name in ("children", "children_cpu_pct")]
    both = Window(beside(one.gpu), beside(one.host), beside(one.process, *half), beside(one.facts))
    alone, job = (features(window, min_samples=5).job.row(0, named=True) for window in (one, both))

    assert (job["gpus"], job["gpus_on_node"], sorted(job["members"])) == (2, 1, [0, 1])
    assert alone["gpus_on_node"] == 1
    for name in ("children", "children_cores", "cores", "suggested_workers"):
        assert job[name] == pytest.approx(alone[name]), name
    assert job["processes"] == 2 * alone["processes"]
