"""The plot of a planner as a Plotly figure, and the same in numbers. Colours are left to the page, as in charts.py."""

import math
from dataclasses import dataclass
from typing import Any, Final

from advisor.planners.plot import Drawn, DrawnLine
from advisor.planners.units import Unit
from fleet import planning
from fleet.dashboard.charts import DASHES, SLOTS, FigureDict, even_step

LIMIT_SLOT: Final = 7
MOST_BELOW: Final = 5
MOST_BESIDE: Final = 8
"""Places of an axis: below the plot as many as a narrow screen has room for."""
ROWS: Final = 9
"""Of the plot in numbers."""
_BINARY: Final = 1024.0
_MINUTE: Final = 60
_TIMES: Final = (
    *(1, 2, 5, 10, 20, 30), *(60, 120, 300, 600, 1200, 1800), *(3600, 7200, 14_400, 28_800, 43_200), *(86_400, 172_800, 604_800),
)  # fmt: skip
"""Round times: seconds, minutes, hours, days, a week."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A plot as a table: what is varied, the lines, and a row a value of it."""

    varied: str
    lines: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def figure(drawn: Drawn) -> FigureDict:
    """The lines or the stack, the limit, and the marks with their names."""
    data = [_trace(drawn, line, place) for place, line in enumerate(drawn.lines)]
    unit = drawn.lines[0].unit
    if drawn.limit:
        label, level = drawn.limit
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": planning.told(label),
                "x": [drawn.xs[0], drawn.xs[-1]],
                "y": [level, level],
                "hovertemplate": planning.quantity(level, unit),
                "line": {"width": 2, "dash": "dash"},
                "meta": {"slot": LIMIT_SLOT},
            }
        )
    for place, mark in enumerate(drawn.marks):
        if mark.y is not None:
            data.append(_mark(planning.told(mark.label), mark.x, mark.y, drawn, place))
    return {"data": data, "layout": _layout(drawn, unit)}


def numbers(drawn: Drawn) -> Numbers:
    """Some of the values, those of the marks among them."""
    step = max(1, math.ceil(len(drawn.xs) / ROWS))
    wanted = {*range(0, len(drawn.xs), step), len(drawn.xs) - 1, *(drawn.xs.index(mark.x) for mark in drawn.marks)}
    marked = {drawn.xs.index(mark.x): planning.told(mark.label) for mark in drawn.marks}
    return Numbers(
        planning.short(planning.told(drawn.label)),
        tuple(planning.told(line.label) for line in drawn.lines),
        tuple(
            (
                planning.quantity(drawn.xs[at], drawn.unit) + (f" ({marked[at]})" if at in marked else ""),
                tuple(_written(line, at) for line in drawn.lines),
            )
            for at in sorted(wanted)
        ),
    )


def _written(line: DrawnLine, at: int) -> str:
    value = line.values[at]
    return "–" if value is None else planning.quantity(value, line.unit)


def _trace(drawn: Drawn, line: DrawnLine, place: int) -> FigureDict:
    stacked = {"stackgroup": "all"} if drawn.stacked else {}
    return {
        "type": "scatter",
        "mode": "lines",
        "name": planning.told(line.label),
        "x": list(drawn.xs),
        "y": list(line.values),
        "customdata": [[planning.quantity(x, drawn.unit), _written(line, at)] for at, x in enumerate(drawn.xs)],
        "hovertemplate": "%{customdata[0]}: %{customdata[1]}",
        "connectgaps": False,
        "line": {"width": 1.6, "dash": "solid" if drawn.stacked else DASHES[place % len(DASHES)]},
        "meta": {"slot": place % SLOTS},
        **stacked,
    }


def _mark(label: str, x: float, y: float, drawn: Drawn, place: int) -> FigureDict:
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": label,
        "x": [x],
        "y": [y],
        "text": [label],
        "textposition": _side(drawn, x, y, place),
        "cliponaxis": False,
        "showlegend": False,
        "hovertemplate": f"{planning.quantity(x, drawn.unit)}: {planning.quantity(y, drawn.lines[0].unit)}",
        "marker": {"size": 10, "symbol": "diamond"},
        "meta": {"slot": LIMIT_SLOT},
    }


def _side(drawn: Drawn, x: float, y: float, place: int) -> str:
    """Where a mark's name stands: inside the plot, above the line where there is room, near the top in turns."""
    low, high = drawn.xs[0], drawn.xs[-1]
    share = math.log(x / low) / math.log(high / low) if drawn.logarithmic and x > 0 else (x - low) / (high - low)
    across = "right" if share < 0.2 else "left" if share > 0.8 else "center"
    top = _top(drawn)
    height = math.log(y / _bottom(drawn)) / math.log(top / _bottom(drawn)) if drawn.log_y and y > 0 else y / top
    return f"{'bottom' if height > 0.88 and place % 2 == 0 else 'top'} {across}"


def _heights(drawn: Drawn) -> list[float]:
    """The highest value at each x: of a stack the whole of it."""
    heights = []
    for at in range(len(drawn.xs)):
        values = [value for line in drawn.lines if (value := line.values[at]) is not None]
        heights.append(sum(values) if drawn.stacked else max(values, default=0.0))
    return heights


def _top(drawn: Drawn) -> float:
    return max([*_heights(drawn), drawn.limit[1] if drawn.limit else 0.0]) or 1.0


def _bottom(drawn: Drawn) -> float:
    return min((value for line in drawn.lines for value in line.values if value and value > 0), default=1.0)


def _layout(drawn: Drawn, unit: Unit) -> FigureDict:
    x = _thin(_axis(drawn.xs[0], drawn.xs[-1], drawn.unit, drawn.logarithmic))
    y = _axis(_bottom(drawn) if drawn.log_y else 0.0, _top(drawn) * (2.0 if drawn.log_y else 1.06), unit, drawn.log_y)
    return {
        "height": 320,
        "hovermode": "closest",
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "margin": {"l": 72, "r": 20, "t": 8, "b": 46},
        "xaxis": {**x, "title": {"text": planning.short(planning.told(drawn.label)), "standoff": 8}},
        "yaxis": y,
    }


def _axis(low: float, high: float, unit: Unit, logarithmic: bool) -> dict[str, Any]:
    places = _powers(low, high, unit) if logarithmic else _steps(low, high, unit)
    span = [math.log10(low), math.log10(high)] if logarithmic else [low, high]
    return {
        "type": "log" if logarithmic else "linear",
        "range": span,
        "tickmode": "array",
        "tickvals": places,
        "ticktext": [planning.quantity(place, unit) for place in places],
        "tickangle": 0,
        "automargin": True,
        "fixedrange": True,
    }


def _thin(axis: dict[str, Any]) -> dict[str, Any]:
    """The axis with every other place, or fewer, where there are more than a narrow screen has room for."""
    step = math.ceil(len(axis["tickvals"]) / MOST_BELOW)
    return {**axis, "tickvals": axis["tickvals"][::step], "ticktext": axis["ticktext"][::step]}


def _powers(low: float, high: float, unit: Unit) -> list[float]:
    """Round places in equal ratios, at most six: powers of ten, of bytes those of two."""
    if unit == "seconds" and low >= 1 and (times := _of_times(low, high)):
        return times
    base = 2.0 if unit == "bytes" else 10.0
    first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
    if last - first < 2 and base == 10.0:
        places = [digit * base**power for power in range(first - 1, last + 1) for digit in (1, 2, 5)]
        return [place for place in places if low <= place <= high]
    step = max(1, math.ceil((last - first + 1) / 6))
    return [base**power for power in range(first, last + 1, step)]


def _of_times(low: float, high: float) -> list[float]:
    """Round times from `low` to `high`, none where they would be too few."""
    places = [float(time) for time in _TIMES if low <= time <= high]
    return places[:: math.ceil(len(places) / MOST_BESIDE)] if len(places) > 2 else []


def _steps(low: float, high: float, unit: Unit) -> list[float]:
    """Round places in equal steps; of bytes they are round in the unit that is written."""
    if unit == "seconds" and 2 * _MINUTE < high <= 6 * _TIMES[-1]:
        time = next(time for time in _TIMES if high / time <= 6)
        return [float(at * time) for at in range(math.ceil(low / time), math.floor(high / time) + 1)]
    size = _BINARY ** math.floor(math.log(high, _BINARY)) if unit == "bytes" and high >= 1 else 1.0
    step = even_step((high - low) / size) * size
    first = math.ceil(low / step - 1e-9)
    return [float(f"{at * step:.12g}") for at in range(first, math.floor(high / step + 1e-9) + 1)]
