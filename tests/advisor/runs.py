"""The recorded programs in other runs: one after the other, and on more GPUs and nodes."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from advisor.frames import Window
from tests.advisor.windows import COUNTERS, RATIOS, STRIDE, changed, keys_of, of_node


def one_after_another(window: Window, pairs: Sequence[tuple[str, str]], first_s: float, second_s: float) -> Window:
    """For each pair of jobs one run of one program that does what the first did, then what the second did: `first > second`.

    The window is a steady one that lasts for as long as either part.
    """
    jobs = dict(window.facts.select("job", "node").unique(maintain_order=True).iter_rows())
    by_memory = pl.col("gpu_mem_bytes").mean().over("gpu", "pid").rank("dense", descending=True).over("gpu").cast(pl.Int64)
    window = replace(window, process=window.process.with_columns(pid=by_memory))
    table = pl.DataFrame(
        [(new, jobs[a], jobs[b]) for new, (a, b) in enumerate(pairs)], schema=["_new", "_a", "_b"], orient="row"
    ).cast(pl.Int64)

    def joined(frame: pl.DataFrame) -> pl.DataFrame:
        counters = [name for name in COUNTERS if name in frame.columns]
        tagged = frame.with_columns(_node=of_node(frame))
        parts: list[pl.DataFrame] = []
        for side, (length, offset) in {"_a": (first_s, 0.0), "_b": (second_s, first_s)}.items():
            part = table.join(tagged.filter(pl.col("t") < length), left_on=side, right_on="_node")
            moved = part.with_columns(pl.col("t") + offset)
            if "node" in frame.columns:
                moved = moved.with_columns(node=pl.col("_new"))
            if "gpu" in frame.columns:
                moved = moved.with_columns(gpu=pl.col("gpu") % STRIDE + pl.col("_new") * STRIDE)
            keys = keys_of(moved)
            if side == "_b" and counters:
                ends = parts[0].group_by(keys).agg(pl.col(counters).last().name.prefix("_end_"))
                moved = moved.join(ends, on=keys, how="left", maintain_order="left").with_columns(
                    pl.col(name) - pl.col(name).first().over(keys) + pl.col(f"_end_{name}").fill_null(0) for name in counters
                )
            parts.append(moved.select(frame.columns))
        return pl.concat(parts).sort(*keys_of(frame), "t")

    facts = table.join(window.facts, left_on="_a", right_on="node").with_columns(
        node=pl.col("_new"), gpu=pl.col("gpu") % STRIDE + pl.col("_new") * STRIDE
    )
    names = pl.DataFrame(
        [(new, f"{a} > {b}") for new, (a, b) in enumerate(pairs)], schema={"_new": pl.Int64, "job": pl.String}, orient="row"
    )
    facts = facts.drop("job").join(names, on="_new", maintain_order="left").select(window.facts.columns).sort("gpu")
    return replace(changed(window, joined), facts=facts)


def on_more_gpus(window: Window, count: int, nodes: int = 1, seed: int = 1) -> Window:
    """Each job on `count` GPUs of `nodes` nodes: ranks that do the same, each a little off, with processes of their own.

    A node's host does for all of its ranks what the recorded one did for its own.
    """
    had = dict(window.facts.group_by("node").len().iter_rows())
    times = pl.DataFrame({"_node": list(had), "_times": [count // n for n in had.values()], "_had": list(had.values())})
    chance = np.random.default_rng(seed)

    def spread(frame: pl.DataFrame) -> pl.DataFrame:
        every_rank = frame.with_columns(_node=of_node(frame)).join(times, on="_node", how="left", maintain_order="left")
        each = every_rank.with_columns(_copy=pl.int_ranges(pl.col("_times"))).explode("_copy")
        rank = pl.col("_copy") * pl.col("_had") + pl.col("gpu") % STRIDE
        home = (pl.col("_node") * nodes + rank * nodes // count).cast(pl.Int64)
        each = each.with_columns(gpu=home * STRIDE + rank % STRIDE, _home=home, _rank=rank)
        if "node" in frame.columns:
            each = each.with_columns(
                node=pl.col("_home"), index=pl.col("_rank"), cores=pl.col("cores") * (pl.col("_times") / nodes)
            )
        if "pid" in frame.columns:
            each = each.with_columns(pid=pl.col("pid") + pl.col("_copy") * 1_000_000)
        off = [name for name in RATIOS if name in frame.columns]
        each = each.with_columns((pl.col(name) * pl.Series(chance.normal(1, 0.03, each.height))).clip(0, 1) for name in off)
        return each.select(frame.columns).sort(
            *keys_of(frame.drop("node", strict=False)), *(["t"] if "t" in frame.columns else [])
        )

    hosts = window.host.join(times, left_on="node", right_on="_node", how="left", maintain_order="left")
    more = pl.col("_times") / nodes
    counted = [name for name in (*COUNTERS, "cpu_busy_cores") if name in window.host.columns]
    hosts = hosts.with_columns(pl.col(name) * more for name in counted)
    host = (
        pl.concat(hosts.with_columns(node=pl.col("node") * nodes + k) for k in range(nodes))
        .select(window.host.columns)
        .sort("node", "t")
    )
    return replace(window, gpu=spread(window.gpu), process=spread(window.process), facts=spread(window.facts), host=host)
