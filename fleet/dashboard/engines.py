"""The serving engines of a node as rows of its page."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from django.utils import timezone

from fleet.dashboard import fact_words, readings, words
from fleet.dashboard.cells import Cell
from fleet.inventory.models import Engine, Node
from wire.metrics import BY_KEY

COLUMNS: Final = (
    "requests_running",
    "requests_waiting",
    "kv_cache_used",
    "generation_tokens_per_s",
    "ttft_mean_s",
    "ttft_p95_s",
)
"""Metrics of the registry, and rates of its counters (readings.ENGINE_RATES)."""
SHOWN_FOR: Final = timedelta(days=1)
"""So long an engine that is no longer told of stays on the page, marked."""


def heads() -> list[tuple[str, str]]:
    """The columns' short heads and full labels."""
    return [(str(words.SHORT_ENGINE[name]), _label(name)) for name in COLUMNS]


def rows(node: Node, stale: bool) -> list[dict[str, Any]]:
    """One row an engine, by name: its cells, each with its reason where it is absent; nothing of a stale node is of now."""
    engines = list(node.engines.filter(last_seen_at__gte=timezone.now() - SHOWN_FOR).order_by("name"))
    newest = {} if stale else readings.engines([engine.pk for engine in engines])
    return [_row(engine, newest.get(engine.pk)) for engine in engines]


def _row(engine: Engine, row: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "engine": engine,
        "kind": words.word(words.ENGINE_KIND, engine.kind),
        "silent": row is None,
        "why": words.word(fact_words.ENGINE_SILENT, engine.why_silent) if row is not None and engine.why_silent else "",
        "cells": [_cell(name, row, engine) for name in COLUMNS],
    }


def _cell(name: str, row: Mapping[str, Any] | None, engine: Engine) -> Cell:
    counter = readings.ENGINE_RATES.get(name)
    unit = "per_second" if counter else BY_KEY[f"engine.{name}"].unit
    value = None if row is None else row.get(name)
    why = engine.absent.get(counter or name, "") if isinstance(engine.absent, dict) else ""
    if value is not None:
        reason = ""
    elif row is None:
        reason = str(words.NO_NEW_SAMPLE)
    elif engine.why_silent:
        reason = words.word(fact_words.ENGINE_SILENT, engine.why_silent)
    elif why:
        reason = words.word(fact_words.ENGINE_ABSENT, why)
    elif all(row.get(metric) is None for metric in readings.ENGINE_METRICS):
        reason = str(words.ENGINE_SILENT)
    elif counter and row.get(counter) is not None:
        reason = words.word(words.REASON, "no_previous")
    else:
        reason = str(words.ENGINE_LACKS)
    return Cell(name, _label(name), unit, value, reason)


def _label(name: str) -> str:
    return str(words.TOKENS_PER_S) if name == "generation_tokens_per_s" else words.metric(name, "engine")
