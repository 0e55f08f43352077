"""Whether a job's PyTorch has code for its GPU: PL-9 over the few pairs of build and card that a fleet has."""

import re
from functools import lru_cache
from typing import Final

import polars as pl

from advisor.planners.compatibility import compatibility

_BUILD: Final = re.compile(r"(\d+\.\d+)(?:\.\d+)?(?:\S*?\+(cu\d{3}))?")


def with_arch(job: pl.DataFrame) -> pl.DataFrame:
    """`job` with `arch_missing`: null where the build or the card is not in the planner's tables."""
    if not {"torch", "compute_capability"} <= set(job.columns):
        return job
    pairs = job.select("torch", "compute_capability").drop_nulls().unique()
    known = [(torch, capability, _missing(torch, capability)) for torch, capability in pairs.iter_rows()]
    schema = {"torch": pl.String, "compute_capability": pl.String, "arch_missing": pl.Boolean}
    return job.join(
        pl.DataFrame(known, schema=schema, orient="row"), on=["torch", "compute_capability"], how="left", maintain_order="left"
    )


@lru_cache(maxsize=1000)
def _missing(torch: str, capability: str) -> bool | None:
    build = _BUILD.match(torch)
    if build is None:
        return None
    try:
        return compatibility(torch=build[1], cuda=build[2], compute_capability=capability).verdict == "fail"
    except ValueError:  # a build that the planner has no table of
        return None
