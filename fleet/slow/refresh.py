"""One run of the task: every frame made anew, the dear ones less often."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import polars as pl

from advisor.finding import Scope
from fleet.annotations.matching import noted
from fleet.inventory.models import STALE_AFTER, Engine, Node, Process
from fleet.jobs.holding import holders
from fleet.jobs.models import Job
from fleet.slow import base, cold_start, days, events, node_facts, power, services, spikes
from fleet.slow.frames import framed, frames, keep
from fleet.slow.models import SlowFrame
from fleet.slow.runs import ACTIVE, Merged, merge
from fleet.store.series import StoreError

log = logging.getLogger(__name__)

_IN_ONE_QUERY: Final = 500
DAY_EVERY: Final = timedelta(minutes=15)
"""Days change slowly; their roll-ups come once an hour."""
LIVE: Final = STALE_AFTER + timedelta(minutes=5)
"""Nodes that were away for less keep their rows."""


def refresh(at: datetime) -> None:
    """Bring the frames up to `at`; twice for the same time is as once.

    StoreError when the store cannot be read: what the database alone knows is kept all the same, the rest is unknown.
    """
    failed: StoreError | None = None
    merged = Merged({}, {})
    try:
        merged = merge(at)
    except StoreError as error:
        failed = error
    nodes = {node.pk: node for node in Node.objects.filter(last_seen_at__gte=at - LIVE)}
    cards = node_facts.cards(nodes)
    engines = services.there(at)
    rates: Mapping[int, float] = {}
    if failed is None:
        try:
            rates = services.finished_per_s(at, engines) if engines else {}
            _days(at, nodes, cards, engines, merged)
        except StoreError as error:
            failed = error
    _now(at, nodes, cards, engines, merged, rates)
    if failed is not None:
        raise failed


def _now(
    at: datetime,
    nodes: Mapping[int, Node],
    cards: Sequence[node_facts.Card],
    engines: Sequence[Engine],
    merged: Merged,
    rates: Mapping[int, float],
) -> None:
    told = events.read(at)
    runs = events.held(at, {event.node for event in told})
    gone = node_facts.missing(cards) | events.lost(told)
    facts = node_facts.of_nodes(nodes.values(), cards, gone, merged.persistent, at)
    names = {pk: node.name for pk, node in nodes.items()}

    shown = [card for card in cards if card.present or card.pk in gone]
    of_gpu = events.of_gpus(at, (card.pk for card in shown), told, runs)
    drawn = {model: power.features(floor) for model, floor in power.floors(at).items()}
    for card in shown:
        age_h = (at - card.created_at).total_seconds() / 3600
        of_gpu[card.pk] |= facts[card.node] | {"lost": card.pk in gone, "card_age_h": age_h} | drawn.get(card.model, {})
    of_node = events.of_nodes(at, names, told, runs)
    for pk in of_node:
        of_node[pk] |= facts[pk]
    for pk, missing in node_facts.given_and_missing(of_node, gone).items():
        of_node[pk] |= missing

    of_job = base.figures(at, merged.runs)
    for job, count in events.ooms(at, merged.runs, told, runs).items():
        of_job[job] |= facts.get(merged.runs[job].node_id, {}) | {"host_ooms_24h": count}
    job_on, home, scheduled = _jobs(at, merged, cards)
    also = _also(scheduled, home, names)
    for job in home.keys() - of_job.keys():
        of_job[job] = dict(facts.get(home[job], {}))
    for card in shown:
        if job_on.get(card.pk) in of_job:
            of_job[job_on[card.pk]] |= drawn.get(card.model, {})
    of_service = services.of_engines(at, engines)
    usual = {row["service"]: row["base_finished_per_s"] for row in frames(at)["service"].iter_rows(named=True)}
    for engine in engines:
        rate, base_rate = rates.get(engine.pk), usual.get(engine.pk)
        of_service[engine.pk] |= facts.get(engine.node_id, {})
        of_service[engine.pk]["load_ratio"] = rate / base_rate if rate is not None and base_rate else None

    listed = Process.objects.filter(last_seen_at__gte=at - ACTIVE).order_by().values_list("labels", flat=True)
    mix = node_facts.of_fleet(nodes.values(), (labels["torch"] for labels in listed if "torch" in labels))
    made: dict[Scope, dict[Any, dict[str, Any]]] = {
        "gpu": of_gpu, "node": of_node, "job": of_job, "service": of_service, "fleet": {"fleet": {}},
    }  # fmt: skip
    notes = _notes(at, names, {job: [job, *also.get(job, ())] for job in of_job}, engines)
    node_of: dict[Scope, dict[Any, int]] = {
        "gpu": {card.pk: card.node for card in shown},
        "job": home,
        "service": {engine.pk: engine.node_id for engine in engines},
    }
    for scope, rows in made.items():
        for key, row in rows.items():
            row |= mix | notes["fleet"].get("fleet", {})
            row |= notes["node"].get(node_of.get(scope, {}).get(key), {})
            row |= notes["job"].get(job_on.get(key), {}) if scope == "gpu" else {}
            row |= notes[scope].get(key, {})
        keep(scope, "now", at, framed(scope, "now", rows))


def _jobs(
    at: datetime, merged: Merged, cards: Sequence[node_facts.Card]
) -> tuple[dict[int, str], dict[str, int], dict[str, int]]:
    """The job on each GPU, the first node of each job, and the row of each that a scheduler told of.

    Of those that run, and of those that hold GPUs and run nothing there.
    """
    job_on = {gpu: job for job, run in merged.runs.items() for gpu in run.gpu_ids}
    home = {job: run.node_id for job, run in merged.runs.items()}
    node_of = {card.pk: card.node for card in cards}
    rows: dict[str, int] = {}
    for gpu, held in holders(at, processes=False).items():
        targets = {one.target for one in held}
        if gpu in node_of and len(targets) == 1:
            job = targets.pop()
            job_on[gpu] = job
            rows[job] = held[-1].job
            home.setdefault(job, node_of[gpu])
    return job_on, home, rows


def _also(rows: Mapping[str, int], home: Mapping[str, int], nodes: Mapping[int, str]) -> dict[str, list[str]]:
    """What an annotation may call a scheduler's job too: `node/user/name`, as a prolog on its first node would."""
    told: dict[int, tuple[str, str]] = {}
    keys = sorted(rows.values())
    for first in range(0, len(keys), _IN_ONE_QUERY):
        part = Job.objects.filter(pk__in=keys[first : first + _IN_ONE_QUERY])
        told |= {pk: (user, name) for pk, user, name in part.values_list("pk", "user", "name")}
    return {
        job: [f"{nodes[home[job]]}/{user or '?'}/{name or '?'}"]
        for job, pk in rows.items()
        if home[job] in nodes and pk in told
        for user, name in (told[pk],)
    }


def _notes(
    at: datetime, nodes: Mapping[int, str], jobs: Mapping[str, list[str]], engines: Iterable[Engine]
) -> dict[Scope, dict[Any, dict[str, Any]]]:
    """By scope and target the features that were annotated; `jobs` has all names of each."""
    targets: dict[Scope, dict[Any, list[str]]] = {
        "node": {pk: [name] for pk, name in nodes.items()},
        "job": dict(jobs),
        "service": {one.pk: [f"{one.node.name}/{one.name}", *([one.model] if one.model else [])] for one in engines},
        "fleet": {"fleet": ["fleet"]},
    }
    found: dict[Scope, dict[Any, dict[str, Any]]] = {"gpu": {}}
    for scope, named in targets.items():
        told = noted(scope, named, at)
        found[scope] = {key: {f"note_{name}": value for name, value in one.items()} for key, one in told.items()}
    return found


def _days(
    at: datetime, nodes: Mapping[int, Node], cards: Sequence[node_facts.Card], engines: Sequence[Engine], merged: Merged
) -> None:
    if SlowFrame.objects.filter(part="day", at__gt=at - DAY_EVERY, at__lte=at).exists():
        return
    intervals = {pk: node.interval_s for pk, node in nodes.items()}
    service = _join(
        spikes.of_day(at, engines),
        pl.DataFrame(
            list(cold_start.of_engines(at, engines).items()),
            schema={"service": pl.Int64, "first_requests_ratio": pl.Float64},
            orient="row",
        ),
    )
    hour = days.of_gpus(at, (card for card in cards if card.present), intervals)
    host = days.of_nodes(at, {pk: node.cores for pk, node in nodes.items()}, intervals)
    usual = services.usual(at)
    made: dict[Scope, pl.DataFrame] = {"service": service if usual is None else _join(service, usual)}
    if hour is not None:
        power.learn(at, hour)
        made |= {"gpu": days.days(hour), "job": days.of_jobs(hour, merged.runs.values())}
    if host is not None:
        made["node"] = host
    for scope, frame in made.items():
        keep(scope, "day", at, frame)


def _join(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    return one.join(other, on="service", how="full", coalesce=True)
