"""`with_more(frames, more)`: the rarer features beside those of the window, and the frames of services and of the whole fleet.

What is not known stays away: a frame without partials, words or slow features has those columns null, and the rules that need them are
not evaluated.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from advisor import (
    card_readings,
    decoding,
    described,
    hosts,
    kinds,
    memory_split,
    partitions,
    planned,
    ranks,
    services,
    stacks,
    storage,
)
from advisor.features import Frames
from advisor.frames import Window
from advisor.partial import Partial, merge, partial

NODE_FACTS: Final = (
    "driver_version", "driver_major", "cuda_driver_version", "cuda_driver_major", "kernel", "nvidia_module_version", "cpu_governor",
    "numa_nodes", "rdma_ready", "node_name", "node_gpus", "node_gpus_present", "up_s", "note_maintenance", "note_power_policy",
)  # fmt: skip
"""What is known of a node and told of its GPUs, jobs and services too."""
_CONSTANTS: Final = ("gpu_hour_price", "energy_price_per_kwh", "pue", "mtbf_gpu_hours")


@dataclass(frozen=True, slots=True)
class More:
    """What is known beside the samples of the window.

    `partial`: merged; `words`: `described.described`; `engines` and `serves`: as in services.py; `slow`: by scope, one row a target with
    its key; `constants`: the site's prices and the like (gpu_hour_price, energy_price_per_kwh, pue, mtbf_gpu_hours).
    """

    partial: Partial | None = None
    words: pl.DataFrame | None = None
    engines: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=services.ENGINES))
    serves: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=services.SERVES))
    slow: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    constants: Mapping[str, float | str | None] = field(default_factory=dict)


def of_window(window: Window, frames: Frames, wanted: Collection[str] = ()) -> More:
    """What a window of its own, such as a recording, holds beside `frames`, which were made of it: of the time that is judged.

    `wanted`: the features that rules read, for those that come from words.
    """
    spans = frames.gpu.select("gpu", "node", start_t=pl.col("from_t"), end_t=pl.col("until_t"))
    of_nodes = spans.group_by("node").agg(pl.col("start_t").min(), pl.col("end_t").max())
    within = pl.col("t").is_between("start_t", "end_t")

    def cut(frame: pl.DataFrame, key: str, by: pl.DataFrame) -> pl.DataFrame:
        return frame.join(by.select(key, "start_t", "end_t"), on=key).filter(within).drop("start_t", "end_t").sort(key, "t")

    nothing = pl.DataFrame(schema={"service": pl.Int64, "t": pl.Float64})
    one = partial(cut(window.gpu, "gpu", spans), cut(window.host, "node", of_nodes), cut(window.process, "gpu", spans), nothing)
    told = [(node, pid, labels) for node in window.facts["node"].unique() for pid, labels in window.labels.items()]
    return More(partial=merge([one]), words=described.described(told, wanted) if told else None)


def with_more(frames: Frames, more: More) -> Frames:
    """`frames` with all that `more` knows, and its frames `service` and `fleet`."""
    slow = more.slow
    gpu, node = _of_cards(frames.gpu), frames.node.with_columns(cpu_busy_share=pl.col("cpu_busy_cores") / pl.col("cores"))
    facts = gpu.select("gpu", "node", "job")
    job, service = frames.job.with_columns(cpu_busy_share=pl.col("cpu_busy_cores") / pl.col("cores")), None
    held = None
    if more.partial is not None:
        host = hosts.of_hosts(more.partial.host)
        held = ranks.of_ranks(more.partial.process, facts)
        gpu = _join(gpu, card_readings.of_cards(more.partial.gpu), "gpu")
        gpu, node, job = (_join(frame, host, "node") for frame in (gpu, node, job))
        node = _join(node, ranks.of_nodes(held), "node")
        job = _join(job, ranks.of_jobs(held), "job")
        if more.words is not None:
            job = _join(job, described.of("job", held, more.words), "job")
            by = _schedulers(facts, job)
            gpu, node = _join(gpu, by, "node"), _join(node, by, "node")
    gpu = _beside_peers(_power(gpu))
    job = _join(job, _of_job_cards(gpu), "job")
    if more.partial is not None:
        service = services.of_services(more.partial.engine, more.engines, more.serves, gpu, node)
        if more.words is not None:
            served = more.serves.join(gpu.select("gpu", "node"), on="gpu")
            service = services.cut(_join(service, described.of("service", served, more.words), "service"))
    told = slow.get("node")
    if told is not None:
        facts_of_nodes = told.select("node", *[name for name in NODE_FACTS if name in told.columns])
        node = _join(node, told, "node")
        gpu, job = _join(gpu, facts_of_nodes, "node"), _join(job, facts_of_nodes, "node")
        if held is not None and "driver_version" in facts_of_nodes.columns:
            drivers = held.select("job", "node").join(facts_of_nodes, on="node", how="left")
            job = _join(
                job,
                drivers.group_by("job").agg(
                    pl.col("driver_version").drop_nulls().n_unique().cast(pl.Int64).alias("driver_versions")
                ),
                "job",
            )
        service = None if service is None else _join(service, facts_of_nodes, "node")
    gpu, job = _join(gpu, slow.get("gpu"), "gpu"), _profiled(_join(job, slow.get("job"), "job"))
    if service is not None:
        service = _join(service, slow.get("service"), "service")
    gpu, job, node, service = partitions.with_partition(gpu, job, node, service)
    job = _of_memory(_given(job))
    constants = [pl.lit(more.constants.get(name), pl.Float64).alias(name) for name in _CONSTANTS]
    job = memory_split.with_split(stacks.with_arch(planned.of_jobs(job.with_columns(constants))))
    job = decoding.with_sequences(job, service, gpu)
    fleet = pl.DataFrame(
        {"fleet": ["fleet"], "evaluated": [True], "members": [[]]}, schema_overrides={"members": pl.List(pl.Int64)}
    )
    reads = storage.fleet_row(job, node)
    fleet = fleet.with_columns(pl.lit(value, kinds.kind(name)).alias(name) for name, value in reads.items())
    fleet = _join(fleet, slow.get("fleet"), "fleet")
    return replace(
        frames,
        gpu=gpu.with_columns(constants),
        job=job,
        node=node.with_columns(constants),
        service=service.with_columns(constants) if service is not None else frames.service,
        fleet=fleet.with_columns(constants),
    )


def _given(job: pl.DataFrame) -> pl.DataFrame:
    """The scheduler of a job and its number there as an allocation says them, where no process of the job tells."""
    for name, given in (("scheduler", "given_by"), ("slurm_job", "given_slurm_job")):
        if given in job.columns:
            told = [pl.col(one).cast(pl.String) for one in (name, given) if one in job.columns]
            job = job.with_columns(pl.coalesce(told).alias(name))
    return job


def _profiled(job: pl.DataFrame) -> pl.DataFrame:
    """`comm_share` from a profile of the job where its steps report none: the same thing, measured for some steps."""
    if "profile_exposed_comm_share" not in job.columns:
        return job
    told = [pl.col(name) for name in ("comm_share", "profile_exposed_comm_share") if name in job.columns]
    return job.with_columns(comm_share=pl.coalesce(told))


def _schedulers(facts: pl.DataFrame, job: pl.DataFrame) -> pl.DataFrame:
    """`scheduler` by node: the one that started a job there. It says how the node is taken out of service."""
    ran = facts.join(job.select("job", "scheduler"), on="job")
    return ran.group_by("node").agg(pl.col("scheduler").drop_nulls().sort().first())


def _of_memory(job: pl.DataFrame) -> pl.DataFrame:
    """What the allocator's figures are of the card's memory."""
    if "alloc_peak_bytes" not in job.columns:
        return job
    total = pl.col("mem_total_bytes")
    return job.with_columns(
        alloc_peak_share=pl.col("alloc_peak_bytes") / total, fragmented_share=pl.col("reserved_unused_bytes") / total
    )


def _join(frame: pl.DataFrame, more: pl.DataFrame | None, key: str) -> pl.DataFrame:
    """`frame` with the columns of `more` that it lacks, by `key`."""
    if more is None:
        return frame
    new = [name for name in more.columns if name not in frame.columns]
    return frame.join(more.select(key, *new), on=key, how="left", maintain_order="left")


def _of_cards(gpu: pl.DataFrame) -> pl.DataFrame:
    """What follows from the window's own columns."""
    capability = pl.col("compute_capability").str.extract_groups(r"^(\d+)\.(\d)$")
    return gpu.with_columns(
        gpu_model=pl.col("name"),
        sm=capability.struct["1"].cast(pl.Int64) * 10 + capability.struct["2"].cast(pl.Int64),
        has_nvlink=pl.col("nvlink_links") > 0,
        nvlink_links_expected=pl.col("nvlink_links"),
        cpu_busy_share=pl.col("cpu_busy_cores") / pl.col("cores"),
        power_85=(0.85 * pl.col("power_limit_default_w")).round().cast(pl.Int64),
        turns_per_min=pl.when(pl.col("window_s") > 0).then(pl.col("turns") * 60 / pl.col("window_s")),
        mem_free_min_bytes=pl.col("mem_total_bytes") - pl.col("mem_used_max_bytes"),
    )


def _power(gpu: pl.DataFrame) -> pl.DataFrame:
    if "power_p50_w" not in gpu.columns:
        return gpu
    return gpu.with_columns(
        power_share_p50=pl.when(pl.col("power_scope").ne_missing("module")).then(pl.col("power_p50_w") / pl.col("power_limit_w"))
    )


def _beside_peers(gpu: pl.DataFrame) -> pl.DataFrame:
    """`power_to_peers`, `clock_to_peers`: each GPU's under load over the median of those of its model in its job, of three and more."""
    alike = pl.col("job").is_not_null() & pl.col("evaluated") & (pl.col("loaded_share") >= 0.5)

    def to_peers(name: str) -> pl.Expr:
        known = pl.when(alike).then(pl.col(name))
        peers = ("job", "name")
        return pl.when(known.count().over(peers) >= 3).then(known / known.median().over(peers))

    return gpu.with_columns(power_to_peers=to_peers("loaded_power_w"), clock_to_peers=to_peers("sm_clock_p95_mhz"))


def _of_job_cards(gpu: pl.DataFrame) -> pl.DataFrame:
    """One row a job: what its GPUs have in common, and how the first of them differs."""
    have = set(gpu.columns)
    mine = gpu.filter(pl.col("job").is_not_null() & pl.col("evaluated")).sort("node", "index")
    first = [name for name in ("gpu_model", "sm", "memory_kind", "mig") if name in have]
    means = [
        name
        for name in ("power_share_p50", "turns_per_min", "tensor_nvlink_corr", "sm_clock_cv", "sm_clock_p95_ratio")
        if name in have
    ]
    most = [
        name
        for name in ("pcie_replays_per_s", "hw_slowdown_share", "memory_temperature_c", "ecc_uncorrected_new")
        if name in have
    ]
    every = [name for name in ("has_nvlink", "persistence_mode") if name in have]

    def against_others(name: str) -> pl.Expr:
        value = pl.col(name)
        others = value.slice(1).median()
        return pl.when((pl.len() >= 2) & (others > 0)).then(value.first() / others)

    return mine.group_by("job", maintain_order=True).agg(
        *[pl.col(name).first() for name in first],
        *[pl.col(name).mean() for name in means],
        *[pl.col(name).max() for name in most],
        *[pl.col(name).all(ignore_nulls=False) for name in every],
        pl.col("mem_free_min_bytes").min(),
        against_others("mem_used_bytes").alias("gpu0_mem_ratio"),
        against_others("sm_active").alias("gpu0_sm_ratio"),
    )
