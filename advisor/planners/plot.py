"""What a planner's page draws: its results over one input, all others as they are, with what stands beside them.

A planner declares `Plot`s; the first that says something of the inputs at hand is drawn: one in which a line is told and moves.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from advisor.planners.units import Unit
from advisor.text import _

if TYPE_CHECKING:
    from advisor.planners.planner import Planner, Value

POINTS: Final = 61
FEWEST: Final = 5
TOO_HIGH: Final = 2.0
"""Beyond this many times the limit a stack says nothing more, and what lies below it would be too flat to read."""

Taken: TypeAlias = "Mapping[str, Value | None]"
Curve: TypeAlias = Callable[[Any, Any, float], Mapping[str, float | None]]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot that is no field of the result: what `curve` tells under `name`."""

    name: str
    label: str
    unit: Unit


@dataclass(frozen=True, slots=True)
class Axis:
    """What is varied where it is no parameter."""

    label: str
    unit: Unit
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A point of the plot worth a name; `y` is None where no line is told there."""

    label: str
    x: float
    y: float | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """Results over one input. `curve` tells lines of its own from what was taken, the result and the input's value."""

    title: str
    over: str | Axis
    lines: tuple[str | Line, ...]
    stacked: bool = False
    log_y: bool = False
    span: float = 8.0
    """How many times its value above and below the input is varied, where its slider spans decades; else it is varied over the slider."""
    from_zero: bool = False
    """Whether the input begins at its least and rises in equal steps, as reads best where the lines are straight."""
    moves: str = ""
    """The line that must move for the plot to say something; without it, any."""
    limit: str = ""
    """A parameter drawn as a level that the lines must stay under."""
    best: str = ""
    """A field of the result: the value of the input at which the lines are best."""
    label: str = ""
    """What the axis is called where the input's own line of help says more than that."""
    curve: Curve | None = None
    marks: Callable[[Any, Any], Sequence[Mark]] | None = None


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """One line with its values; None where it is not told."""

    label: str
    unit: Unit
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A plot computed: `xs` rise, every line has a value for each of them."""

    title: str
    label: str
    unit: Unit
    xs: tuple[float, ...]
    logarithmic: bool
    log_y: bool
    stacked: bool
    lines: tuple[DrawnLine, ...]
    marks: tuple[Mark, ...]
    limit: tuple[str, float] | None


def drawn(planner: "Planner", taken: Taken, result: Any) -> Drawn | None:
    """The first of the planner's plots that says something of these inputs; None where none does."""
    return next((made for plot in planner.plots if (made := _draw(planner, plot, taken, result))), None)


def _draw(planner: "Planner", plot: Plot, taken: Taken, result: Any) -> Drawn | None:
    axis, here, whole, logarithmic = _axis(planner, plot, taken, result)
    marks = [Mark(_("as planned"), here)] if here is not None and axis.low <= here <= axis.high else []
    if plot.best and isinstance(best := getattr(result, plot.best), int | float):
        marks.append(Mark(_("best"), best))
    marks += plot.marks(taken, result) if plot.marks else ()
    xs = _xs(axis, whole, logarithmic, [mark.x for mark in marks])
    told = [_told(planner, plot, taken, result, x) for x in xs]
    level = taken.get(plot.limit) if plot.limit else None
    xs = xs[: _worth(told, level, [xs.index(mark.x) for mark in marks if mark.x in xs])]
    told = told[: len(xs)]
    named = [
        (name, DrawnLine(label, unit, values))
        for name, label, unit in _named(planner, plot)
        if any(values := tuple(row.get(name) for row in told))
    ]
    if not any(len(set(line.values)) > 1 for name, line in named if plot.moves in ("", name)):
        return None
    lines = [line for _name, line in named]
    return Drawn(
        plot.title,
        plot.label or axis.label,
        axis.unit,
        tuple(xs),
        logarithmic,
        plot.log_y,
        plot.stacked,
        tuple(lines),
        tuple(Mark(mark.label, mark.x, _height(lines, plot.stacked, xs.index(mark.x))) for mark in marks if mark.x in xs),
        (_label_of(planner, plot.limit), float(level)) if isinstance(level, int | float) else None,
    )


def _axis(planner: "Planner", plot: Plot, taken: Taken, result: Any) -> tuple[Axis, float | None, bool, bool]:
    """What is varied and from where to where, its value as planned, whether it is a whole number, and whether it rises in equal ratios."""
    if isinstance(plot.over, Axis):
        return plot.over, None, False, True
    one = next(parameter for parameter in planner.parameters if parameter.name == plot.over)
    value = taken.get(one.name)
    here = float(value) if isinstance(value, int | float) else None
    low, high = one.slider or (one.low, one.high)
    middle = here if here is not None else getattr(result, plot.best) if plot.best else None
    if one.decades and middle:
        lowest, highest = min(low, middle), max(high, middle * 2)
        low, high = (
            one.low if plot.from_zero else max(middle / plot.span, lowest, one.low),
            min(middle * plot.span, highest, one.high),
        )
    elif here is not None:
        low, high = min(low, here), max(high, here)
    if one.whole:
        low, high = math.floor(low), math.ceil(high)
    return Axis(one.about, one.unit, low, high), here, one.whole, one.decades and not plot.from_zero


def _xs(axis: Axis, whole: bool, logarithmic: bool, wanted: Sequence[float]) -> list[float]:
    low, high = axis.low, axis.high
    shares = [step / (POINTS - 1) for step in range(POINTS)]
    if logarithmic:
        xs = [low * (high / low) ** share for share in shares]
    else:
        xs = [low + (high - low) * share for share in shares]
    if whole:
        xs = [float(round(x)) for x in xs]
    return sorted({*xs, *(x for x in wanted if low <= x <= high)})


def _told(planner: "Planner", plot: Plot, taken: Taken, result: Any, x: float) -> Mapping[str, float | None]:
    if plot.curve:
        return plot.curve(taken, result, x)
    over = str(plot.over)
    try:
        there = planner.call(**{**taken, over: int(x) if x == int(x) and abs(x) < 1e15 else x})
    except ValueError:  # not every value goes with the other inputs
        return {}
    return {name: getattr(there, name) for name in plot.lines if isinstance(name, str)}


def _worth(told: Sequence[Mapping[str, float | None]], level: object, marked: Sequence[int]) -> int:
    """How many of the rows are drawn: not those at the end where no line is told, nor where a stack is far above its limit."""
    kept = len(told)
    while kept:
        values = [value for value in told[kept - 1].values() if value is not None]
        too_high = isinstance(level, int | float) and sum(values) > TOO_HIGH * level and kept > max(FEWEST, *marked, 0) + 1
        if values and not too_high:
            break
        kept -= 1
    return kept


def _named(planner: "Planner", plot: Plot) -> list[tuple[str, str, Unit]]:
    own = {one.name: one.metadata for one in fields(planner.result)}
    return [
        (line.name, line.label, line.unit) if isinstance(line, Line) else (line, own[line]["label"], own[line]["unit"])
        for line in plot.lines
    ]


def _label_of(planner: "Planner", name: str) -> str:
    return next(one.about for one in planner.parameters if one.name == name)


def _height(lines: Sequence[DrawnLine], stacked: bool, at: int) -> float | None:
    """Where a mark stands: on top of a stack, else on the first line."""
    values = [value for line in lines if (value := line.values[at]) is not None]
    return None if not values else sum(values) if stacked else values[0]
