"""`compare(rule, before, after)`: whether a change helped, had no effect, made it worse, or why that cannot be told.

Pure: stretches in, a Comparison out. A verdict needs two sides that can be compared: the same program on as many GPUs of the same
model, doing the same things one after the other, alone or not alone on both sides, with as much work in a step. Everything else is
"cannot tell", with the reason.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import polars as pl

from advisor.rule import Rule
from advisor.text import Text, _
from advisor.verification import measure as measures
from advisor.verification.interval import CONFIDENCE, MIN_BLOCKS, Ratio, Values, ratio
from advisor.verification.measure import REPORTED, Measure
from advisor.verification.stretch import Stretch

Verdict: TypeAlias = Literal["helped", "no_effect", "worse", "cannot_tell"]
VERDICTS: Final[tuple[Verdict, ...]] = ("helped", "no_effect", "worse", "cannot_tell")

BAND: Final = 0.03
"""Less is no effect. The first and the second half of one recording differ by 1.5 % at most by these measures, the steps that one
program of the lab reports in two runs by 2 %."""
ALPHA: Final = 0.05
MIN_S: Final = 5.0
MIN_SAMPLES: Final = 20
"""On each side, of the measure."""
KNOWN: Final = 0.5
"""The share of a stretch's samples that must have the measure for it to be the stretch's."""
APART: Final = 0.15
"""How much of a stretch phases may differ by and still be alike."""

_SIZE_OF_WORK: Final = re.compile(
    r"(?:^|[._-])(?:batch|micro|accumulation|seq|length|len|layers|hidden|heads|image|resolution|model)"
)
_BATCH: Final = re.compile(r"batch|micro|accumulation")
_SEQUENCE: Final = re.compile(r"(?:^|[._-])(?:seq|length|len)(?:$|[._-])|seq")

TOO_SHORT: Final = _(
    "Too short to tell: {before_s:.0f} s before and {after_s:.0f} s after, with {before_samples} and {after_samples} readings of {measure};"
    " {least_s:.0f} s and {least} readings of each that do not hang together are needed."
)
NO_MEASURE: Final = _(
    "The program reports no tokens, samples or steps, and the counters of the GPU do not show the speed that this advice is about."
)
NOT_MEASURED: Final = _(
    "Without reported tokens, samples or steps the verdict needs {measure}, which was not measured on both sides."
)
OTHER_MODEL: Final = _("Not the same GPUs: {before} before, {after} after.")
OTHER_COUNT: Final = _("Not as many GPUs: {before} before, {after} after.")
OTHER_PROGRAM: Final = _("Not the same program: {before} before, {after} after.")
OTHER_PHASES: Final = _(
    "The program did not do the same things one after the other: {before} phases before, {after} after, of other lengths; without reported"
    " steps it cannot be told which of them to compare."
)
OTHER_TENANTS: Final = _("Other programs worked on the same GPUs on one side only, so the load was not alike.")
OTHER_WORK: Final = _("The work of a step is another: {flags} changed, and {measure} does not take that into account.")
NOTHING_BEFORE: Final = _("Before the change {measure} was zero: there is nothing to compare with.")
UNSURE: Final = _(
    "By {measure}: {ratio:.2f} times as fast after the change, but between {low:.2f} and {high:.2f} times is possible: the readings vary too"
    " much to tell."
)
HELPED: Final = _(
    "By {measure}: {ratio:.2f} times as fast after the change, with {level:.0%} confidence between {low:.2f} and {high:.2f} times."
)
WORSE: Final = _(
    "By {measure}: {ratio:.2f} times as fast after the change, which is slower, with {level:.0%} confidence between {low:.2f} and {high:.2f} times."
)
NO_EFFECT: Final = _(
    "By {measure}: {ratio:.2f} times as fast after the change, with {level:.0%} confidence between {low:.2f} and {high:.2f} times: less than"
    " {band:.0%} either way is no effect."
)
ESTIMATED: Final = _("The program reports no steps: the speed is estimated from the counters of the GPU.")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two sides say. `ratio` is of speeds: above 1 is faster after, whatever the measure; absent where nothing was compared."""

    verdict: Verdict
    reason: Text
    measure: Measure | None = None
    before: float | None = None
    after: float | None = None
    ratio: Ratio | None = None
    before_s: float = 0.0
    after_s: float = 0.0
    rollback: str = ""  # the rule's, where it got worse

    @property
    def is_estimate(self) -> bool:
        """True where the program reported nothing, and counters stand for its speed."""
        return self.measure is not None and not self.measure.is_reported


def compare(rule: Rule, before: Sequence[Stretch], after: Sequence[Stretch]) -> Comparison:
    """The verdict on one change by the runs before and after it, a stretch each; of none on a side nothing can be told."""
    lengths = sum(one.length_s for one in before), sum(one.length_s for one in after)
    measure = _measure(rule, [*before, *after]) if before and after else None
    if before and after and (why := _unlike(before, after)):
        return Comparison("cannot_tell", why, measure, before_s=lengths[0], after_s=lengths[1])
    if measure is None and before and after:
        own = measures.own(rule)
        why = Text(NO_MEASURE) if own is None else Text(NOT_MEASURED, {"measure": own.label})
        return Comparison("cannot_tell", why, before_s=lengths[0], after_s=lengths[1])
    sides = [[_values(one, measure) for one in side] if measure else [] for side in (before, after)]
    counts = [sum(run.size for run in side) for side in sides]
    centre = measures.centre(measure, rule) if measure else "median"
    if measure is None or min(lengths) < MIN_S or min(counts) < MIN_SAMPLES:
        return Comparison("cannot_tell", _short(measure, lengths, counts), measure, before_s=lengths[0], after_s=lengths[1])
    if (why := _other_work(measure, before[-1].told, after[0].told)) or (why := _other_phases(measure, before, after)):
        return Comparison("cannot_tell", why, measure, before_s=lengths[0], after_s=lengths[1])
    middle = np.median if centre == "median" else np.mean
    was, became = (float(middle(np.concatenate(side))) for side in sides)
    if was <= 0:
        why = Text(NOTHING_BEFORE, {"measure": measure.label})
        return Comparison("cannot_tell", why, measure, was, became, None, *lengths)
    first, second = sides if measure.more_is_better else sides[::-1]  # of times, how many times the speed is before over after
    found = ratio(first, second, centre)
    if found is None:
        return Comparison("cannot_tell", _short(measure, lengths, counts), measure, was, became, None, *lengths)
    verdict, source = judge(found)
    text = Text(
        source,
        {"measure": measure.label, "ratio": found.value, "low": found.low, "high": found.high, "band": BAND, "level": CONFIDENCE},
    )
    return Comparison(verdict, text, measure, was, became, found, *lengths, rule.rollback if verdict == "worse" else "")


def judge(found: Ratio) -> tuple[Verdict, str]:
    """The verdict on a ratio of speeds, and the sentence that says why.

    Helped or worse: the interval leaves 1 out, the rank test agrees, and it is more than BAND. No effect: the whole interval is within
    BAND of 1. What is between says neither.
    """
    sure = found.p < ALPHA
    if found.low > 1 and found.value >= 1 + BAND and sure:
        return "helped", HELPED
    if found.high < 1 and found.value <= 1 / (1 + BAND) and sure:
        return "worse", WORSE
    if found.low >= 1 / (1 + BAND) and found.high <= 1 + BAND:
        return "no_effect", NO_EFFECT
    return "cannot_tell", UNSURE


def _measure(rule: Rule, sides: Sequence[Stretch]) -> Measure | None:
    """What all of them have: what is reported, else the rule's own."""
    own = measures.own(rule)
    return next((one for one in (*REPORTED, *([own] if own else [])) if all(_has(side, one) for side in sides)), None)


def _has(stretch: Stretch, measure: Measure) -> bool:
    if stretch.samples.is_empty():
        return True  # it is too short, not of another kind
    known = stretch.samples.select(pl.all_horizontal(pl.col(measure.needs).is_not_null()).mean()).item()
    return bool(known >= KNOWN)


def _values(stretch: Stretch, measure: Measure) -> Values:
    return stretch.samples.select(measure.value.cast(pl.Float64).alias("value")).drop_nulls().get_column("value").to_numpy()


def _short(measure: Measure | None, lengths: tuple[float, float], counts: Sequence[int]) -> Text:
    label = measure.label if measure else REPORTED[-1].label
    return Text(
        TOO_SHORT,
        {
            "before_s": lengths[0], "after_s": lengths[1], "before_samples": counts[0], "after_samples": counts[1], "measure": label,
            "least_s": MIN_S, "least": max(MIN_SAMPLES, MIN_BLOCKS),
        },
    )  # fmt: skip


def _unlike(before: Sequence[Stretch], after: Sequence[Stretch]) -> Text | None:
    """Why the sides cannot be compared at all; None where they can."""
    told: tuple[tuple[str, Callable[[Stretch], str | int | None]], ...] = (
        (OTHER_PROGRAM, lambda one: one.program),
        (OTHER_MODEL, lambda one: one.gpu_model or None),
        (OTHER_COUNT, lambda one: one.gpus),
    )
    for source, of in told:
        first, second = ({of(one) for one in side} - {None} for side in (before, after))
        if first and second and (first != second or len(first) > 1):
            names = [", ".join(sorted(map(str, side))) for side in (first, second)]
            return Text(source, {"before": names[0], "after": names[1]})
    if {one.others for one in before} != {one.others for one in after}:
        return Text(OTHER_TENANTS)
    return None


def _other_phases(measure: Measure, before: Sequence[Stretch], after: Sequence[Stretch]) -> Text | None:
    """Of a measure that is reported only what makes steps counts, so that nothing else need be alike."""
    if measure.is_reported:
        return None
    first = before[0].phases
    for one in (*before, *after):
        if len(one.phases) != len(first) or any(abs(a - b) > APART for a, b in zip(one.phases, first, strict=True)):
            odd = one.phases if one in after else first
            return Text(OTHER_PHASES, {"before": len(first), "after": len(odd)})
    return None


def _other_work(measure: Measure, before: Mapping[str, str], after: Mapping[str, str]) -> Text | None:
    """Where flags that say how much a step works on changed, and the measure is not per what they count."""
    if not before or not after:
        return None
    changed = [
        name
        for name in sorted({*before, *after})
        if name.startswith(("flag.", "told.")) and before.get(name) != after.get(name) and _SIZE_OF_WORK.search(name)
    ]
    if measure.id != "step_time_s":
        changed = [name for name in changed if not _BATCH.search(name)]
    if measure.id == "tokens_per_s":
        changed = [name for name in changed if not _SEQUENCE.search(name)]
    if not changed:
        return None
    return Text(OTHER_WORK, {"flags": ", ".join(name.partition(".")[2] for name in changed[:4]), "measure": measure.label})
