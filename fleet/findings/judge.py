"""Where store windows meet the advisor: one judgement of the whole fleet."""

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import polars as pl
from django.conf import settings

from advisor import memory_split, xid_catalog
from advisor.beside import with_more
from advisor.diagnosis import diagnose
from advisor.engine import Evaluation, evaluate, is_of_speed, silences_speed, wanted
from advisor.features import Frames, features_of
from advisor.finding import Finding as Found
from advisor.planned import READS
from advisor.rule import Rule
from fleet.findings import diagnoses
from fleet.findings.judged import Judged, Place, Target
from fleet.findings.lifecycle import reconcile, released
from fleet.findings.models import Finding, Transition
from fleet.findings.more import more, places
from fleet.findings.permitted import Permitted
from fleet.findings.steady import unsteady
from fleet.findings.told import WORDS
from fleet.findings.windows import Look, look
from fleet.inventory.models import Node
from fleet.jobs.models import Job
from fleet.tuning import durations
from fleet.tuning.in_force import InForce, in_force
from fleet.tuning.matching import thresholds
from fleet.tuning.models import OwnRule

log = logging.getLogger(__name__)

OF_PROCESSES: Final = frozenset({"tenants", "processes", "held_bytes", "main_cores", "children", "children_cores"})
"""Features that read as nobody's where no process is listed."""
_IN_ONE_QUERY: Final = 500
_QUIET: Final = {health.rule: timedelta(seconds=health.quiet_s) for health in xid_catalog.HEALTH}


def judge(at: datetime) -> list[Transition]:
    """Judge the window that ends `at`: diagnoses and findings brought up to date; the transitions written.

    Repeating it for the same `at` changes nothing more. StoreError when the store cannot be read.
    """
    began = time.monotonic()
    span_s, patience_s = settings.FETTLE_ADVISOR_WINDOW_S, settings.FETTLE_ADVISOR_PATIENCE_S
    seen = look(at, span_s, patience_s, WORDS.labels(at))
    if not seen.fresh_nodes:
        return released(at)
    force = in_force()
    asked = wanted(force.rules) | READS | memory_split.READS
    frames = with_more(features_of(seen.measured), more(at, seen, span_s, asked))
    seen = replace(seen, places={**seen.places, **places(frames)})
    still_open = frozenset(Finding.objects.filter(resolved_at=None).values_list("fingerprint", flat=True))
    rules, evaluation = verdict(force, frames, still_open)
    told = [one for one in evaluation.findings if one.rule not in force.shadow]
    lacking = {(rule_id, target) for rule_id, target, _ in evaluation.not_evaluated}
    judged = Judged(
        rules=frozenset(one.id for one in rules),
        targets=seen.places.keys(),
        missing=lacking
        | silenced(rules, told, still_open, seen.places)
        | unwatched(rules, seen)
        | left(rules, seen)
        | unsteady(rules, evaluation.findings, still_open, seen, at, span_s, patience_s),
        fresh_nodes=seen.fresh_nodes,
        gpus=seen.gpus - seen.blind,
        quiet=_QUIET,
        resting=resting(frames),
        unused=frozenset(("job", job) for job in seen.unused),
        over=over(still_open, seen.places, at),
        may=Permitted(force.known, force.off, force.shadow),
        covers=timedelta(seconds=max(span_s, 2 * settings.FETTLE_ADVISOR_EVERY_S)),
        durations=durations.in_force(force.settings, force.rules, frames, _node_names(force)),
    )
    diagnoses.keep(diagnose(frames), seen.places, at - timedelta(seconds=span_s), at)
    transitions = reconcile(at, evaluation.findings, judged, seen.places)
    if transitions:
        log.info(
            "Judged %d GPUs in %.1f s: %d findings, %d transitions.",
            seen.window.facts.height, time.monotonic() - began, len(evaluation.findings), len(transitions),
        )  # fmt: skip
    return transitions


def verdict(force: InForce, frames: Frames, still_open: Collection[str]) -> tuple[Sequence[Rule], Evaluation]:
    """The rules that could be used, and what they say with the site's thresholds; an own rule that fails is noted and left out."""
    own_values = thresholds(durations.without(force.settings), force.rules, frames, _node_names(force))
    try:
        return force.rules, evaluate(force.rules, frames, still_open, own_values, force.shadow, every_gap=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError):
        if not force.own:
            raise
        usable = [one for one in force.rules if one.id not in force.own or _holds(one, frames)]
        if len(usable) == len(force.rules):
            raise
        return usable, evaluate(usable, frames, still_open, own_values, force.shadow, every_gap=False)


def _holds(one: Rule, frames: Frames) -> bool:
    """Whether the own rule can be judged; where it cannot, its row says why."""
    try:
        evaluate((one,), frames)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError) as error:
        log.warning("The own rule %s cannot be judged: %s", one.id, error)
        OwnRule.objects.filter(slug=one.id).update(error=str(error).split("\n")[0][:500])
        return False
    return True


def _node_names(force: InForce) -> dict[int, str]:
    """The names of all nodes by their keys, where an override asks for them."""
    if not any(one.matcher in ("node", "job_family") for settings in force.settings.values() for one in settings):
        return {}
    return dict(Node.objects.values_list("pk", "name"))


def unwatched(rules: Iterable[Rule], seen: Look) -> set[tuple[str, str]]:
    """Rule and target where the rule asks what processes do, and who holds a GPU of the target is not known."""
    asking = [one for one in rules if any(not OF_PROCESSES.isdisjoint(need.features) for need in one.needs)]
    nodes = {seen.places["gpu", str(gpu)].node for gpu in seen.blind & seen.gpus}
    return {
        (one.id, target)
        for (scope, target), place in seen.places.items()
        if (place.node in nodes if scope == "node" else not seen.blind.isdisjoint(place.gpus))
        for one in asking
        if one.scope == scope
    }


def left(rules: Iterable[Rule], seen: Look) -> set[tuple[str, str]]:
    """Rule and job where the job was away in a part of the window: that its GPUs idled then does not say that its trouble is over."""
    return {(one.id, job) for one in rules if one.scope == "job" for job in seen.away}


def resting(frames: Frames) -> frozenset[Target]:
    """The jobs of which no GPU worked in the window: they load, wait or are done."""
    jobs = frames.job.filter(pl.col("working_gpus") == 0).get_column("job")
    return frozenset(("job", job) for job in jobs)


def over(still_open: Iterable[str], places: Mapping[Target, Place], at: datetime) -> frozenset[Target]:
    """The jobs of open findings that are not there any more, and of which their scheduler has told the end of the newest run."""
    asked = {target for _, scope, target in (one.split(":", 2) for one in still_open) if scope == "job"}
    away = [target for target in asked if ("job", target) not in places and "/" in target]
    ended: dict[str, bool] = {}
    for first in range(0, len(away), _IN_ONE_QUERY):
        keys = [target.partition("/") for target in away[first : first + _IN_ONE_QUERY]]
        runs = Job.objects.filter(cluster__in={cluster for cluster, _, _ in keys}, job_id__in=[number for _, _, number in keys])
        told = runs.exclude(cluster="").order_by("started_at").values_list("cluster", "job_id", "ended_at")
        ended |= {f"{cluster}/{number}": end is not None and end <= at for cluster, number, end in told}
    return frozenset(("job", target) for target in away if ended.get(target, False))


def silenced(
    rules: Iterable[Rule], found: Sequence[Found], still_open: Iterable[str], places: Mapping[Target, Place]
) -> set[tuple[str, str]]:
    """The open findings, as rule and target, that another took precedence over in this window: not seen, and not clear."""
    by_id = {one.id: one for one in rules}
    on: dict[int, list[Found]] = defaultdict(list)
    for one in found:
        for gpu in places.get((one.scope, one.target), Place(None)).gpus:
            on[gpu].append(one)
    quiet = set()
    for fingerprint in still_open:
        rule_id, scope, target = fingerprint.split(":", 2)
        place, mine = places.get((scope, target)), by_id.get(rule_id)
        if place is None or mine is None:
            continue
        others = [one for gpu in place.gpus for one in on[gpu]]
        sick = any(silences_speed(by_id[one.rule], one.severity) for one in others)
        if any(one.rule in mine.yields_to for one in others) or (sick and is_of_speed(mine)):
            quiet.add((rule_id, target))
    return quiet
