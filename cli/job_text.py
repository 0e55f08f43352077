"""A job's report as text for a terminal. What the report does not hold is not printed: nothing stands for 0 that was not measured.

The report is what GET /api/v1/jobs/ID/report/ answers; a server that makes none gives `job` and `findings` of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, Final

_BAR: Final = 30
_EVENTS: Final = 20
_STATES: Final = {
    "out_of_memory": "out of memory",
    "node_fail": "failed with its node",
    "ended": "ended: nobody told how",
    "lost": "lost: its scheduler forgot it",
}


def lines(report: Mapping[str, Any], number: int, total: int) -> Iterator[str]:
    """The report of run `number` of `total`."""
    job = report["job"]
    yield from _head(job, number, total)
    yield from _used(report)
    yield ""
    yield from _bottleneck(report)
    events = report.get("events") or []
    if events:
        yield ""
        yield "Events:"
        for event in events[:_EVENTS]:
            yield f"  {_time(event['at'])}  {event['text']}"
        if (total_events := report.get("events_total", len(events))) > _EVENTS:
            yield f"  and {total_events - _EVENTS} more"
    if absent := report.get("absent"):
        yield ""
        yield "Not told:"
        yield from (f"  {_plain(name.removeprefix('quantiles.'))}: {why}" for name, why in absent.items())
    findings = report.get("findings")
    if findings is None:
        return
    if not findings:
        yield ""
        why = (report.get("absent") or {}).get("bottleneck")
        yield f"It was not judged: {why}." if why else "Nothing to change: no rule found anything."
    for place, finding in enumerate(findings, start=1):
        yield ""
        yield from _finding(place, finding)


def _head(job: Mapping[str, Any], number: int, total: int) -> Iterator[str]:
    called = job.get("labels", {}).get("slurm_id")
    who = ", ".join(text for text in (job["name"], job["user"], job["account"], job["partition"]) if text)
    again = f", run {number} of {total}" if total > 1 else ""
    yield f"Job {job['target']}{f' ({called})' if called else ''}{again}{f': {who}' if who else ''}"
    ended_at, code = job["ended_at"], job["exit_code"]
    state = _STATES.get(job["state"], job["state"])
    yield f"State:   {state}{'' if code is None else f' (exit code {code})'}"
    end = datetime.now(timezone.utc) if ended_at is None else _moment(ended_at)
    took = _duration((end - _moment(job["started_at"])).total_seconds())
    yield f"Ran:     {took}, from {_time(job['started_at'])} to {'now' if ended_at is None else _time(ended_at)}"
    yield f"GPUs:    {_gpus(job)}"


def _gpus(job: Mapping[str, Any]) -> str:
    """Where it holds or held which. Of a large job the server names the first ones."""
    by_node: dict[str, list[str]] = {}
    named = job.get("allocations", ())
    for one in named:
        index = one.get("gpu_index")
        name = str(index) if index is not None else str(one["device"])
        by_node.setdefault(one["node_name"], []).append(name + (" (shared)" if one["shared"] else ""))
    places = "; ".join(f"{node}: {', '.join(dict.fromkeys(names))}" for node, names in sorted(by_node.items()))
    more = job.get("allocations_total", len(named)) - len(named)
    if more > 0:
        places += f"; and {more} more, {job['nodes_total']} node{'s' if job['nodes_total'] != 1 else ''} in all"
    total = job["gpus_total"] or sum(len(set(names)) for names in by_node.values()) + max(0, more)
    why = job.get("labels", {}).get("gpus_total_absent")
    return f"{total}{f' ({places})' if places else ''}" if total else f"not told{f': {why}' if why else ''}"


def _used(report: Mapping[str, Any]) -> Iterator[str]:
    hours = report.get("gpu_hours")
    if hours is not None:
        idle = report.get("idle_gpu_hours")
        cost = report.get("cost")
        money = "" if cost is None else f", {cost:,.2f} {report.get('currency') or ''}".rstrip()
        if shared := report.get("shared_gpu_hours"):
            yield f"Shared:  {shared:,.2f} GPU-hours with other jobs, in no other figure"
        yield f"Used:    {hours:,.2f} GPU-hours{'' if idle is None else f', {idle:,.2f} of them idle'}{money}"
    if report.get("energy_j") is not None:
        yield f"Energy:  {report['energy_j'] / 3.6e6:,.2f} kWh"
    low, high = report.get("idle_energy_low_j"), report.get("idle_energy_high_j")
    if low is not None and high:
        yield f"         {low / 3.6e6:,.2f} to {high / 3.6e6:,.2f} kWh of it idle{_idle_power(report)}"
    if report.get("mfu") is not None:
        yield f"MFU:     {report['mfu']:.0%} of the cards' peak"
    if report.get("coverage") is not None:
        yield f"Watched: {report['coverage']:.0%} of its GPU time has readings"
        if report.get("telemetry_aged_out"):
            yield "         Its readings have aged out; this is what was kept."
    if report.get("outdated_since"):
        yield f"         On {report['outdated_since'][:10]} something else was told of what it held, too late to make the report anew."
    for name, row in (report.get("quantiles") or {}).items():
        parts = ", ".join(f"{key} {_value(name, row[key])}" for key in ("p5", "p50", "p95") if row.get(key) is not None)
        if parts:
            yield f"  {_plain(name.removesuffix('_s')):<14} {parts}"
    if ranks := report.get("ranks"):
        yield from _ranks(ranks)


def _idle_power(report: Mapping[str, Any]) -> str:
    """What they drew idle, beside the site's floors."""
    floors = ", ".join(f"{one['model']} {one['watts']:.0f} W" for one in report.get("idle_power_floors") or ())
    read = report.get("idle_power_w")
    return f" (idle cards here: {floors}{'' if read is None else f'; these drew {read:.0f} W'})" if floors else ""


def _ranks(ranks: Mapping[str, Any]) -> Iterator[str]:
    """How far the ranks are apart, and which is the slowest."""
    name = ranks["by"]
    apart = "" if ranks["ratio"] is None else f", {ranks['ratio']:.2f} times"
    yield f"Ranks:   {ranks['ranks']}, {_plain(name.removesuffix('_s'))} {_value(name, ranks['low'])} to {_value(name, ranks['high'])}{apart}"
    if ranks.get("rows"):
        slowest = ranks["rows"][0]
        yield f"         slowest: {slowest['node']} GPU {slowest['index']}"


def _value(name: str, value: float) -> str:
    """Seconds where the name says so, else a share."""
    return f"{value:.3g} s" if name.endswith("_s") else f"{value:.0%}"


def _bottleneck(report: Mapping[str, Any]) -> Iterator[str]:
    """The one that the report names; else what its findings blame."""
    name = report.get("bottleneck")
    findings = report.get("findings") or []
    if name:
        confidence = report.get("confidence")
        yield f"Bottleneck: {_plain(name)}{f' ({confidence} confidence)' if confidence else ''}"
    elif blamed := next((one["bottleneck"] for one in findings if one.get("bottleneck")), ""):
        yield f"Bottleneck: {_plain(blamed)} (by the finding that could win back most)"
    else:
        yield "Bottleneck: not judged"
    for cause, share in sorted((report.get("shares") or {}).items(), key=lambda item: -item[1]):
        if share >= 0.005:
            yield f"  {_plain(cause):<17}{share:>5.0%}  {'#' * round(share * _BAR)}"


def _finding(place: int, finding: Mapping[str, Any]) -> Iterator[str]:
    says = finding["says"]
    over = "" if finding.get("resolved_at") is None else ", over"
    yield f"{place}. [{finding['severity']}] {says['title']} ({finding['rule']}, {finding['confidence']} confidence{over})"
    yield from _indented(says["summary"].split("\n"))
    if (hours := finding.get("gpu_hours_a_day")) is not None:
        cost = finding.get("cost_a_day")
        money = "" if cost is None else f", {cost:,.2f} {finding.get('currency') or ''} a day".rstrip()
        yield f"   Costs: {hours:,.1f} GPU-hours a day{money}, while it runs"
    if says["change"]:
        yield "   Change:"
        for change in says["change"]:
            first, *rest = change["text"].split("\n")
            yield f"     {change['kind'] + ':':<9}{first}"
            yield from (f"              {line}" for line in rest)
    if gain := says["expected_gain"]:
        yield f"   Gain: {gain['low']:g} to {gain['high']:g} times the speed. {gain['basis']}".rstrip()
    for name, key in (("Risk", "risk"), ("Roll back", "rollback"), ("Verify", "verify")):
        if says[key]:
            yield f"   {name}: {says[key]}"


def _indented(several: Iterable[str]) -> Iterator[str]:
    return (f"   {line}" for line in several if line)


def _plain(slug: str) -> str:
    return slug.replace("_", " ")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _time(text: str) -> str:
    """In UTC, to the second."""
    return _moment(text).astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _duration(seconds: float) -> str:
    """`45 s`, `12 min 3 s`, `3 h 5 min`, `2 d 4 h`."""
    left = max(0, round(seconds))
    parts: list[str] = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if left >= size or (unit == "s" and not parts):
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts[:2])
