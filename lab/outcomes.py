"""What a pair came to: each program's speed and advice, the gain beside the promise, and what did not go as it should."""

import re
from typing import Any, Final, Literal, NotRequired, TypedDict

from lab.pairs import Pair

Verdict = Literal["inside", "below", "above", "no speed promised", "not measured"]


class Run(TypedDict):
    """One program under `fettle run`. `trouble`: why it says nothing, else None. `measured`: what the program told of itself."""

    program: str
    settings: dict[str, str]
    measured: dict[str, Any] | None
    bottleneck: str | None
    findings: list[dict[str, Any]]
    trouble: str | None


class Outcome(TypedDict):
    """One pair. `machine`: where it ran, if that was not the one of the other pairs. `advice` is the step that names the change; `promised` the gain's bounds in the finding, `promised_then` those
    that it had when the lab ran, where the rule is another by now (lab/again.py)."""

    pair: str
    rule: str
    title: str | None
    advice: str | None
    promised: list[float] | None
    promised_then: list[float] | None
    before: Run
    after: Run | None
    gain: float | None
    figures: list[float] | None
    verdict: Verdict
    problems: list[str]
    machine: NotRequired[dict[str, Any]]


_LINE: Final = re.compile(r"[^\n]*")


def finding_of(run: Run, rule: str) -> dict[str, Any] | None:
    """The finding of `rule`, if there is one."""
    return next((finding for finding in run["findings"] if finding["rule"] == rule), None)


def named_change(run: Run, pair: Pair) -> tuple[str | None, dict[str, str]]:
    """The line of the advice that names the pair's change, and the values that it has for `after`."""
    finding = finding_of(run, pair.rule)
    for step in finding["change"] if finding else ():
        if found := re.search(pair.change, step["text"]):
            start = step["text"].rfind("\n", 0, found.start()) + 1
            line = _LINE.match(step["text"], start)
            return (line.group() if line else found.group()).strip(), found.groupdict()
    return None, {}


def speed(run: Run) -> float | None:
    """Units a second, warm-up excluded; None where nothing was done or told."""
    told = run["measured"] or {}
    units, seconds = told.get("units"), told.get("seconds")
    return units / seconds if units and seconds else None


def outcome(pair: Pair, before: Run, after: Run | None) -> Outcome:
    """What comes of the two runs. Without `after`, the pair ended with the first."""
    finding = finding_of(before, pair.rule)
    advice, _ = named_change(before, pair)
    gained = finding["expected_gain"] if finding else None
    promised = [gained["low"], gained["high"]] if gained else None
    problems = []
    for run in (before, after):
        if run is not None and run["trouble"]:
            problems.append(f"{run['program']}: {run['trouble']}")
    if not before["trouble"]:
        if finding is None:
            said = ", ".join(other["rule"] for other in before["findings"]) or "nothing"
            problems.append(f"the advice on {pair.before} does not name {pair.rule}: it names {said}")
        elif advice is None:
            problems.append(f"no step of {pair.rule} is the change that {pair.after} makes")
    if after is not None and not after["trouble"] and not pair.stays and finding_of(after, pair.rule):
        problems.append(f"{pair.after} still gets the advice of {pair.rule}")
    old, new = speed(before), speed(after) if after is not None else None
    gain = round(new / old, 2) if old and new else None
    return Outcome(
        pair=pair.name,
        rule=pair.rule,
        title=finding["title"] if finding else None,
        advice=advice,
        promised=promised,
        promised_then=None,
        before=before,
        after=after,
        gain=gain,
        figures=_figures(pair, before, after),
        verdict=_verdict(pair, gain, promised),
        problems=problems,
    )


def _figures(pair: Pair, before: Run, after: Run | None) -> list[float] | None:
    """Before and after, of what is compared in place of speed; growth is a second's."""
    if pair.instead is None or after is None:
        return None
    found = []
    for run in (before, after):
        told = run["measured"] or {}
        value = told.get(pair.instead.figure)
        if value is None or not told.get("seconds"):
            return None
        found.append(value / told["seconds"] if pair.instead.figure == "memory_growth_bytes" else value)
    return found


def _verdict(pair: Pair, gain: float | None, promised: list[float] | None) -> Verdict:
    if pair.instead is not None and promised is None:
        return "no speed promised"
    if gain is None or promised is None:
        return "not measured"
    low, high = promised
    return "below" if gain < low else "above" if gain > high else "inside"
