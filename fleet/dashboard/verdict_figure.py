"""The chart of a verdict: the measure before and after the change, side by side, with the middle of each."""

from typing import Any, Final

import numpy as np
import polars as pl
from django.utils.translation import gettext

from fleet.dashboard.charts import FORMS, FigureDict, Form
from fleet.verdicts.models import Verification
from fleet.verdicts.stretches import samples_of
from fleet.verdicts.words import MEASURES, measure_label

POINTS: Final = 300
"""Of each side; more than the eye can tell apart are thinned."""


def figure(row: Verification) -> FigureDict:
    """One line before and one after, over the seconds from the change; empty where nothing was compared."""
    measure = MEASURES.get(row.measure)
    if measure is None:
        return {"data": [], "layout": {}}
    form = FORMS.get(measure.unit, Form())
    sides = [
        (gettext("before"), row.before_samples, row.before, 0, True),
        (gettext("after"), row.after_samples, row.after, 1, False),
    ]
    data: list[FigureDict] = []
    for name, payload, middle, slot, is_before in sides:
        samples = samples_of(payload)
        if samples.is_empty() or not set(measure.needs) <= set(samples.columns):
            continue
        line = samples.select("t", measure.value.cast(pl.Float64).alias("value")).drop_nulls()
        line = line.gather_every(max(1, line.height // POINTS))
        t = line.get_column("t").to_numpy()
        if not t.size:
            continue
        at = np.round(t - t[-1] if is_before else t - t[0], 2)
        data.append(_line(name, at.tolist(), (line.get_column("value") * form.scale).round(5).to_list(), slot, form))
        if middle is not None:
            ends = [float(at[0]), float(at[-1])]
            label = gettext("middle, {side}").format(side=name)
            data.append(_line(label, ends, [round(middle * form.scale, 5)] * 2, slot, form, dash="dash"))
    return {"data": data, "layout": _layout(form, measure_label(measure.id))}


def _line(name: str, x: list[float], y: list[float], slot: int, form: Form, dash: str = "solid") -> FigureDict:
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "meta": {"slot": slot},
        "line": {"width": 1.6, "dash": dash}, "hovertemplate": f"%{{y:{form.hover}}}{form.suffix}",
    }  # fmt: skip


def _layout(form: Form, label: str) -> dict[str, Any]:
    return {
        "hovermode": "x unified",
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "margin": {"l": 64, "r": 16, "t": 8, "b": 44},
        "xaxis": {"title": {"text": gettext("seconds from the change")}, "fixedrange": True},
        "yaxis": {
            "rangemode": "tozero", "tickformat": form.tick, "ticksuffix": form.suffix, "automargin": True, "fixedrange": True,
        },
        "shapes": [{"type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1, "line": {"width": 1, "dash": "dash"}}],
    }  # fmt: skip
