"""Plotly figures as plain dicts. A bucket without a sample is null and drawn as a gap, never joined or zero.

Colours are left to the page (`meta.slot` names one of its series colours), so that light and dark both work;
dashes tell lines apart where colour does not.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import polars as pl
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from fleet.dashboard import words
from wire.metrics import BY_KEY, Scope

FigureDict: TypeAlias = dict[str, Any]
DASHES: Final = ("solid", "dot", "dash", "dashdot", "longdash", "longdashdot")
SLOTS: Final = 8
_GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Form:
    """How the values of one unit are scaled and written on an axis."""

    scale: float = 1
    tick: str = ""
    suffix: str = ""
    hover: str = ",.3~g"
    top: float | None = None  # the axis ends here at least


FORMS: Final[dict[str, Form]] = {
    "percent": Form(0.01, ".0%", "", ".1%", 1),
    "ratio": Form(1, ".0%", "", ".1%", 1),
    "bytes": Form(1 / _GIB, "", " GiB"),
    "bytes_per_second": Form(1e-9, "", " GB/s"),
    "watts": Form(1, "", " W", ",.0f"),
    "megahertz": Form(1, ",.0f", " MHz", ",.0f"),
    "celsius": Form(1, "", " °C", ".0f"),
}


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of the GPU page: `metrics` on the left axis, `right` on a second one."""

    slug: str
    title: Promise
    metrics: tuple[str, ...]
    right: tuple[str, ...] = ()


GPU_CHARTS: Final = (
    Chart("activity", _("Utilisation and what the units do"), ("sm_active", "gpu_util_pct", "tensor_active", "dram_active")),
    Chart("power", _("Power and clocks"), ("power_w", "power_limit_w"), ("sm_clock_mhz",)),
    Chart("memory", _("Device memory"), ("mem_used_bytes", "mem_total_bytes")),
    Chart(
        "traffic",
        _("PCIe and NVLink traffic"),
        ("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s", "nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s"),
    ),
    Chart("temperature", _("Temperature"), ("temperature_c", "memory_temperature_c")),
)
GPU_METRICS: Final = tuple(dict.fromkeys(name for chart in GPU_CHARTS for name in chart.metrics + chart.right))


def on_grid(frame: pl.DataFrame, start: int, end: int, step_s: int) -> pl.DataFrame:
    """The frame with one row for every bucket from `start` to `end`; buckets without a sample hold nulls."""
    grid = pl.DataFrame({"ts": range(start - start % step_s, end, step_s)}, schema={"ts": pl.Int64})
    return grid.join(frame.with_columns(pl.col("ts").cast(pl.Int64)), on="ts", how="left").sort("ts")


def _line(name: str, values: pl.Series, unit: str, grid: tuple[int, int], place: int, axis: str = "y") -> FigureDict:
    form = FORMS.get(unit, Form())
    scaled = (values.cast(pl.Float64) * form.scale).round(5)
    alone = values.is_not_null() & values.shift(1).is_null() & values.shift(-1).is_null()  # no line would show it
    dots = (
        {"mode": "lines+markers", "marker": {"size": (alone.cast(pl.Int64) * 5).to_list()}} if alone.any() else {"mode": "lines"}
    )
    return {
        "type": "scatter",
        **dots,
        "name": name,
        "x0": datetime.fromtimestamp(grid[0], UTC).strftime("%Y-%m-%d %H:%M:%S"),
        "dx": grid[1] * 1000,
        "y": scaled.to_list(),
        "yaxis": axis,
        "connectgaps": False,
        "hovertemplate": f"%{{y:{form.hover}}}{form.suffix}",
        "line": {"width": 1.6, "dash": DASHES[place % len(DASHES)]},
        "meta": {"slot": place % SLOTS},
    }


def _axis(values: Iterable[tuple[str, pl.Series]]) -> FigureDict:
    """An axis from zero to a little over the peak of `values`, each with its unit; they share one form."""
    form = Form()
    top = 1e-9
    for unit, series in values:
        form = FORMS.get(unit, Form())
        peak = series.max()
        top = max(top, form.top or 0, float(peak) * form.scale if isinstance(peak, int | float) else 0)
    top *= 1.04
    return {
        "range": [0, top],
        "tickmode": "linear",  # of its own: a second axis would else take the first one's places, and read 566 and 1,131 MHz
        "tick0": 0,
        "dtick": even_step(top),
        "tickformat": form.tick,
        "ticksuffix": form.suffix,
        "rangemode": "tozero",
        "automargin": True,  # "0.004 GB/s" is wider than the margin
        "fixedrange": True,
    }


def even_step(top: float) -> float:
    """The distance of an axis's ticks from 0 to `top`: 1, 2 or 5 times a power of ten, for three to six of them."""
    power = 10.0 ** math.floor(math.log10(top / 3))
    return float(f"{next(step * power for step in (5, 2, 1) if top / (step * power) >= 3):.6g}")


def _layout(start: int, end: int, **axes: FigureDict) -> FigureDict:
    return {
        "hovermode": "x unified",
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "margin": {"l": 64, "r": 78 if "yaxis2" in axes else 16, "t": 8, "b": 32},
        "xaxis": {
            "type": "date",
            "range": [datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S") for at in (start, end)],
            "tickformat": "%H:%M\n%Y-%m-%d",
            "hoverformat": "%Y-%m-%d %H:%M:%S UTC",
            "tickangle": 0,
            "nticks": 6,
        },
        **axes,
    }


def gpu_figures(frame: pl.DataFrame, start: int, end: int, step_s: int) -> dict[str, FigureDict]:
    """The figures of GPU_CHARTS by slug; lines that have no value at all are left out (the page says why)."""
    rows = on_grid(frame, start, end, step_s)
    grid = (start - start % step_s, step_s)
    figures: dict[str, FigureDict] = {}
    for chart in GPU_CHARTS:
        data: list[FigureDict] = []
        axes: dict[str, FigureDict] = {}
        for axis, key, names in (("y", "yaxis", chart.metrics), ("y2", "yaxis2", chart.right)):
            shown = [name for name in names if name in rows.columns and rows[name].null_count() < rows.height]
            if not shown:
                continue
            axes[key] = _axis((BY_KEY[f"gpu.{name}"].unit, rows[name]) for name in shown)
            if axis == "y2":
                axes[key] |= {"overlaying": "y", "side": "right", "showgrid": False}
            for name in shown:
                place = (chart.metrics + chart.right).index(name)
                data.append(_line(words.metric(name), rows[name], BY_KEY[f"gpu.{name}"].unit, grid, place, axis))
        figures[chart.slug] = {"data": data, "layout": _layout(start, end, **axes)}
    return figures


def evidence_figure(
    scope: Scope, metric: str, lines: Sequence[tuple[str, pl.DataFrame]], span: tuple[int, int, int], marks: Mapping[str, int]
) -> FigureDict:
    """One metric, one line for each entity; `span` is start, end, step in seconds, `marks` are named moments."""
    start, end, step_s = span
    unit = BY_KEY[f"{scope}.{metric}"].unit
    grid = (start - start % step_s, step_s)
    columns = [(name, on_grid(frame, start, end, step_s)) for name, frame in lines if metric in frame.columns]
    shown = [(name, rows[metric]) for name, rows in columns if rows[metric].null_count() < rows.height]
    data = [_line(name, values, unit, grid, place) for place, (name, values) in enumerate(shown)]
    layout = _layout(start, end, yaxis=_axis((unit, values) for _, values in shown))
    moments = [(name, datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")) for name, at in marks.items()]
    sides = ["right" if at > (start + 2 * end) / 3 else "left" for at in marks.values()]
    layout["shapes"] = [
        {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": {"width": 1, "dash": "dash"}}
        for _, at in moments
    ]
    layout["legend"] |= {"y": 1.12}  # between it and the lines stand the moments' names
    layout["annotations"] = [
        {"x": at, "yref": "paper", "y": 1, "yanchor": "bottom", "xanchor": side, "showarrow": False, "text": name}
        for (name, at), side in zip(moments, sides, strict=True)
    ]
    return {"data": data, "layout": layout}
