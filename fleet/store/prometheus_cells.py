"""Series of dcgm-exporter, as a Prometheus keeps them, to readings in the registry's terms.

What the agent's source makes of one answer (agents/dcgm_readings.py) is made here of hours of them at once: the same table of fields
(wire/dcgm_fields.py), the same blanks, the same refusals. Where the two differ, that one is right.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from fleet.store.promql import Result
from wire import dcgm_fields
from wire.dcgm_fields import BY_NAME, FB_FREE, Field
from wire.metrics import BY_KEY, Metric

Floats = npt.NDArray[np.float64]
OF_INSTANCES: Final = frozenset((FB_FREE, 250, 252, 253, *range(1001, 1017)))
"""Fields of a MIG instance that are not its card's."""
FREE: Final = "free"
"""Stands for a metric that the registry lacks: free memory, which tells the whole where that is not told itself."""
PROFILED: Final = tuple(metric.name for number in range(1001, 1009) if (metric := dcgm_fields.metric_of(number)) is not None)
BUSY_PCT: Final = 90
"""At this share of time with a kernel resident, profiling that reads nought throughout has stopped."""
SCHEMA: Final = {
    "uuid": pl.String,
    "parent": pl.String,
    "slices": pl.Int64,
    "metric": pl.String,
    "at": pl.Int64,
    "value": pl.Float64,
}
_ROUNDING: Final = 1.005
_OTHERS: Final = ("nvlink", "nvswitch", "cpu", "cpucore")
_UUID: Final = re.compile(r"GPU-[A-Za-z0-9-]{4,72}")
_NUMBER: Final = re.compile(r"[0-9]{1,4}")
_PROFILE: Final = re.compile(r"[0-9a-z.+]{1,20}")
_SLICES: Final = re.compile(r"(?:\d+c\.)?(\d+)g\.")


@dataclass(frozen=True, slots=True)
class Of:
    """Whose series it is: a GPU, or an instance of `parent` with a profile and a number."""

    uuid: str
    parent: str | None = None
    profile: str | None = None
    instance: int | None = None


def of(labels: Mapping[str, str]) -> Of | None:
    """Whose series it is by its labels; None for a switch, a link, a CPU or what names no GPU."""
    uuid = labels.get("UUID") or labels.get("uuid", "")
    if any(label in labels for label in _OTHERS) or not _UUID.fullmatch(uuid) or not uuid.strip("GPU-0"):
        return None
    number = labels.get("GPU_I_ID", "")
    if not _NUMBER.fullmatch(number):
        return Of(uuid)
    told = labels.get("GPU_I_PROFILE", "")
    profile = told if _PROFILE.fullmatch(told) else "unknown"
    return Of(f"{uuid}:{profile.replace('+', '.')}:{number}", uuid, profile, int(number))


class Habits:
    """What exporters were seen to do: whether one gives DCGM_FI_DEV_GPU_UTIL_RATIO in percent (4.6) or as a ratio (4.7)."""

    def __init__(self) -> None:
        self._percent: dict[str, bool] = {}

    def watch(self, exporter: str, values: Floats) -> None:
        """Learn from what it gave."""
        if ((values > 1) & (values <= 100)).any():
            self._percent[exporter] = True
        elif ((values > 0) & (values < 1)).any():
            self._percent.setdefault(exporter, False)

    def percent(self, exporter: str, values: Floats) -> Floats:
        """The values in percent; a 1 of an exporter of which nothing is known yet may be either, and is absent."""
        known = self._percent.get(exporter)
        if known is None:
            return np.where(values == 1, np.nan, values)
        return values if known else values * 100


def readings(results: Iterable[Result], habits: Habits) -> pl.DataFrame:
    """Every reading of GPUs and their instances (SCHEMA), null where it is absent; of equal ones the first counts.

    A GPU that many pods may use is told of once for each.
    """
    series = list(_series(results))
    for _, field, exporter, _, values in series:
        if field.unit == "percent_or_ratio":
            habits.watch(exporter, values)
    parts = [_frame(*one, habits) for one in series]
    found = pl.concat([part for part in parts if part is not None]) if parts else pl.DataFrame(schema=SCHEMA)
    return found.unique(["uuid", "metric", "at"], keep="first", maintain_order=True)


def _series(results: Iterable[Result]) -> Iterator[tuple[Of, Field, str, npt.NDArray[np.int64], Floats]]:
    for one in results:
        field, whose = BY_NAME.get(one.metric.get("__name__", "")), of(one.metric)
        if field is None or whose is None or not one.values:
            continue
        at = np.array([round(t * 1000) for t, _ in one.values], dtype=np.int64)
        values = np.array([float(text) for _, text in one.values])
        yield whose, field, f"{one.metric.get('job')} {one.metric.get('instance')}", at, values


def _frame(
    whose: Of, field: Field, exporter: str, at: npt.NDArray[np.int64], values: Floats, habits: Habits
) -> pl.DataFrame | None:
    metric = dcgm_fields.metric_of(field.id)
    name = FREE if field.id == FB_FREE else metric.name if metric is not None else None
    if name is None:
        return None
    told = converted(metric or BY_KEY["gpu.mem_used_bytes"], field, exporter, values, habits)
    match = _SLICES.match(whose.profile or "")
    return pl.DataFrame(
        {
            "uuid": whose.uuid,
            "parent": whose.parent,
            "slices": int(match[1]) if match else None,
            "metric": name,
            "at": at,
            "value": pl.Series(told, nan_to_null=True),
        },
        schema=SCHEMA,
    )


def converted(metric: Metric, field: Field, exporter: str, values: Floats, habits: Habits) -> Floats:
    """Values in the metric's unit; blanks and what cannot be are NaN."""
    told = np.where(_is_blank(metric, values), np.nan, values)
    factor = dcgm_fields.scale(field.unit, metric)
    if factor is None:
        return np.full(len(values), np.nan)
    if field.unit == "percent_or_ratio":
        told = habits.percent(exporter, told)
    told = told * factor
    if metric.unit == "ratio":
        told = np.where((told > 1) & (told <= _ROUNDING), 1.0, told)
    fits = (told >= metric.low) & (told <= metric.high)
    if metric.is_integer:
        fits &= told == np.floor(told)
    return np.where(fits, told, np.nan)


def _is_blank(metric: Metric, values: Floats) -> npt.NDArray[np.bool_]:
    blank = values >= dcgm_fields.INT64_BLANK
    blank |= (values >= dcgm_fields.FP64_BLANK) & (values < dcgm_fields.FP64_BLANK + 16)
    if metric.kind != "counter":  # a counter may pass the 32-bit ones honestly
        blank |= (values >= dcgm_fields.INT32_BLANK) & (values < dcgm_fields.INT32_BLANK + 16)
    return blank


def whole(found: pl.DataFrame, slices: Mapping[str, int]) -> pl.DataFrame:
    """Readings of GPUs and of instances, each with what is its own, as `uuid`, `metric`, `at`, `value`.

    A GPU that is split is told of by its instances alone: what they share is its own when all say the same, memory and traffic
    add up, shares of time are weighted by `slices`, of all that the card has (7 where it is not told).
    """
    own = found.filter(pl.col("parent").is_null()).select("uuid", "metric", "at", "value")
    parts = found.filter(pl.col("parent").is_not_null())
    if parts.is_empty():
        return own
    units = {metric.name: metric.unit for metric in BY_KEY.values() if metric.scope == "gpu"} | {FREE: "bytes"}
    unit = pl.col("metric").replace_strict(list(units), list(units.values()))
    total = pl.col("parent").replace_strict(list(slices), list(slices.values()), default=7, return_dtype=pl.Int64).first()
    weighted = (pl.col("value") * pl.col("slices")).sum() / total
    joined = (
        parts.with_columns(unit=unit)
        .group_by("parent", "metric", "at", maintain_order=True)
        .agg(
            pl.col("unit").first(),
            complete=pl.col("value").is_not_null().all(),
            sliced=pl.col("slices").is_not_null().all(),
            same=pl.col("value").n_unique() == 1,
            first=pl.col("value").first(),
            added=pl.col("value").sum(),
            weighted=weighted,
        )
        .select(
            pl.col("parent").alias("uuid"),
            "metric",
            "at",
            value=pl.when(~pl.col("complete"))
            .then(None)
            .when(pl.col("unit") == "ratio")
            .then(pl.when("sliced").then(pl.col("weighted").clip(0, 1)))
            .when(pl.col("unit").is_in(["bytes", "bytes_per_second"]))
            .then("added")
            .when("same")
            .then("first"),
        )
    )
    kept = {metric.name for number in OF_INSTANCES if (metric := dcgm_fields.metric_of(number)) is not None} | {FREE}
    instances = parts.filter(pl.col("metric").is_in(kept)).select("uuid", "metric", "at", "value")
    return pl.concat([own, joined, instances]).unique(["uuid", "metric", "at"], keep="first", maintain_order=True)


def rows(told: pl.DataFrame, entities: Mapping[str, int]) -> pl.DataFrame:
    """One row for each GPU and second, ordered by key: `entity`, `ts` and a column for each metric that somebody told.

    Of one second the last scrape counts for each metric.
    """
    known = told.with_columns(
        entity=pl.col("uuid").replace_strict(list(entities), list(entities.values()), default=None, return_dtype=pl.Int64),
        ts=pl.col("at") // 1000,
    ).drop_nulls("entity")
    if known.is_empty():
        return pl.DataFrame(schema={"entity": pl.Int64, "ts": pl.Int64})
    last = known.sort("at").unique(["entity", "ts", "metric"], keep="last", maintain_order=True)
    wide = last.pivot("metric", index=["entity", "ts"], values="value", maintain_order=True).sort("entity", "ts")
    return _uncontradicted(_with_memory(wide))


def _with_memory(wide: pl.DataFrame) -> pl.DataFrame:
    """All of the memory from its three parts, where an exporter tells those alone."""
    if not {FREE, "mem_used_bytes", "mem_reserved_bytes"} <= set(wide.columns):
        return wide.drop(FREE, strict=False)
    summed = pl.col(FREE) + pl.col("mem_used_bytes") + pl.col("mem_reserved_bytes")
    told = pl.col("mem_total_bytes") if "mem_total_bytes" in wide.columns else pl.lit(None, pl.Float64)
    return wide.with_columns(mem_total_bytes=pl.coalesce(told, summed)).drop(FREE)


def _uncontradicted(wide: pl.DataFrame) -> pl.DataFrame:
    """Profiling that reads nought throughout on a busy GPU is absent: https://github.com/NVIDIA/dcgm-exporter/issues/662."""
    told = [name for name in PROFILED if name in wide.columns]
    if not told or "gpu_util_pct" not in wide.columns:
        return wide
    nought = pl.max_horizontal(told) == 0
    stopped = (pl.col("gpu_util_pct") >= BUSY_PCT) & nought
    return wide.with_columns(pl.when(~stopped.fill_null(False)).then(pl.col(name)).alias(name) for name in told)
