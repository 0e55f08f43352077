"""A family's runs as a page shows them: one block for each number of GPUs of each model, with a chart, its changes and its runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from fleet.dashboard.charts import FigureDict, even_step
from fleet.dashboard.templatetags.units import ABSENT, SPACE, plain, seconds, utc
from fleet.slow.baselines import Baseline, Level
from fleet.slow.families import Compared, of_family
from fleet.slow.past_runs import Past, step_time_s

MOST_ROWS: Final = 30
NAMES: Final = {
    "step_time_s": _("Time of a step"),
    "samples_per_s": _("Samples a second"),
    "energy_j_per_sample": _("Energy of a sample"),
}
_LINE_SLOT: Final = 0
_BASE_SLOT: Final = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the runs: its baseline as facts, and what became of it as sentences."""

    name: str
    median: str
    spread: str
    value: str
    ratio: str
    is_worse: bool
    sentences: Sequence[str]


@dataclass(frozen=True, slots=True)
class Block:
    """The runs on as many GPUs of one model; `few` says why there is no baseline."""

    title: str
    runs: Sequence[Past]
    total: int
    figures: Sequence[Figure]
    few: str
    chart: FigureDict | None


def blocks(program: str, at: datetime) -> list[Block]:
    """The blocks of a family; none where it has no run."""
    found = []
    for family, runs, compared in of_family(program, at):
        few = ""
        if not compared.measures:
            few = gettext(
                "Too few runs that are alike for a baseline: it takes three before the newest one, each with reported steps."
            )
        title = f"{family.gpus} × {family.gpu_model}" if family.gpu_model else gettext("{gpus} GPUs").format(gpus=family.gpus)
        figures = [_figure(base, compared) for base in compared.measures]
        found.append(Block(title, list(reversed(runs))[:MOST_ROWS], len(runs), figures, few, chart(runs, compared)))
    return found


def chart(runs: Sequence[Past], compared: Compared) -> FigureDict | None:
    """Step time by run as a Plotly figure, its change points marked; None where no run reported steps."""
    told = [one for one in runs if one.step_time_s]
    if not told:
        return None
    same = {one.pk for one in compared.before}  # these as they would be with the newest run's batch, as they are compared
    steps = [float((step_time_s(one, compared.run) if one.pk in same else one.step_time_s) or 0) for one in told]
    base = next((one for one in compared.measures if one.measure.name == "step_time_s"), None)
    moments = [_moment(one.first_seen) for one in told]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines+markers", "name": str(NAMES["step_time_s"]), "x": moments, "y": [float(f"{step:.6g}") for step in steps],
            "customdata": [one.job for one in told], "hovertemplate": "%{customdata}: %{y:,.4~g} s", "line": {"width": 1.2},
            "marker": {"size": 6}, "meta": {"slot": _LINE_SLOT},
        }
    ]  # fmt: skip
    if base is not None:
        data.append(
            {
                "type": "scatter", "mode": "lines", "name": gettext("Baseline"), "x": [moments[0], moments[-1]],
                "y": [float(f"{base.median:.6g}")] * 2, "hovertemplate": "%{y:,.4~g} s", "line": {"width": 1.6, "dash": "dash"},
                "meta": {"slot": _BASE_SLOT},
            }
        )  # fmt: skip
    top = max([*steps, base.median if base else 0.0]) * 1.1
    marks = [(_moment(level.first.first_seen), f"{level.after / level.before - 1:+.0%}") for level in base.levels] if base else []
    layout = {
        "hovermode": "closest",
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.14, "yanchor": "bottom"},
        "margin": {"l": 64, "r": 16, "t": 8, "b": 32},
        "xaxis": {"type": "date", "tickangle": 0, "nticks": 6, "hoverformat": "%Y-%m-%d %H:%M UTC", "fixedrange": True},
        "yaxis": {
            "range": [0, top], "tickmode": "linear", "tick0": 0, "dtick": even_step(top), "ticksuffix": " s", "rangemode": "tozero",
            "automargin": True, "fixedrange": True,
        },
        "shapes": [
            {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": {"width": 1, "dash": "dash"}}
            for at, _ in marks
        ],
        "annotations": [
            {"x": at, "yref": "paper", "y": 1, "yanchor": "bottom", "xanchor": "center", "showarrow": False, "text": text}
            for at, text in marks
        ],
    }  # fmt: skip
    return {"data": data, "layout": layout}


def _figure(base: Baseline, compared: Compared) -> Figure:
    unit = base.measure.unit
    return Figure(
        str(NAMES[base.measure.name]), _written(base.median, unit), _written(base.mad, unit), _written(base.value, unit),
        ABSENT if base.ratio is None else f"{base.ratio:.2f}", base.first_bad is not None, list(_sentences(base, compared)),
    )  # fmt: skip


def _sentences(base: Baseline, compared: Compared) -> Sequence[str]:
    found = [_level(level, base, compared) for level in base.levels]
    is_level = base.first_bad is not None and any(level.first.pk == base.first_bad.pk for level in base.levels)
    if base.first_bad is not None and not is_level:
        says = ngettext(
            "The newest run is worse than usual: {job}, begun {at}.",
            "The newest {runs} runs are worse than usual, the first of them {job}, begun {at}.",
            base.bad_runs,
        )
        found.append(
            says.format(runs=base.bad_runs, job=base.first_bad.job, at=utc(base.first_bad.first_seen))
            + _changed(base.last_good, base.first_bad, compared)
        )
    if base.drift is not None and base.drift.is_sure:
        says = gettext("It drifts: over {days:.0f} days to {ratio:.2f} times, between {low:.2f} and {high:.2f} (95 %).")
        found.append(
            says.format(days=base.drift.days, ratio=base.drift.ratio, low=base.drift.low_ratio, high=base.drift.high_ratio)
        )
    return found


def _level(level: Level, base: Baseline, compared: Compared) -> str:
    says = gettext("From {job} on, begun {at}: {before} before, {since} since.")
    unit = base.measure.unit
    said = says.format(
        job=level.first.job,
        at=utc(level.first.first_seen),
        before=_written(level.before, unit),
        since=_written(level.after, unit),
    )
    return said + _changed(level.last, level.first, compared)


def _changed(before: Past | None, since: Past, compared: Compared) -> str:
    differences = compared.differences.get((before.pk, since.pk), ()) if before is not None else ()
    if not differences:
        return " " + gettext("Versions, nodes and flags are the same as far as they are known.")
    told = "; ".join(f"{what} {old} → {new}" for what, old, new in differences)
    return " " + gettext("Changed with it: {changes}.").format(changes=told)


def _written(value: float | None, unit: str) -> str:
    if unit == "seconds":
        return seconds(value)
    return plain(value) if value is None or unit != "joules" else f"{plain(value)}{SPACE}J"


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")
