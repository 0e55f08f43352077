"""The planners: what there is to plan, and a page with sliders and a plot for each. Of the fleet they know one thing: the memory that its cards have."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from advisor.planners.answer import Answer, answer, read
from advisor.planners.inputs import InputError
from advisor.planners.planner import Grid, Planner
from advisor.planners.plot import drawn
from fleet import planning
from fleet.dashboard import plan_form
from fleet.dashboard.plan_figure import figure, numbers
from fleet.inventory.site_card import card_of


@login_required
@require_safe
def planners(request: HttpRequest) -> HttpResponse:
    """The page `/planners/`."""
    known = [
        {"name": one.name, "title": planning.told(one.title), "about": planning.told(one.about)}
        for one in planning.planners().values()
    ]
    return render(request, "dashboard/planners.html", {"section": "planners", "planners": known})


@login_required
@require_safe
def planner(request: HttpRequest, name: str) -> HttpResponse:
    """The page `/planners/<name>/`: the inputs stand in the address, so that every state of it is a link."""
    known = planning.planners().get(name)
    if known is None:
        raise Http404
    texts = plan_form.typed(known, request.GET.dict())
    values, wrong = read(known, texts)
    said: Answer | None = None
    together = ""
    if not wrong:
        try:
            said = answer(known, values, card_of(known))
        except InputError as error:
            if error.name in {one.name for one in known.accepted}:
                wrong[error.name] = error
            else:
                together = planning.refusal(error)
    return render(
        request,
        "dashboard/planner.html",
        {
            "section": "planners",
            "planner": known,
            "title": planning.told(known.title),
            "about": planning.told(known.about),
            "fields": plan_form.form(known, texts, wrong, said),
            "suffixes": plan_form.suffixes(),
            "problems": [*plan_form.elsewhere(known, wrong), *([together] if together else [])],
            "wrong": bool(wrong),
            "formula": [planning.told(text) for text in known.formula],
            "assumptions": [planning.told(text) for text in known.assumptions],
            "drawable": bool(known.plots),
            "verdicts": planning.VERDICT.items(),
            **(_said(known, said) if said else {}),
        },
    )


def _said(known: Planner, said: Answer) -> dict[str, Any]:
    """The result: what is asked for first, all of it, what to be careful of, the plot and its numbers, or the table."""
    told = [_row(line.name, line.label, text) for line in said.lines if (text := planning.reading(line)) is not None]
    plot = drawn(known, said.taken, said.result)
    return {
        "said": True,
        "answers": [row for name in known.answers for row in told if row["name"] == name],
        "rows": told,
        "cautions": [planning.sentence(text) for text in said.cautions],
        "of_card": planning.of_card(said),
        "plot": {"title": planning.told(plot.title), "figure": figure(plot), "numbers": numbers(plot)} if plot else None,
        "grid": _grid(known.grid(said.taken)) if known.grid else None,
    }


def _row(name: str, label: str, text: str | list[str]) -> dict[str, Any]:
    sentences = text if isinstance(text, list) else []
    return {"name": name, "label": planning.told(label), "text": text, "sentences": sentences}


def _grid(grid: Grid) -> dict[str, Any]:
    row_here, column_here = grid.here
    return {
        "title": planning.told(grid.title),
        "corner": grid.corner,
        "columns": grid.columns,
        "rows": [
            {
                "name": name,
                "cells": [
                    {
                        "slug": word,
                        "word": planning.VERDICT.get(word, ""),
                        "here": (name, column) == (row_here, column_here),
                    }
                    for column, word in zip(grid.columns, words, strict=True)
                ],
            }
            for name, words in grid.rows
        ],
    }
