"""What one advisor cycle takes: a fleet made of the recordings, in a store and a database of its own, judged by a fresh process.

    python bench/advise.py --gpus 10000

Every GPU plays the steady part of one recording, resampled to 1 Hz and looped, from an offset of its own, with all that the
recording has. It is written as ingest writes: whole seconds of the whole fleet, a file every five. The cycle is judge(): it reads the
store, computes, and brings findings and diagnoses up to date. The first one makes them all; the second is what a worker does every
ten seconds. Prints human lines, then one JSON object: gpus, rules, and of both cycles cpu_s, wall_s; rss_bytes of the process.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from config.worker import settle  # before Polars, as in a worker: it says how memory is kept

import polars as pl  # isort: skip

from advisor.frames import CONSTANTS, Window, from_recording
from advisor.samples import Span, facts_of, judged
from wire import recording

GPUS_PER_NODE = 8
FLUSH_S = 5


def main(argv: list[str] | None = None) -> int:
    """Build the fleet, have it judged, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--judge", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.judge is not None:
        return judge_twice(options.gpus, options.judge)
    with tempfile.TemporaryDirectory(prefix="fettle-bench-") as data:
        os.environ.update(FETTLE_DATA=data, FETTLE_DEBUG="1", DJANGO_SETTINGS_MODULE="config.settings")
        subprocess.run([sys.executable, "manage.py", "migrate", "--skip-checks", "-v", "0"], cwd=ROOT, check=True)
        end = int(time.time())
        rows = build(options.gpus, options.seconds, end)
        size = sum(path.stat().st_size for path in Path(data, "series").rglob("*") if path.is_file())
        print(
            f"{options.gpus} GPUs x {options.seconds} s: {rows:,} rows, {size / 1e6:.0f} MB in the store", flush=True
        )  # before the child's
        command = [sys.executable, __file__, "--gpus", str(options.gpus), "--judge", str(end)]
        return subprocess.run(command, cwd=ROOT, check=False).returncode


def judge_twice(gpus: int, end: int) -> int:
    """Judge the same window twice in this process; all it did before is import and connect."""
    from datetime import UTC, datetime

    import django

    django.setup()
    from advisor import rule
    from fleet.findings.judge import judge
    from fleet.findings.models import Diagnosis, Finding

    settle()
    told: dict[str, Any] = {"gpus": gpus, "rules": len(rule.load())}
    for name in ("first", "next"):
        before = time.process_time(), time.perf_counter()
        judge(datetime.fromtimestamp(end, UTC))
        cpu_s, wall_s = time.process_time() - before[0], time.perf_counter() - before[1]
        told[name] = {"cpu_s": round(cpu_s, 2), "wall_s": round(wall_s, 2)}
        print(f"{name:<8}{cpu_s:7.2f} s CPU {wall_s:7.2f} s wall")
    told["rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{Finding.objects.count()} findings, {Diagnosis.objects.count()} diagnoses, {told['rss_bytes'] / 1e6:.0f} MB at most")
    print(json.dumps(told))
    return 0


def build(gpus: int, seconds: int, end: int) -> int:
    """Put the fleet into the database and its last seconds into the store; how many rows there are."""
    import django

    django.setup()
    from django.conf import settings

    from fleet.store.parquet import ParquetSeries

    parts = [_steady(path) for path in sorted((ROOT / "recordings").glob("*.jsonl.gz"))]
    nodes = _inventory(parts, gpus)
    store = ParquetSeries(Path(settings.FETTLE_STORE_DIR))
    rows = 0
    for first in range(0, seconds, FLUSH_S):
        frames: dict[str, list[pl.DataFrame]] = {"gpu": [], "host": [], "process": []}
        for source, members in zip(parts, nodes, strict=True):
            for scope, frame in _slice(source, members, first, end - seconds).items():
                if frame.height:
                    frames[scope].append(frame)
        for scope, made in frames.items():
            known = store.tables[scope].columns  # type: ignore[index]
            whole = pl.concat(made, how="diagonal_relaxed")
            store.write(scope, whole.select(name for name in whole.columns if name in known))  # type: ignore[arg-type]
            rows += whole.height
    return rows


def _inventory(parts: list[Window], gpus: int) -> list[list[tuple[int, list[tuple[int, int]]]]]:
    """Rows of nodes and GPUs. By recording: the node's id and of each of its GPUs the id and its index in the recording."""
    from django.utils import timezone

    from fleet.inventory.models import Gpu, Node

    count = -(-gpus // GPUS_PER_NODE)
    homes = [Node(name=f"bench-{n:05d}", last_seen_at=timezone.now(), mem_total_bytes=1 << 40, cores=64) for n in range(count)]
    homes = Node.objects.bulk_create(homes, batch_size=500)
    cards, places = [], []
    for number in range(gpus):
        home, slot = number // GPUS_PER_NODE, number % GPUS_PER_NODE
        facts = parts[home % len(parts)].facts
        fact = facts.row(slot % facts.height, named=True)
        known = {name: fact[name] for name in CONSTANTS if fact[name] is not None}
        cards.append(Gpu(node=homes[home], uuid=f"GPU-{number}", index=slot, model=fact["name"] or "GPU", present=True, **known))
        places.append((home, slot % facts.height))
    made = Gpu.objects.bulk_create(cards, batch_size=200)
    by_part: list[list[tuple[int, list[tuple[int, int]]]]] = [[] for _ in parts]
    for home, node in enumerate(homes):
        numbers = range(home * GPUS_PER_NODE, min(gpus, (home + 1) * GPUS_PER_NODE))
        mine = [(made[number].pk, places[number][1]) for number in numbers]
        by_part[home % len(parts)].append((node.pk, mine))
    return by_part


def _slice(source: Window, members: list[tuple[int, list[tuple[int, int]]]], first: int, start: int) -> dict[str, pl.DataFrame]:
    """FLUSH_S seconds of all nodes that play the recording: one gather for each GPU of it."""
    found: dict[str, list[pl.DataFrame]] = {"gpu": [], "host": [], "process": []}
    hosts = [(node, 0) for node, _ in members]
    found["host"].append(_gathered(source.host, hosts, first, start))
    for index in source.facts["gpu"].to_list():
        held = [(pk, pk) for _, gpus in members for pk, place in gpus if place == index]
        found["gpu"].append(_gathered(source.gpu.filter(pl.col("gpu") == index), held, first, start))
        process = source.process.filter(pl.col("gpu") == index)
        for pid in process["pid"].unique(maintain_order=True):
            one = _gathered(process.filter(pl.col("pid") == pid), held, first, start)
            found["process"].append(one.with_columns(pid=pl.lit(pid, pl.Int64), name=pl.lit("train.py"), user=pl.lit("ann")))
    return {scope: pl.concat(frames, how="diagonal_relaxed") for scope, frames in found.items()}


def _gathered(frame: pl.DataFrame, things: list[tuple[int, int]], first: int, start: int) -> pl.DataFrame:
    """The frame's rows of FLUSH_S seconds for each (entity, offset), looped."""
    if frame.is_empty() or not things:
        return pl.DataFrame()
    rows = [(offset + first + second) % frame.height for _, offset in things for second in range(FLUSH_S)]
    return frame[rows].drop("gpu", "node", "t", strict=False).with_columns(
        pl.Series("entity", [entity for entity, _ in things for _ in range(FLUSH_S)]),
        pl.Series("ts", [start + first + second for _ in things for second in range(FLUSH_S)]),
    )  # fmt: skip


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


if __name__ == "__main__":
    sys.exit(main())
