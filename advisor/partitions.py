"""`partition` of each target: what Slurm told its processes, else what was annotated (`partition`), as a scheduler of another kind may.

A node may be in several: then what was annotated of it counts, else those of all the jobs on it, joined by ", ".
"""

from typing import Final

import polars as pl

SEPARATOR: Final = ", "


def with_partition(
    gpu: pl.DataFrame, job: pl.DataFrame, node: pl.DataFrame, service: pl.DataFrame | None
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame | None]:
    """The frames with the column `partition`; null is not known."""
    job = job.with_columns(partition=_first(job, "partition", "note_partition"))
    if service is not None:
        service = service.with_columns(partition=_first(service, "partition", "note_partition"))
    cards = gpu.join(job.select("job", _of_job="partition"), on="job", how="left", maintain_order="left")
    here = (
        cards.group_by("node")
        .agg(pl.col("_of_job").drop_nulls().unique().sort())
        .select("node", _of_jobs=pl.when(pl.col("_of_job").list.len() > 0).then(pl.col("_of_job").list.join(SEPARATOR)))
    )
    node = node.join(here, on="node", how="left", maintain_order="left")
    return (
        cards.with_columns(partition=_first(cards, "_of_job", "note_partition")).drop("_of_job"),
        job,
        node.with_columns(partition=_first(node, "note_partition", "_of_jobs")).drop("_of_jobs"),
        service,
    )


def _first(frame: pl.DataFrame, *names: str) -> pl.Expr:
    """The first of the columns that is known; what the frame lacks is not."""
    return pl.coalesce(*[pl.col(name) for name in names if name in frame.columns], pl.lit(None, pl.String))
