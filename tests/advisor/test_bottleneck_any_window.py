"""Whatever a window holds, each GPU and job that is evaluated has one label, and shares that are shares."""

from typing import Any, Final

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.bottleneck import SHARES
from advisor.features import features
from advisor.frames import FACTS, Window
from advisor.samples import GPU_METRICS, HELD_BYTES, PROCESS_METRICS

HOST: Final = (
    "cpu_busy_cores",
    "cpu_core_max_pct",
    "cpu_iowait_pct",
    "mem_used_bytes",
    "disk_read_bytes_total",
    "net_rx_bytes_total",
)
TOPS: Final = {"gpu_util_pct": 100.0, "mem_copy_util_pct": 100.0, "mem_used_bytes": 80e9, "power_w": 700.0, "cpu_pct": 400.0}
SHAPES: Final = ("absent", "nothing", "full", "noise", "holes", "turns", "bursts", "grows", "huge")

window_shapes = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "gpus": st.integers(1, 3),
        "nodes": st.integers(1, 2),
        "jobs": st.sampled_from(("one", "each", "none")),
        "samples": st.sampled_from((0, 1, 2, 3, 19, 25, 60, 150)),
        "period_s": st.sampled_from((0.1, 0.25, 1.0, 10.0)),
        "unsteady": st.booleans(),
        "processes": st.integers(0, 3),
        "told": st.booleans(),
        "default": st.sampled_from(SHAPES),
        "shapes": st.dictionaries(st.sampled_from((*GPU_METRICS, *PROCESS_METRICS[:-1], *HOST)), st.sampled_from(SHAPES)),
    }
)


def column(shape: str, top: float, size: int, chance: np.random.Generator) -> list[float | None]:
    """A metric's readings."""
    steps = np.arange(size)
    values = {
        "nothing": np.zeros(size),
        "full": np.full(size, top),
        "noise": chance.random(size) * top,
        "holes": chance.random(size) * top,
        "turns": np.where(steps < size * chance.random(), 0.05, 0.95) * top,
        "bursts": (chance.random(size) < 0.3) * top,
        "grows": np.cumsum(chance.random(size)) * top,
        "huge": np.full(size, 1e15),
        "absent": np.zeros(size),
    }[shape]
    gone = np.ones(size, bool) if shape == "absent" else chance.random(size) < (0.4 if shape == "holes" else 0.0)
    return [None if lost else float(value) for value, lost in zip(values, gone, strict=True)]


def window_of(how: dict[str, Any]) -> Window:
    """The window that those choices make."""
    chance = np.random.default_rng(how["seed"])
    size, step = how["samples"], how["period_s"]
    t = np.arange(size) * step + (chance.random(size) * step * 0.9 if how["unsteady"] else 0)

    def frame(metrics: tuple[str, ...], **keys: int) -> pl.DataFrame:
        shapes = {name: how["shapes"].get(name, how["default"]) for name in metrics}
        told = {name: column(shape, TOPS.get(name, 1.0), size, chance) for name, shape in shapes.items()}
        made = pl.DataFrame({"t": t, **told}, schema={"t": pl.Float64, **dict.fromkeys(metrics, pl.Float64)})
        return made.with_columns(pl.lit(value, pl.Int64).alias(name) for name, value in keys.items())

    gpus = range(how["gpus"])
    nodes = range(how["nodes"])
    processes = [frame(PROCESS_METRICS[:-1], gpu=gpu, pid=10 * gpu + k) for gpu in gpus for k in range(how["processes"])]
    facts = [
        {
            **dict.fromkeys(FACTS),
            **({"mem_total_bytes": 80e9, "power_limit_w": 700.0, "cores": 8.0} if how["told"] else {}),
            "gpu": gpu, "index": gpu, "node": gpu % how["nodes"], "job": {"one": "a", "each": f"{gpu}", "none": None}[how["jobs"]],
        }
        for gpu in gpus
    ]  # fmt: skip
    none = frame(PROCESS_METRICS[:-1], gpu=0, pid=0).clear()
    return Window(
        gpu=pl.concat(frame(GPU_METRICS, gpu=gpu) for gpu in gpus),
        host=pl.concat(frame(HOST, node=node) for node in nodes),
        process=pl.concat([none, *processes]),
        facts=pl.DataFrame(facts, schema=FACTS),
    )


@settings(max_examples=60, deadline=None)
@given(how=window_shapes, from_start=st.booleans())
def test_shares_are_shares_and_labels_are_labels(how: dict[str, Any], from_start: bool) -> None:
    """No share is outside 0 to 1 or is no number, they sum to 1, and there is one label; of what is not evaluated there is none."""
    frames = features(window_of(how), from_start=from_start, min_samples=2, min_coverage=0.0)

    assert frames.gpu["gpu"].to_list() == list(range(how["gpus"]))
    for frame in (frames.gpu, frames.job):
        told = frame.filter("evaluated")
        shares = told.select(f"share_{name}" for name in SHARES)
        assert shares.select(pl.all_horizontal(pl.all().is_between(0, 1 + 1e-9)).all()).item()
        assert told.height == 0 or ((shares.sum_horizontal() - 1).abs() < 1e-9).all()
        assert told["bottleneck"].is_in(SHARES).all()
        assert told["confidence"].is_in(["high", "medium", "low"]).all()
        assert frame.filter(~pl.col("evaluated"))["bottleneck"].null_count() == frame.height - told.height


@settings(max_examples=30, deadline=None)
@given(how=window_shapes, share=st.floats(0.2, 0.8))
def test_what_holds_a_gpu_and_does_nothing_is_idle(how: dict[str, Any], share: float) -> None:
    """Whatever else is told: where the engine never worked, all of the time is idle or spent for it outside."""
    window = window_of(how | {"shapes": how["shapes"] | {"gr_engine_active": "nothing", "gpu_util_pct": "nothing"}})
    window.gpu.replace_column(
        window.gpu.columns.index("mem_used_bytes"), pl.Series("mem_used_bytes", [HELD_BYTES / share] * window.gpu.height)
    )
    told = features(window, min_samples=2, min_coverage=0.0).gpu.filter("evaluated")

    assert (
        told.select(pl.sum_horizontal("share_idle", "share_copy", "share_checkpoint", "share_communication") > 1 - 1e-9)
        .to_series()
        .all()
    )
