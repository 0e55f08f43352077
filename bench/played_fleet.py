"""`build`: a fleet whose GPUs play the recordings, in a database and a store, as ingest would have written it.

Every GPU plays the steady part of one recording, resampled to 1 Hz and looped, from an offset of its own, with all that the recording
has. Of five nodes three have two users at work, so that 1,250 nodes have 2,000 jobs; of those on every other node a scheduler tells. Every
process has labels, those of every other eighteen nodes report their steps too, and one serving engine for 33 GPUs tells of itself.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from advisor.frames import CONSTANTS, Window, from_recording
from advisor.samples import Span, facts_of, judged
from wire import recording
from wire.metrics import HELD, HELD_S

ROOT: Final = Path(__file__).resolve().parent.parent
GPUS_PER_NODE: Final = 8
FLUSH_S: Final = 5
GPUS_OF_ENGINE: Final = 33
TRAINING: Final = {
    "launcher": "torchrun", "torch": "2.8.0+cu128", "cuda": "12.8", "visible_gpus": "all", "slurm_job": "4711",
    "flag.nproc-per-node": "8", "flag.num-workers": "4", "flag.batch-size": "64", "env.NCCL_DEBUG": "INFO",
    "env.OMP_NUM_THREADS": "1", "told.params": "7000000000", "told.layers": "32", "told.hidden": "4096", "told.seq": "4096",
    "told.micro_batch": "2", "told.dtype": "bf16", "told.sharding": "fsdp",
}  # fmt: skip
SERVING: Final = {
    "engine": "vllm", "torch": "2.8.0+cu128", "cuda": "12.8", "pod": "0b5e", "flag.gpu-memory-utilization": "0.9",
    "flag.max-num-seqs": "256", "flag.enforce-eager": "true",
}  # fmt: skip
_FACTS: Final = {
    "kernel": "6.8.0", "driver_version": "580.65.06", "cuda_driver_version": "13.0", "nvidia_module_version": "580.65.06",
    "cpu_governor": "performance", "mem_total_bytes": 1 << 40, "cores": 64, "rdma_ready": True,
}  # fmt: skip


class Held(NamedTuple):
    """One GPU of the fleet: its id, its number, and its place in the recording that its node plays."""

    pk: int
    number: int
    place: int

    @property
    def node(self) -> int:
        """The number of its node."""
        return self.number // GPUS_PER_NODE

    @property
    def slot(self) -> int:
        """Its number on its node."""
        return self.number % GPUS_PER_NODE

    @property
    def user(self) -> str:
        """Who works on it."""
        return f"user{self.slot * 2 // GPUS_PER_NODE if self.node % 5 < 3 else 0}"

    @property
    def slurm_job(self) -> str | None:
        """The number of the job that its scheduler gave it to; None on the nodes of which none tells."""
        return f"{self.node}{self.user[-1]}" if self.node % 2 == 0 else None

    def pid(self, recorded: int) -> int:
        """The pid of a process of it that the recording has as `recorded`."""
        return recorded * GPUS_PER_NODE + self.slot

    @property
    def reports(self) -> bool:
        """Whether its processes report their steps."""
        return self.node // 18 % 2 == 0


class Played(NamedTuple):
    """What plays one recording: nodes (id and number) and GPUs."""

    source: Window
    nodes: list[tuple[int, int]]
    gpus: list[Held]


def build(gpus: int, seconds: int, end: int) -> int:
    """Put the fleet into the database and its last seconds into the store; how many rows there are."""
    import django

    django.setup()
    from django.conf import settings

    from fleet.store.parquet import ParquetSeries

    played = _inventory([_steady(path) for path in sorted((ROOT / "recordings").glob("*.jsonl.gz"))], gpus)
    engines = _words(played, end)
    _given(played, end)
    store = ParquetSeries(Path(settings.FETTLE_STORE_DIR))
    rows = 0
    for first in range(0, seconds, FLUSH_S):
        frames: dict[str, list[pl.DataFrame]] = {
            "gpu": [],
            "host": [],
            "process": [],
            "engine": [_served(engines, end - seconds + first)],
        }
        for one in played:
            for scope, frame in _slice(one, first, end - seconds).items():
                frames[scope].append(frame)
        for scope, made in frames.items():
            if not any(frame.height for frame in made):
                continue
            known = store.tables[scope].columns  # type: ignore[index]
            whole = pl.concat([frame for frame in made if frame.height], how="diagonal_relaxed")
            store.write(scope, whole.select(name for name in whole.columns if name in known))  # type: ignore[arg-type]
            rows += whole.height
    return rows


def _inventory(parts: list[Window], gpus: int) -> list[Played]:
    """Rows of nodes and GPUs, by the recording that they play."""
    from django.utils import timezone

    from fleet.inventory.models import Gpu, Node

    now = timezone.now()
    count = -(-gpus // GPUS_PER_NODE)
    began = now - timedelta(days=1)
    homes = Node.objects.bulk_create(
        [Node(name=f"bench-{n:05d}", last_seen_at=now, connected_at=began, **_FACTS) for n in range(count)], batch_size=500
    )
    cards, places = [], []
    for number in range(gpus):
        facts = parts[number // GPUS_PER_NODE % len(parts)].facts
        places.append(number % GPUS_PER_NODE % facts.height)
        fact = facts.row(places[-1], named=True)
        known = {name: fact[name] for name in (*CONSTANTS, "compute_capability") if fact[name] is not None}
        home, slot = number // GPUS_PER_NODE, number % GPUS_PER_NODE
        cards.append(Gpu(node=homes[home], uuid=f"GPU-{number}", index=slot, model=fact["name"] or "GPU", **known))
    played = [Played(part, [], []) for part in parts]
    for number, card in enumerate(Gpu.objects.bulk_create(cards, batch_size=200)):
        played[number // GPUS_PER_NODE % len(parts)].gpus.append(Held(card.pk, number, places[number]))
    for number, node in enumerate(homes):
        played[number % len(parts)].nodes.append((node.pk, number))
    return played


def _words(played: list[Played], end: int) -> list[int]:
    """Rows of processes with their labels, and of serving engines, one on every fourth node; the engines' ids."""
    from fleet.inventory.models import Engine, Process

    now = datetime.fromtimestamp(end, UTC)
    seen = {"first_seen_at": datetime.fromtimestamp(end - 86_400, UTC), "last_seen_at": now}
    most = sum(len(one.gpus) for one in played) // GPUS_OF_ENGINE
    processes, engines = [], []
    for one in played:
        home = {number: pk for pk, number in one.nodes}
        pids = one.source.process.group_by("gpu", maintain_order=True).agg(pl.col("pid").unique(maintain_order=True))
        recorded = dict(pids.iter_rows())
        for held in one.gpus:
            for pid in recorded.get(held.place, []):
                serves = held.node % 4 == 0 and held.slot == 0 and held.node // 4 < most
                labels = SERVING if serves else TRAINING if held.slurm_job is None else TRAINING | {"slurm_job": held.slurm_job}
                processes.append(
                    Process(node_id=home[held.node], pid=held.pid(pid), name="train.py", labels=labels, told_at=now, **seen)
                )
                if serves and pid == recorded[held.place][0]:
                    engines.append(
                        Engine(
                            node_id=home[held.node],
                            name="http://127.0.0.1:8000",
                            kind="vllm",
                            model="m",
                            pid=held.pid(pid),
                            **seen,
                        )
                    )
    Process.objects.bulk_create(processes, batch_size=500)
    return [engine.pk for engine in Engine.objects.bulk_create(engines, batch_size=500)]


def _given(played: list[Played], end: int) -> None:
    """The jobs that a scheduler tells of, and their allocations."""
    from fleet.jobs.models import Allocation, Job

    began = datetime.fromtimestamp(end - 86_400, UTC)
    held: dict[str, list[tuple[int, Held]]] = {}
    for one in played:
        home = {number: pk for pk, number in one.nodes}
        for gpu in one.gpus:
            if gpu.slurm_job is not None:
                held.setdefault(gpu.slurm_job, []).append((home[gpu.node], gpu))
    jobs = [
        Job(
            cluster="bench",
            job_id=number,
            started_at=began,
            source="slurm",
            user=gpus[0][1].user,
            name="train",
            family=f"bench/{gpus[0][1].user}/train",
        )
        for number, gpus in held.items()
    ]
    rows = {job.job_id: job for job in Job.objects.bulk_create(jobs, batch_size=500)}
    Allocation.objects.bulk_create(
        [
            Allocation(
                job=rows[number],
                node_id=node,
                node_name=f"bench-{gpu.node:05d}",
                gpu_id=gpu.pk,
                device=str(gpu.slot),
                from_at=began,
            )
            for number, gpus in held.items()
            for node, gpu in gpus
        ],
        batch_size=500,
    )


def _slice(one: Played, first: int, start: int) -> dict[str, pl.DataFrame]:
    """FLUSH_S seconds of all nodes that play the recording: one gather for each GPU of it."""
    source = one.source
    found: dict[str, list[pl.DataFrame]] = {"gpu": [], "host": [], "process": []}
    found["host"].append(_gathered(source.host, [(pk, 0) for pk, _ in one.nodes], first, start))
    for place in source.facts["gpu"].to_list():
        held = [gpu for gpu in one.gpus if gpu.place == place]
        things = [(gpu.pk, gpu.pk) for gpu in held]
        found["gpu"].append(_told_seldom(_gathered(source.gpu.filter(pl.col("gpu") == place), things, first, start)))
        process = source.process.filter(pl.col("gpu") == place)
        for pid in process["pid"].unique(maintain_order=True):
            rows = _gathered(process.filter(pl.col("pid") == pid), things, first, start)
            who = pl.DataFrame(
                [(gpu.pk, gpu.pid(pid), "train.py", gpu.user, gpu.reports) for gpu in held],
                schema=["entity", "pid", "name", "user", "reports"],
                orient="row",
            )
            if rows.height:
                rows = rows.drop("pid", "name", "user", strict=False).join(who, on="entity", how="left", maintain_order="left")
                found["process"].append(_reported(rows).drop("reports"))
    return {scope: pl.concat(frames, how="diagonal_relaxed") for scope, frames in found.items() if frames}


def _told_seldom(rows: pl.DataFrame) -> pl.DataFrame:
    """`rows` with what agents read every quarter of a minute told that often."""
    if rows.is_empty():
        return rows
    told = (pl.col("ts") + pl.col("entity")) % (HELD_S // 2) == 0
    return rows.with_columns(pl.when(told).then(pl.col(name)).alias(name) for name in sorted(HELD & set(rows.columns)))


def _reported(rows: pl.DataFrame) -> pl.DataFrame:
    """`rows` with the figures of two steps a second, of those who report."""
    trembles = (pl.col("entity") * 7919 + pl.col("ts") * 104_729) % 100 / 1000
    time = pl.col("ts") % 100_000
    figures = {
        "steps_total": time * 2.0, "step_time_s": 0.45 + trembles, "step_time_max_s": 0.6 + trembles, "data_wait_s": trembles,
        "samples_per_s": 128 / (1 + trembles), "tokens_per_s": 8192 / (1 + trembles), "h2d_s": 0.01 + trembles / 10,
        "slow_steps_total": (time // 50).cast(pl.Float64), "since_step_s": trembles, "loss": 2 + trembles, "grad_norm": 1 + trembles,
        "loss_still_steps": pl.lit(0.0), "alloc_peak_bytes": pl.lit(6e10), "reserved_peak_bytes": pl.lit(7e10),
        "checkpoints_total": (time // 120).cast(pl.Float64), "checkpoint_save_s": 5 + trembles, "since_checkpoint_s": time % 120.0,
        "checkpoint_bytes": pl.lit(1e10), "ooms_total": pl.lit(0.0), "loss_not_finite_total": pl.lit(0.0),
    }  # fmt: skip
    return rows.with_columns(**{name: pl.when("reports").then(value) for name, value in figures.items()})


def _served(engines: list[int], start: int) -> pl.DataFrame:
    """FLUSH_S seconds of the engines."""
    rows = pl.DataFrame({"entity": engines}, schema={"entity": pl.Int64}).join(
        pl.DataFrame({"ts": range(start, start + FLUSH_S)}, schema={"ts": pl.Int64}), how="cross"
    )
    load = (pl.col("entity") * 31 + pl.col("ts")) % 10 / 10
    count = (pl.col("ts") % 100_000).cast(pl.Float64)
    return rows.with_columns(
        requests_running=20 + 100 * load, requests_waiting=(load * 10 - 7).clip(0), kv_cache_used=0.4 + load / 2,
        requests_finished_total=count * 3, prompt_tokens_total=count * 3000, generation_tokens_total=count * 900,
        preemptions_total=(count // 90), prefix_cache_queries_total=count * 3000, prefix_cache_hits_total=count * 1200,
        ttft_mean_s=0.2 + load, ttft_p95_s=0.5 + load, tpot_mean_s=0.02 + load / 50, tpot_p95_s=0.04 + load / 50,
        queue_mean_s=load / 10, e2e_mean_s=5 + load, batch_size_mean=20 + 100 * load,
    )  # fmt: skip


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
