"""How much CPU one advisor cycle takes: features, bottleneck and rules over a synthetic fleet made of the recordings.

Every GPU plays the steady part of one recording, resampled to 1 Hz and looped, from an offset of its own. Prints human
lines, then one JSON object: gpus, rules, cpu_s, wall_s, rss_bytes.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import polars as pl

from advisor.diagnosis import diagnose
from advisor.engine import evaluate
from advisor.features import features
from advisor.frames import Window, from_recording
from advisor.rule import load
from advisor.samples import Span, facts_of, judged
from wire import recording

RECORDINGS = Path(__file__).resolve().parent.parent / "recordings"
GPUS_PER_NODE = 8


def main(argv: list[str] | None = None) -> int:
    """Build the fleet, judge it once, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=300)
    options = parser.parse_args(argv)
    window = fleet(options.gpus, options.seconds)
    rules = load()
    features(fleet(64, 60), patience_s=10)  # the first call imports and compiles
    rows = window.gpu.height + window.process.height + window.host.height
    print(f"{options.gpus} GPUs x {options.seconds} s: {rows:,} rows, {window.gpu.estimated_size('mb'):.0f} MB of GPU samples")
    before = _now()
    frames = features(window, patience_s=10)
    after_features = _now()
    diagnoses = diagnose(frames)
    after_diagnose = _now()
    evaluation = evaluate(rules, frames)
    after = _now()
    for name, start, end in (
        ("features", before, after_features),
        ("diagnoses", after_features, after_diagnose),
        ("rules", after_diagnose, after),
    ):
        print(f"{name:<10}{end[0] - start[0]:7.2f} s CPU {end[1] - start[1]:7.2f} s wall")
    print(f"{len(evaluation.findings)} findings, {len(diagnoses)} diagnoses, {len(evaluation.not_evaluated)} not evaluated")
    print(
        json.dumps(
            {
                "gpus": options.gpus,
                "rules": len(rules),
                "cpu_s": round(after[0] - before[0], 3),
                "wall_s": round(after[1] - before[1], 3),
                "rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
    )
    return 0


def fleet(gpus: int, seconds: int) -> Window:
    """A window of `gpus` GPUs over `seconds` at 1 Hz, in the store's order."""
    parts = [_steady(path) for path in sorted(RECORDINGS.glob("*.jsonl.gz"))]
    gpu, process, host, facts = [], [], [], []
    for node in range(-(-gpus // GPUS_PER_NODE)):
        source = parts[node % len(parts)]
        host.append(_looped(source.host, seconds, node * 3).with_columns(node=pl.lit(node, pl.Int64)))
        for slot in range(min(GPUS_PER_NODE, gpus - node * GPUS_PER_NODE)):
            number = node * GPUS_PER_NODE + slot
            index = slot % source.facts.height
            one = pl.col("gpu") == index
            gpu.append(_looped(source.gpu.filter(one), seconds, number).with_columns(gpu=pl.lit(number, pl.Int64)))
            for pid in source.process.filter(one).get_column("pid").unique(maintain_order=True):
                held = source.process.filter(one & (pl.col("pid") == pid))
                process.append(
                    _looped(held, seconds, number).with_columns(
                        gpu=pl.lit(number, pl.Int64), pid=pl.lit(pid + number * 1000, pl.Int64)
                    )
                )
            facts.append(
                source.facts.filter(one).with_columns(
                    gpu=pl.lit(number, pl.Int64), node=pl.lit(node, pl.Int64), job=pl.lit(f"node-{node}/demo/program")
                )
            )
    whole = Window(
        gpu=pl.concat(gpu, rechunk=True),
        host=pl.concat(host, rechunk=True),
        process=pl.concat(process, rechunk=True),
        facts=pl.concat(facts, rechunk=True),
    )
    return whole


def _steady(path: Path) -> Window:
    """The judged part of a recording at 1 Hz."""
    whole = from_recording(recording.read(path))
    samples = judged(whole, facts_of(whole), Span(from_start=True)).samples
    start, end = samples.get_column("t").min(), samples.get_column("t").max()
    inside = pl.col("t").is_between(start, end)
    second = (pl.col("t") - start).floor().alias("t")

    def thinned(frame: pl.DataFrame, *keys: str) -> pl.DataFrame:
        return (
            frame.filter(inside).group_by(*keys, second, maintain_order=True).agg(pl.exclude(*keys, "t").last()).sort(*keys, "t")
        )

    return Window(
        gpu=thinned(whole.gpu, "gpu"),
        host=thinned(whole.host, "node"),
        process=thinned(whole.process, "gpu", "pid"),
        facts=whole.facts,
    )


def _looped(frame: pl.DataFrame, seconds: int, offset: int) -> pl.DataFrame:
    """`frame` repeated to `seconds` rows from row `offset` on."""
    rows = (pl.int_range(seconds, eager=True) + offset) % frame.height
    return frame[rows.to_list()].with_columns(t=pl.int_range(seconds, eager=True).cast(pl.Float64) + 1_800_000_000.0)


def _now() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


if __name__ == "__main__":
    sys.exit(main())
