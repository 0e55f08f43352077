"""Where a GPU's time goes, and the one label that a person would give it.

**Shares.** Each sample has a part in which the compute engine worked (`busy`) and one in which it had nothing to do. The
idle part goes, sample by sample, to the first of these that explains it:

1. *checkpoint*: the process writes (SAVING_BYTES_PER_S), within half a second or a sample;
2. *copy*: PCIe runs at a good part of its link (COPY_LINK); as much of the idle part as the copied bytes need at the rate
   of pageable memory (PAGEABLE_LINK), all of it where no loader process could explain the rest. A thread that works for it while
   tensors come to the host is copying at a far lower rate too (PULL_BYTES_PER_S): fresh pages cost it more than the link does.
   Between ranks, with as much traffic up as down, this part is *communication*;
3. what is left is host time: the share in which the busiest thread of the process works although the GPU does not (a CUDA
   main thread spins while the GPU works, so its 100 % say nothing; while the GPU idles they do), and waiting.

Host time and waiting are *data* where something prepares input (see `_data`): loader processes that are busy or blocked on
the disk; a main thread on several cores, in long bursts between batches, reading, sending whole batches, or sending so few
commands (COMMANDS_PER_BUSY: each launch is about 1.3 kB over PCIe) that launching cannot be what takes its time. Otherwise the
host's work is *launch*, and waiting is *idle*; beside an unused GPU both are *idle*.

The busy part goes to the unit that was nearest its peak while the engine ran (UNITS over what each can reach in practice):
*memory_bandwidth*, *compute*, *communication* (a link nearer its peak than the math pipes), *copy* (kernels that work on host
memory), or *underfilled* when few SMs were active and nothing was near a peak. Two processes that compute on one busy GPU make
it *contention*; slowdown bits and locked clocks make it *clocks*. Without profiling counters power stands for the units.

**Phases.** A GPU that turned to something else within the window has the shares of each phase, for as long as it lasted (`phases`).

**Label.** The largest share is not always the trouble: a GPU that computes for 60 % of the time and waits 40 % for input is a
data problem. So: the largest of the causes that somebody can remove (CAUSES) wins from a share of DECISIVE on; else *idle* when
it is more than half of the time; else the largest other share.

**Thresholds** stand in the (log) middle of a gap; the comments give the measured values on both sides (H200, recordings).
"""

from typing import Final

import polars as pl

from advisor import phases
from advisor.finding import Bottleneck
from advisor.samples import SAVING_BYTES_PER_S

SHARES: Final[tuple[Bottleneck, ...]] = (
    "idle", "data", "copy", "launch", "underfilled", "compute",
    "memory_bandwidth", "communication", "checkpoint", "contention", "clocks",
)  # fmt: skip
CAUSES: Final[tuple[Bottleneck, ...]] = ("checkpoint", "copy", "data", "launch", "communication", "contention", "clocks")
WORK: Final[tuple[Bottleneck, ...]] = ("compute", "memory_bandwidth", "underfilled")
PARTS: Final = ("save", "copy", "host", "wait")
"""The idle part of a sample, before the window says what the host did."""
UNITS: Final = (
    "sm_active", "sm_occupancy", "tensor_active", "dram_active", "fp32_active", "fp64_active", "fp16_active", "int_active",
    "nvlink_share", "pcie_share",
)  # fmt: skip

DECISIVE: Final = 0.35  # the wind-down of a healthy job 0.27; launch gaps of a small transformer 0.52, of LSTM cells 0.50
BUSY_AT_ALL: Final = 0.005  # an idle context: 0.0001; the thinnest programs recorded: 0.010 (requests), 0.035 (generation)
SAVED_BYTES: Final = 100e6  # in all: compile caches and logs 16e6, a small model's state 400e6
COPY_LINK: Final = 0.05  # H2D of training images at full speed: 0.04 in bursts; pageable copies back to back: 0.30
PAGEABLE_LINK: Final = 0.30  # 18.5 GB/s of a Gen5 x16 link
# To the host: launch-bound programs 0.012e9, tensors pulled into fresh pages 1.3e9 (0.6e9 at times).
PULL_BYTES_PER_S: Final = 0.3e9
PULLING: Final = 0.5  # by a thread that works for it: results that trickle out of an evaluation use 0.1 of one
# To the GPU for each second of engine time: trainings with long kernels 0.07e9 at most, launch-bound ones from 0.19e9.
COMMANDS_PER_BUSY: Final = 0.115e9
PAYLOAD_PER_BUSY: Final = 1.3e9  # likewise: launching alone 0.6e9 at most, image batches 2.7e9
PINNED_BYTES_PER_S: Final = 3e9  # by a loader's thread at full work: 2.2e9 left it a quarter of its time
PAYLOAD_BYTES_PER_S: Final = 0.15e9  # launching 0.1e9, image batches of a starved GPU 0.36e9
TENANT_CORES: Final = 0.1  # a process that holds memory and sleeps: 0.02; one that computes: 0.15 and more
CONTENDED_BUSY: Final = 0.68  # two launch-bound processes side by side: 0.46; two trainings: 1.0
WORKER_FULL: Final = 0.64  # busy or blocked share of a loader process: healthy loader 0.45; starving ones 0.97
MAIN_WORKS: Final = 0.85  # CPU of the main thread while the GPU idles: waiting for workers 0.7; launching 0.97
FEW_SMS: Final = 0.35  # SMs while busy: CUDA graph of tiny layers 0.135; small transformer 0.75

# What a unit can reach in practice, as a share of its counter: GEMM 0.87 (under the power cap), streaming reads 0.92.
_MATH_REACH: Final = 0.85
_DRAM_REACH: Final = 0.92
_NVLINK_REACH: Final = 0.75
_PCIE_REACH: Final = 0.80


def with_causes(samples: pl.LazyFrame, reach: int = 1) -> pl.LazyFrame:
    """`samples` with the parts of each one's idle time (`part_*`), of busy, cores, write_rate and PCIe rates.

    Writing within `reach` samples counts: a save writes in bursts. Each step stands on the columns of the one before: as
    expressions of each other they would be computed four times over.
    """
    busy, idle = pl.col("busy"), 1 - pl.col("busy")
    writes = (pl.col("write_rate") >= SAVING_BYTES_PER_S).fill_null(False)
    saving = pl.any_horizontal(
        writes if k == 0 else ((pl.col("gpu") == pl.col("gpu").shift(k)) & writes.shift(k)).fill_null(False)
        for k in range(-reach, reach + 1)
    )
    up, down, link, works = (pl.col(name) for name in ("_up", "_down", "_link", "_works"))
    pulls = (pl.col("pcie_tx_bytes_per_s") >= PULL_BYTES_PER_S) & (down > 2 * up) & (works.fill_null(1.0) >= PULLING)
    copies = (
        pl.when(pulls | ((link >= COPY_LINK) & pl.col("alone")))
        .then("_left")
        .when(link >= COPY_LINK)
        .then(pl.min_horizontal("_left", link / PAGEABLE_LINK))
        .otherwise(0.0)
        .fill_null(0.0)
    )
    return (
        samples.with_columns(
            part_save=pl.when(saving).then(idle).otherwise(0.0),
            _up=(pl.col("pcie_rx_bytes_per_s") / pl.col("pcie_peak")).fill_null(0),
            _down=(pl.col("pcie_tx_bytes_per_s") / pl.col("pcie_peak")).fill_null(0),
            _works=((pl.col("cores") - busy) / pl.max_horizontal(idle, pl.lit(0.01))).clip(0, 1),
        )
        .with_columns(
            _left=idle - pl.col("part_save"),
            _link=pl.max_horizontal(up, down),
            _works=pl.when(works >= MAIN_WORKS).then(1.0).otherwise(works),
        )
        .with_columns(part_copy=copies)
        .with_columns(_left=(pl.col("_left") - pl.col("part_copy")).clip(0))
        .with_columns(part_host=pl.col("_left") * works.fill_null(pl.when(busy >= 0.02).then(1.0).otherwise(0.0)))
        .with_columns(part_wait=pl.col("_left") - pl.col("part_host"))
    )


def zero(name: str) -> pl.Expr:
    """The column, 0 where it is null: for sums in which what is unknown counts nothing."""
    return pl.col(name).fill_null(0.0)


def _data() -> pl.Expr:
    """True where the host prepares input while the GPU waits."""
    # Of the time in which the engine waited, less copies and saves, the share in which the main thread worked: a long sample holds
    # both its work and its spinning while the GPU works (ten-second means of train_eval_phases: cores 0.70, of the idle time 0.25).
    idle = zero("part_host") + zero("part_wait")
    main = pl.coalesce(pl.when(pl.col("main_cores").is_not_null() & (idle > 0)).then(pl.col("part_host") / idle), "main_cores")
    main_waits = main < MAIN_WORKS
    workers = zero("children_cores")
    children = zero("children")
    has_workers = (children >= 1) & (workers >= 0.1)
    # What the whole host reads and waits for is this job's, each rank's part, where no other job uses a GPU of the node.
    shared = pl.when(pl.col("node_jobs") <= 1).then(1.0 / pl.col("ranks").clip(1, None)).otherwise(0.0)
    blocked = shared * zero("iowait_cores")
    own_reads = zero("read_bytes_per_s")
    disk_reads = shared * zero("disk_read_bytes_per_s")
    fetches = shared * zero("net_rx_bytes_per_s")
    payload = zero("pcie_rx_bytes_per_s")
    batches = payload >= PAYLOAD_PER_BUSY * pl.col("busy")
    bursts = pl.col("quiet_share") >= 0.25
    several = pl.when(has_workers).then(2.0).otherwise(1.6)
    return (
        (pl.col("busy") >= BUSY_AT_ALL / 2)
        & (
            # several cores inside the process: preprocessing in threads (starved loader 4.5, a launching main thread 1.1)
            ((zero("main_cores") >= several) & (batches | (pl.col("quiet_share") >= 0.05) | (zero("main_cores") >= 3)))
            # workers that never rest: at work, or blocked on the disk
            | (has_workers & (workers + pl.min_horizontal(blocked, children) >= WORKER_FULL * children))
            # the main thread waits too, and somebody else works for it
            | (
                main_waits
                & ((workers >= 0.3) | (own_reads >= 20e6) | (disk_reads >= 100e6) | (fetches >= 50e6) | (blocked >= 0.3))
            )
            # the main thread waits and whole batches arrive; beside it one may pin what workers made
            | (main_waits & (payload >= 0.02e9) & batches)
            | (has_workers & (main - payload / PINNED_BYTES_PER_S < MAIN_WORKS) & batches)
            # no workers: the main thread itself reads (a disk that pages in libraries is no evidence), or sends whole batches
            | (~has_workers & (own_reads >= 20e6))
            | (~has_workers & (payload >= PAYLOAD_BYTES_PER_S) & batches)
            # no workers: the main thread works in long bursts between batches
            | (~has_workers & (main >= 0.5) & bursts & (pl.col("turns") >= 4))
            # no workers: the main thread works, but sends too few commands for launching to be what takes its time
            | (~has_workers & (main >= 0.5) & (pl.col("pcie_rx_bytes_per_s") < COMMANDS_PER_BUSY * pl.col("busy")))
        )
    ).fill_null(False)


def with_shares(gpu: pl.DataFrame) -> pl.DataFrame:
    """`gpu` with `share_*`, `bottleneck`, `confidence` and what they rest on (`math_share`, `waits_for_data`)."""
    working = ~pl.col("free") & (zero("busy") > BUSY_AT_ALL)
    gpu = gpu.with_columns(
        node_jobs=pl.coalesce("job", pl.col("gpu").cast(pl.String)).filter(working).n_unique().over("node"),
        ranks=pl.when(pl.col("job").is_null()).then(1).otherwise((working & pl.col("phase").is_null()).sum().over("job")),
        math_when_busy=pl.max_horizontal(
            "tensor_active_when_busy",
            "fp32_active_when_busy",
            "fp64_active_when_busy",
            "fp16_active_when_busy",
            pl.when(pl.col("int_active_when_busy") >= 0.5).then(pl.col("int_active_when_busy")),
        ),
        power_when_busy=pl.when(zero("busy") > 0.05).then(
            ((pl.col("power_share") - 0.17).clip(0) / 0.83 / pl.col("busy")).clip(0, 1)
        ),
    ).with_columns(waits_for_data=_data())
    both_ways = pl.min_horizontal("pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s")
    network = pl.min_horizontal("net_tx_bytes_per_s", "net_rx_bytes_per_s")
    gpu = gpu.with_columns(
        # null where no link was measured
        talks=pl.when(pl.any_horizontal(link.is_not_null() for link in (pl.col("nvlink_bytes_per_s"), both_ways, network))).then(
            ((pl.col("ranks") >= 2) & ((zero("nvlink_bytes_per_s") >= 0.2e9) | (both_ways.fill_null(0) >= 0.5e9)))
            | (network.fill_null(0) >= 100e6)
        ),
    )
    gpu = gpu.with_columns(engine=_engine())
    launches = zero("busy") >= BUSY_AT_ALL  # a host that works beside an unused GPU launches nothing
    saves = zero("write_bytes_per_s") * zero("window_s") >= SAVED_BYTES
    waits = zero("part_wait") + pl.when(saves).then(0.0).otherwise(zero("part_save"))
    idle_parts = {
        "checkpoint": pl.when(saves).then(zero("part_save")).otherwise(0.0),
        "copy": pl.when(between_ranks()).then(0.0).otherwise(zero("part_copy")),
        "communication": pl.when(between_ranks()).then(zero("part_copy")).otherwise(0.0),
        "data": pl.when("waits_for_data").then(zero("part_host") + waits).otherwise(0.0),
        "launch": pl.when(pl.col("waits_for_data") | ~launches).then(0.0).otherwise(zero("part_host")),
        "idle": pl.when("waits_for_data").then(0.0).otherwise(waits + pl.when(launches).then(0.0).otherwise(zero("part_host"))),
    }
    shares: list[pl.Expr] = []
    for name in SHARES:
        engine = pl.when(pl.col("engine") == name).then(zero("busy")).otherwise(0.0)
        shares.append((idle_parts.get(name, pl.lit(0.0)) + engine).alias(f"share_{name}"))
    gpu = gpu.with_columns(shares)
    total = pl.sum_horizontal([pl.col(f"share_{name}") for name in SHARES])
    gpu = gpu.with_columns([pl.col(f"share_{name}") / total for name in SHARES])
    gpu = phases.together(gpu, [f"share_{name}" for name in SHARES])
    return gpu.with_columns(bottleneck=pl.when(pl.col("evaluated")).then(label()), confidence=_confidence())


def between_ranks() -> pl.Expr:
    """PCIe carries as much up as down on a GPU of several: peers without NVLink."""
    up, down = zero("pcie_tx_bytes_per_s"), zero("pcie_rx_bytes_per_s")
    return (pl.col("ranks") >= 2) & (pl.min_horizontal(up, down) >= 0.4 * pl.max_horizontal(up, down))


def _engine() -> pl.Expr:
    """To whom the engine's busy time goes."""
    math = pl.col("math_when_busy") / _MATH_REACH
    dram = pl.col("dram_active_when_busy") / _DRAM_REACH
    nvlink = pl.col("nvlink_share_when_busy").fill_null(0) / _NVLINK_REACH
    pcie = pl.col("pcie_share_when_busy").fill_null(0) / _PCIE_REACH
    sms = pl.col("sm_active_when_busy")
    power = pl.col("power_when_busy")
    known = pl.col("sm_active").is_not_null() & pl.col("dram_active").is_not_null()
    # Links beside math: gradients dominate 6, healthy data parallel 0.15. Beside DRAM (all-reduce and optimizer read and write
    # it too): 0.8 against 0.2; tensor-parallel decoding 0.07.
    # Who talks has a peer, seen or not: its agent may be silent, its job unknown.
    linked = (nvlink >= 0.05) & (nvlink >= math) & (nvlink >= 0.25 * dram)
    staged = between_ranks() & (pcie >= 0.03) & (pcie >= math) & (pcie >= 0.25 * dram)
    # a collective that waits keeps the engine busy with a few spinning SMs
    spins = pl.col("talks") & (sms < 0.3) & (math < 0.1)
    # one that nobody answers: every rank spins, and nothing is computed, read or sent (tiny layers 0.008 and 0.015)
    hangs = (pl.col("ranks") >= 2) & (pl.col("busy") >= 0.9) & (sms < 0.3) & (math < 0.003) & (dram < 0.004)
    few = ((sms < FEW_SMS) & (dram < 0.4) & (math < 0.3)) | ((sms < 0.6) & (dram < 0.25) & (math < 0.15))
    # 1.2: bf16 training 0.9, ResNet in bf16 3.1, decoding 20
    memory = (dram >= 0.4) & (dram >= 1.2 * math)
    zero_copy = (pcie >= 0.25) & (pcie >= math) & (pcie >= dram)
    blind = (
        pl.when(power < 0.3).then(pl.lit("underfilled"))  # CUDA graph of tiny layers 0.04, decoding 0.75
        .when(pl.col("mem_copy_util_pct") / 100 >= 0.73 * pl.col("busy")).then(pl.lit("memory_bandwidth"))  # 0.55 and 0.97
        .otherwise(pl.lit("compute"))
    )  # fmt: skip
    return (
        pl.when(_slowed()).then(pl.lit("clocks"))
        .when((pl.col("tenants") >= 2) & (pl.col("busy") >= CONTENDED_BUSY)).then(pl.lit("contention"))
        .when(~known).then(blind)
        .when(linked | staged | spins | hangs).then(pl.lit("communication"))
        .when(zero_copy).then(pl.lit("copy"))
        .when(few).then(pl.lit("underfilled"))
        .when(memory).then(pl.lit("memory_bandwidth"))
        .otherwise(pl.lit("compute"))
    )  # fmt: skip


def _slowed() -> pl.Expr:
    """Hardware or thermal slowdown for a good part of the load, or clocks far below their maximum that power does not explain."""
    braked = (zero("hw_slowdown_share") >= 0.2) | (zero("sw_thermal_share") >= 0.5)
    # Power-capped clocks fall to 0.73 of the maximum under dense GEMM at the default limit: normal. Uncapped ones stay at 1.0.
    locked = ((pl.col("sm_clock_p95_ratio") <= 0.85) & (zero("power_cap_share") < 0.2) & (zero("loaded_share") >= 0.2)).fill_null(
        False
    )
    capped = (
        (pl.col("power_limit_ratio") < 0.95) & (zero("power_cap_share") >= 0.5) & (pl.col("sm_clock_ratio") <= 0.8)
    ).fill_null(False)
    return braked | locked | capped


def label() -> pl.Expr:
    """The label for columns `share_*`."""
    return (
        pl.when(_largest(CAUSES) >= DECISIVE)
        .then(_argmax(CAUSES))
        .when(pl.col("share_idle") > 0.5)
        .then(pl.lit("idle"))
        .otherwise(_argmax((*WORK, *CAUSES)))
    )


def _largest(names: tuple[Bottleneck, ...]) -> pl.Expr:
    return pl.max_horizontal([pl.col(f"share_{name}") for name in names])


def _argmax(names: tuple[Bottleneck, ...]) -> pl.Expr:
    top = _largest(names)
    chain = pl.lit(None, pl.String)
    for name in reversed(names):
        chain = pl.when(pl.col(f"share_{name}") >= top).then(pl.lit(name)).otherwise(chain)
    return chain


def _confidence() -> pl.Expr:
    """High with profiling counters and process readings; one step lower without either, low without both or few samples.

    Utilisation alone says that something ran, not what: low, whatever is known of the process. Low power alone tells few SMs
    from copies no better. What the host did while the GPU waited is one step less sure where helpers, writes, the link or disks
    are not known: a cause that was not measured cannot be told from one that was not there.
    """
    blind = (zero("gpm_share") < 0.5) | pl.any_horizontal(
        pl.col(name).is_null() for name in ("dram_active", "tensor_active", "fp32_active")
    )
    has_gpm = zero("gpm_share") >= 0.5
    of_host = pl.sum_horizontal(f"share_{name}" for name in ("idle", "data", "launch", "copy", "checkpoint")) >= DECISIVE
    unseen = of_host & (
        pl.any_horizontal(pl.col(name).is_null() for name in ("children", "children_cores", "write_bytes_per_s", "iowait_cores"))
        | (has_gpm & (pl.col("pcie_rx_bytes_per_s").is_null() | pl.col("pcie_tx_bytes_per_s").is_null()))
    )
    # Ranks that wait for each other draw less: gradients that dominate 0.54 of what the card may, healthy data parallel 0.99.
    works = ~has_gpm & (zero("power_when_busy") >= 0.75)
    unlinked = (pl.col("ranks") >= 2) & pl.col("nvlink_bytes_per_s").is_null() & (zero("busy") >= BUSY_AT_ALL) & ~works
    alone = blind & pl.col("power_w").is_null() & pl.col("mem_copy_util_pct").is_null() & (zero("busy") >= BUSY_AT_ALL)
    guessed = blind & (pl.col("share_underfilled") >= DECISIVE)
    lacks = blind.cast(pl.Int32) + (pl.col("main_cores").is_null() | alone | guessed).cast(pl.Int32)
    lacks = lacks + (unseen | unlinked).fill_null(False).cast(pl.Int32)
    lacks = pl.when(pl.col("free") & pl.col("mem_used_max_bytes").is_not_null()).then(0).otherwise(lacks) + (
        pl.col("samples") < 20
    ).cast(pl.Int32)
    return pl.when(lacks == 0).then(pl.lit("high")).when(lacks == 1).then(pl.lit("medium")).otherwise(pl.lit("low"))
