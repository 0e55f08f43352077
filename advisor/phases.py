"""Where a GPU turns, within the window, to something else that it then goes on doing: each such phase is judged by itself.

The means of a program that loaded for half of the window and computed for the other half are those of neither: whole windows of two
recordings in a row put up to 0.86 of the time under a cause that neither has. A cycle is no phase: steps and epochs that come
back are one behaviour, judged over all of the window.

A window is cut in pieces; the cut between two of them that leaves the least variance within both sides is where a GPU turned, if it
explains most of the variance (EXPLAINED), the sides differ (APART) and both last (MIN_PHASE_S). Each side may turn once more.
"""

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from advisor.samples import SAVING_BYTES_PER_S, Judged

PIECES: Final = 24
"""Of a window; the piece in which a GPU turned has something of both, 2 % of the window on the average."""
MIN_PIECE_S: Final = 1.0
MIN_PHASE_S: Final = 5.0
"""The shortest that says what a program goes on doing: an evaluation between two stretches of training lasted 1.5 s, a program's end 3 s."""
EXPLAINED: Final = 0.5
"""Of the variance, by the cut. Recordings over and over by themselves, a fifth of noise on them: 0.4 at most, of ten-second samples 0.7
(to no harm); two of them in a row, a minute each: 0.75 and more."""
APART: Final = 0.1
"""How far some activity's mean must move, as a share of its range."""
ALL_ALONG: Final = 0.98  # presence of a process that holds the GPU from end to end, a lost reading or two
_ROUNDS: Final = 2
_READINGS: Final = {
    "busy": 1.0, "sm_active": 1.0, "tensor_active": 1.0, "fp32_active": 1.0, "dram_active": 1.0, "mem_copy_util_pct": 100.0,
    "power_w": 10_000.0, "cores": 2.0, "write_rate": SAVING_BYTES_PER_S, "pcie_rx_bytes_per_s": 31.5e9, "pcie_tx_bytes_per_s": 31.5e9,
}  # fmt: skip
"""What tells one behaviour from another, and what counts as its full range; power is taken as a share of the GPU's highest."""
_TURNS: Final = {"gpu": pl.Int64, "phase": pl.Int64, "phase_s": pl.Float64, "start_t": pl.Float64, "end_t": pl.Float64}


def turns(part: Judged) -> pl.DataFrame:
    """The phases of the GPUs that have more than one.

    `gpu`, `phase` (from 1), `phase_s` (how long it lasted), and `start_t` to `end_t`, between which it is judged: the pieces beside
    a turn are left out where enough is left, as in one of them the GPU does both.
    """
    if part.samples.is_empty():
        return pl.DataFrame(schema=_TURNS)
    pieces = _pieces(part)
    for _ in range(_ROUNDS):
        pieces = _parted(pieces)
    number = pl.int_range(1, pl.len() + 1).over("gpu")
    many = pl.len().over("gpu")
    edge = pl.when(pl.col("to") - pl.col("from") >= 3).then(1).otherwise(0)
    return (
        pieces.group_by("gpu", "part", maintain_order=True)
        .agg(pl.col("first", "length").first(), pl.col("piece").min().alias("from"), pl.col("piece").max().alias("to"))
        .with_columns(
            phase=number,
            phase_s=(pl.col("to") - pl.col("from") + 1) * pl.col("length"),
            start_t=pl.when(number > 1)
            .then(pl.col("first") + pl.col("length") * (pl.col("from") + edge))
            .otherwise(float("-inf")),
            end_t=pl.when(number < many)
            .then(pl.col("first") + pl.col("length") * (pl.col("to") + 1 - edge))
            .otherwise(float("inf")),
        )
        .filter(many > 1)
        .select(pl.col(name).cast(kind) for name, kind in _TURNS.items())
    )


def _pieces(part: Judged) -> pl.DataFrame:
    """`gpu`, `piece`, `samples` and the means that tell one behaviour from another, of the GPUs of which any of them moves.

    `first` and `length` say which time the GPU's pieces are. In numpy: the samples are in order, so that each piece is a slice of them,
    and the whole fleet's are summed without grouping.
    """
    samples = part.samples
    gpu, t = samples.get_column("gpu").to_numpy(), samples.get_column("t").to_numpy()
    own = _starts(gpu)
    first, span = t[own], t[np.append(own[1:], t.size) - 1] - t[own]
    length = np.maximum(MIN_PIECE_S, span / PIECES)
    rows = np.diff(own, append=t.size)
    # a sample tells of the time before it
    piece = np.ceil((t - np.repeat(first, rows)) / np.repeat(length, rows)).astype(np.int64) - 1
    piece = np.clip(piece, 0, PIECES - 1)
    starts = _starts(gpu * PIECES + piece)
    size = np.diff(starts, append=t.size)
    means = np.column_stack([_means(samples.get_column(name), starts, size) for name in _READINGS])
    means = np.clip(means / np.array(list(_READINGS.values())), 0, 1)
    of = gpu[starts]
    gpus = _starts(of)
    rows = np.diff(gpus, append=of.size)
    power = list(_READINGS).index("power_w")
    peak = np.repeat(np.maximum.reduceat(means[:, power], gpus), rows)
    means[:, power] /= np.where(peak > 0, peak, 1)
    apart = np.maximum.reduceat(means, gpus) - np.minimum.reduceat(means, gpus)
    several = part.holders.filter(pl.col("presence") < ALL_ALONG).get_column("gpu").unique()
    long = span >= 2 * MIN_PHASE_S
    moves = np.repeat(long & ((apart >= APART).any(axis=1) | np.isin(of[gpus], several.to_numpy())), rows)
    pieces = pl.DataFrame(
        {
            "gpu": of[moves],
            "piece": piece[starts][moves],
            "samples": size[moves],
            "part": np.zeros(moves.sum(), np.int64),
            "first": np.repeat(first, rows)[moves],
            "length": np.repeat(length, rows)[moves],
        }
    ).hstack(pl.from_numpy(means[moves], schema=list(_READINGS)))
    at = part.processes.filter(pl.col("gpu").is_in(several.implode())).group_by("gpu", "t").agg(held_by=pl.len().clip(0, 4) / 4)
    number = ((pl.col("t") - pl.col("first")) / pl.col("length")).ceil().cast(pl.Int64) - 1
    held = (
        at.join(pieces.select("gpu", "first", "length").unique(), on="gpu")
        .group_by("gpu", piece=number.clip(0, PIECES - 1))
        .agg(pl.col("held_by").mean())
    )
    return pieces.join(held, on=("gpu", "piece"), how="left", maintain_order="left").with_columns(pl.col("held_by").fill_null(0))


def _starts(values: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where another value begins."""
    return np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))


def _means(column: pl.Series, starts: NDArray[np.intp], size: NDArray[np.intp]) -> NDArray[np.float64]:
    """The mean of what is known of each slice; 0 where nothing is: what nobody measures does not move."""
    known = size if not column.null_count() else np.add.reduceat(column.is_not_null().to_numpy().astype(np.int64), starts)
    sums: NDArray[np.float64] = np.add.reduceat(column.fill_null(0.0).to_numpy(), starts)
    return sums / np.maximum(known, 1)


def _parted(pieces: pl.DataFrame) -> pl.DataFrame:
    """`pieces` with parts in which something turned made two."""
    if pieces.is_empty():
        return pieces
    part = pieces.get_column("part").to_numpy()
    starts = _starts(pieces.get_column("gpu").to_numpy() * (1 << _ROUNDS) + part)
    rows = np.diff(starts, append=part.size)
    group = np.repeat(np.arange(starts.size), rows)
    weight = pieces.get_column("samples").to_numpy().astype(np.float64)[:, None]
    means = pieces.select(pl.exclude("gpu", "piece", "samples", "part", "first", "length")).to_numpy()

    def until(values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums from the part's first piece to each."""
        sums = np.cumsum(values, axis=0)
        return sums - (sums[starts] - values[starts])[group]

    total, sums = np.add.reduceat(weight, starts), np.add.reduceat(weight * means, starts)
    square = np.add.reduceat(weight * means**2, starts).sum(axis=1) - (sums**2 / total).sum(axis=1)
    before, after = until(weight), np.maximum(total[group] - until(weight), 1e-9)
    left = until(weight * means)
    apart = left / before - (sums[group] - left) / after
    between = (apart**2).sum(axis=1) * (before * after)[:, 0] / total[group, 0]
    piece = pieces.get_column("piece").to_numpy()
    lasts = np.maximum(2.0, MIN_PHASE_S / pieces.get_column("length").to_numpy())
    good = (piece + 1 - piece[starts][group] >= lasts) & (piece[starts + rows - 1][group] - piece >= lasts)
    good &= (np.abs(apart).max(axis=1) >= APART) & (between >= EXPLAINED * square[group])
    between = np.where(good, between, -1.0)
    best = np.maximum.reduceat(between, starts)[group]
    cut = np.maximum.reduceat(np.where(good & (between == best), piece, -1), starts)[group]
    return pieces.with_columns(part=pl.Series(2 * part + ((cut >= 0) & (piece > cut))))


def key(name: str) -> pl.Expr:
    """The key of a phase of a GPU or a node, needing `phase`."""
    return pl.col(name) * (1 << _ROUNDS) + pl.col("phase") - 1


def whole(name: str) -> pl.Expr:
    """The key of a GPU or a node, of that of a phase of it."""
    return pl.col(name) // (1 << _ROUNDS)


def rows_of(frame: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """The rows of `frame` in each phase, with its key for that of the GPU or node; of a node whose GPUs turn at other times all of them."""
    keys = [name for name in ("gpu", "node", "holder") if name in frame.columns]
    by = "gpu" if "gpu" in keys else "node"
    of = spans.group_by(by, "phase").agg(pl.col("start_t").min(), pl.col("end_t").max())
    within = (pl.col("t") > pl.col("start_t")) & (pl.col("t") <= pl.col("end_t"))
    rows = frame.join(of, on=by).filter(within).with_columns(map(key, keys))
    return rows.select(frame.columns).sort(by, *(["pid"] if "pid" in frame.columns else []), "t")


def together(gpu: pl.DataFrame, shares: list[str]) -> pl.DataFrame:
    """The rows of whole windows; what has phases has the shares of these, each for as long as it lasted."""
    phases = gpu.filter(pl.col("phase").is_not_null() & pl.col("busy").is_not_null())
    gpu = gpu.filter(pl.col("phase").is_null()).drop("phase", "phase_s")
    if phases.is_empty():
        return gpu
    lasts = pl.col("phase_s")
    told = phases.group_by("gpu").agg(
        *[((pl.col(name) * lasts).sum() / lasts.sum()).alias(f"_{name}") for name in shares],
        pl.col("waits_for_data").any().alias("_waits_for_data"),
        pl.col("engine").sort_by(lasts * pl.col("busy")).last().alias("_engine"),
    )
    names = [*shares, "waits_for_data", "engine"]
    return (
        gpu.join(told, on="gpu", how="left", maintain_order="left")
        .with_columns(pl.coalesce(f"_{name}", name).alias(name) for name in names)
        .drop(f"_{name}" for name in names)
    )
