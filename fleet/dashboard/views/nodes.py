"""One node: its GPUs with what they do now, its host, its processes, what happened, what it cannot say."""

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from fleet.commands.asking import MAY
from fleet.dashboard import annotations, cells, commands, engines, fact_words, facts, holding, labels, readings, words
from fleet.dashboard.listing import OPEN, grouped
from fleet.inventory.models import PROMETHEUS, Absence, Gpu, Node, Refusal
from wire.messages import PROCESSES

EVENTS_SHOWN = 50


@login_required
@require_safe
def node(request: HttpRequest, name: str) -> HttpResponse:
    """The page `/nodes/<name>/`."""
    found = get_object_or_404(Node, name=name)
    gpus = list(
        found.gpus.select_related("diagnosis").annotate(
            firing=Count("findings", filter=Q(findings__resolved_at=None, findings__condition="firing", findings__shadow=False)),
            noisy=Count("findings", filter=Q(findings__resolved_at=None, findings__condition="noisy", findings__shadow=False)),
        )
    )
    absences = list(cells.open_absences(found.pk))
    stale = found.is_stale
    ids = [gpu.pk for gpu in gpus]
    asked = commands.rows(found)
    exporter = found.source == PROMETHEUS  # an exporter tells of GPUs alone, and there is no agent to ask
    return render(
        request,
        "dashboard/node.html",
        {
            "section": "fleet",
            "node": found,
            "stale": stale,
            "exporter": exporter,
            "recordings": int(bool(found.recording)),
            "rows": gpu_rows(gpus, {} if stale else readings.newest("gpu", ids), absences, stale),
            "columns": [(name, words.SHORT.get(name) or words.metric(name), words.metric(name)) for name in cells.GPU_COLUMNS],
            "host": [] if exporter else host_cells(found, absences, stale),
            "facts": [] if exporter else facts.of_node(found),
            "holders": [] if stale else holding.rows(gpus),
            "shared_means": words.SHARED_MEANS,
            "processes": [] if stale else process_rows(found, gpus),
            "engines": engines.rows(found, stale),
            "engine_columns": engines.heads(),
            "blind": [] if stale else blind_rows(absences),
            "findings": grouped(found.findings.filter(OPEN)),
            "noisy_means": words.NOISY_MEANS,
            "events": event_rows(found),
            "annotations": annotations.of_node(found.name),
            "commands": asked,
            "commands_open": any(row.is_open for row in asked),
            "may_command": request.user.has_perm(MAY) and not found.recording and not exporter,
            "command_forms": commands.FORMS,
            "command_minutes": commands.MINUTES,
            "command_default": commands.DEFAULT_MIN,
            "why_no_gpu": "" if any(gpu.present for gpu in gpus) else why_no_gpu(found),
            "absences": cells.absence_rows(absences, len(gpus)),
            "refusals": [
                {"row": row, "means": words.word(words.REFUSAL, row.code)}
                for row in Refusal.objects.filter(node_name=found.name).order_by("-total")
            ],
            "connected": found.connected_at is not None
            and (found.disconnected_at is None or found.disconnected_at < found.connected_at),
        },
    )


def gpu_rows(gpus: Sequence[Gpu], newest: dict[int, readings.Row], absences: list[Absence], stale: bool) -> list[dict[str, Any]]:
    """One row a GPU: its cells, its bottleneck, its open findings."""
    why = cells.reasons(absences)
    rows = []
    for gpu in gpus:
        silent = stale or not gpu.present
        row = newest.get(gpu.pk)
        diagnosis = getattr(gpu, "diagnosis", None)
        rows.append(
            {
                "gpu": gpu,
                "silent": silent or row is None,
                "cells": cells.cells("gpu", cells.GPU_COLUMNS, row, why, gpu.pk, silent),
                "bottleneck": words.word(words.BOTTLENECK, diagnosis.bottleneck) if diagnosis else None,
                "slug": diagnosis.bottleneck if diagnosis else "",
                "unjudged": words.UNJUDGED,
                "findings": getattr(gpu, "firing", 0),
                "noisy": getattr(gpu, "noisy", 0),
            }
        )
    return rows


def host_cells(node: Node, absences: list[Absence], stale: bool) -> list[cells.Cell]:
    """The host's values, its counters as rates."""
    row = {} if stale else readings.host(node.pk)
    why = cells.reasons(absences)
    silent = stale or not row
    made = cells.cells("host", cells.HOST_ROWS, row or None, why, None, silent)
    for name, counter in readings.HOST_RATES.items():
        value = None if silent else row.get(name)
        if value is not None:
            reason = ""
        elif silent:
            reason = str(words.NO_NEW_SAMPLE)
        else:
            reason = why.get((None, counter), str(words.REASON["no_previous"]))
        made.append(cells.Cell(name, words.metric(counter, "host"), "bytes_per_second", value, reason))
    return made


def process_rows(node: Node, gpus: Sequence[Gpu]) -> list[dict[str, Any]]:
    """One row a process that holds one of the GPUs, with the indices of those, and what is told of it in words."""
    index = {gpu.pk: gpu.index for gpu in gpus}
    rows = readings.processes(list(index))
    told = labels.of_node(node, {gpu.uuid: gpu.index for gpu in gpus}) if rows else {}
    return [
        row | {"indices": sorted(index[gpu] for gpu in row["gpus"]), "told": told.get(row["pid"], labels.Described())}
        for row in rows
    ]


def why_no_gpu(node: Node) -> str:
    """What the agent said last of the driver, in its own words; empty where it said nothing."""
    said = node.events.filter(kind="driver", gpu=None).values_list("text", flat=True).first()
    return said or ""


def blind_rows(absences: Sequence[Absence]) -> list[dict[str, Any]]:
    """The GPUs whose holders nobody knows now, with the reason: that none is listed does not mean that none is there."""
    return [
        {"index": absence.gpu.index, "reason": words.word(words.REASON, absence.reason)}
        for absence in absences
        if absence.metric == PROCESSES and absence.gpu is not None
    ]


def event_rows(node: Node) -> list[dict[str, Any]]:
    """The newest events."""
    return [
        {
            "event": event,
            "kind": words.word(words.EVENT, event.kind),
            "severity": words.word(words.SEVERITY, event.severity),
            "text": fact_words.changed(event.text) if event.kind == "changed" else event.text,
        }
        for event in node.events.select_related("gpu")[:EVENTS_SHOWN]
    ]
