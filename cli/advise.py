"""`fettle advise FILE`: what a recording's bottleneck is and what to change."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cli.language import _, gettext_noop, left, sentence, width, word
from cli.price import CURRENCY, price_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from advisor.finding import Evidence, Finding
    from advisor.recorded import Judgement

HELP = gettext_noop("Say what limits a recorded program and what to change.")

_BAR = 30
_KIND_COLUMNS = 9


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("file", metavar="FILE", type=Path, help=_("a recording: gzipped or plain JSON lines"))
    parser.add_argument("--json", action="store_true", help=_("print one JSON object instead of text"))
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=_seconds,
        default=2.0,
        help=_("warm-up after the first sustained GPU activity that is not judged (default 2)"),
    )
    parser.add_argument(
        "--profile",
        metavar="TRACE",
        type=Path,
        help=_("a trace of the same program by torch.profiler or Nsight Systems: its evidence joins that of the recording"),
    )
    price_arguments(parser)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError(_("{text} is not a number of seconds from 0 to 86400").format(text=repr(text)))
    return value


def call(options: argparse.Namespace) -> int:
    """Print the judgement; 2 when the file is no recording, or the trace none."""
    import json
    import os

    from advisor.profiles.stream import ProfileError
    from advisor.recorded import judge
    from wire import recording
    from wire.terminal import printable

    try:
        profile = {} if options.profile is None else _profiled(options.profile)
        played = recording.read(options.file)
        judgement = judge(played, options.patience, profile)
    except (recording.RecordingError, ProfileError) as error:
        print(f"fettle advise: {printable(str(error))}", file=sys.stderr)
        return 2
    if played.cut_line is not None:
        says = _(
            "{file} breaks off in line {line}, as of a recorder that was killed: that line was cut, those before it are judged."
        ).format(file=options.file, line=played.cut_line)
        print(f"fettle advise: {printable(says)}", file=sys.stderr)
    if options.json:
        told = [json.dumps(judgement.as_json(options.price, options.currency), ensure_ascii=False, allow_nan=False)]
    else:
        told = lines(judgement, options.price, options.currency)
    said = "\n".join(map(printable, told))
    try:
        print(said, flush=True)
    except BrokenPipeError:  # the reader has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _profiled(file: Path) -> "dict[str, float | str | None]":
    """The features of a trace; ProfileError where it is none, or has no time on a GPU."""
    from advisor.profiles.joined import features, summed
    from advisor.profiles.profile import read
    from advisor.profiles.stream import ProfileError

    report = summed(read(file), "", 0.0)
    if report is None:
        raise ProfileError(f"{file} has no time on a GPU: it adds nothing to a recording.")
    return features(report)


def lines(judgement: "Judgement", price: float | None = None, currency: str = CURRENCY) -> list[str]:
    """The judgement as text for a terminal, in the reader's language."""
    diagnosis = judgement.diagnosis
    said = (
        _("{recording}: bottleneck {bottleneck} ({confidence} confidence, {seconds:.0f} s judged)").format(
            recording=judgement.recording,
            bottleneck=word("bottleneck", _plain(diagnosis.bottleneck)),
            confidence=word("confidence", diagnosis.confidence),
            seconds=judgement.window_s,
        )
        if diagnosis.bottleneck
        else _("{recording}: not judged").format(recording=judgement.recording)
    )
    out = [said]
    for name, share in sorted(diagnosis.shares.items(), key=lambda item: -item[1]):
        if share >= 0.005:
            out.append(f"  {left(word('bottleneck', _plain(name)), 17)}{share:>5.0%}  {'#' * round(share * _BAR)}")
    if judgement.from_s is not None and diagnosis.bottleneck:
        since = judgement.from_s
        says = _("judged from second {start:.0f} to second {end:.0f} of the recording")
        out.append("  " + says.format(start=since, end=since + judgement.window_s))
    if judgement.profile:
        out += ["", *_profile(judgement.profile)]
    if judgement.note:
        out += ["", _(judgement.note)]
    findings = judgement.evaluation.findings
    if not findings and not judgement.note:
        out += ["", _("Nothing to change: no rule found anything.")]
    for number, finding in enumerate(findings, start=1):
        out += ["", *_finding(number, finding, price, currency)]
    skipped = sorted({gap.rule for gap in judgement.evaluation.not_evaluated if gap.missing != ("samples",)})
    if skipped:
        out += ["", _("Not evaluated for lack of readings: {rules}.").format(rules=", ".join(skipped))]
    return out


def _profile(features: "Mapping[str, float | str | None]") -> list[str]:
    """What the profile tells, of its own span."""
    from advisor.names import FEATURES

    begins = _("In a profile: ")
    told = [
        f"  {_(FEATURES[name]).removeprefix(begins)}: {_reading(value, 'ratio')}"
        for name, value in features.items()
        if isinstance(value, float) and name.endswith("_share")
    ]
    kernel = features.get("profile_top_kernel")
    heaviest = ["  " + _("the heaviest kernel is {kernel}").format(kernel=kernel)] if kernel else []
    return [_("In the profile:"), *told, *heaviest]


_SCOPES = {"gpu": "GPU", "node": "node", "job": "job", "service": "service", "fleet": "fleet"}
_KINDS = {
    "diff": "code change",
    "flag": "command-line flag",
    "env": "environment variable",
    "command": "command",
    "config": "configuration",
    "step": "step",
}


def _slug(words: "Mapping[str, str]", slug: str) -> str:
    """The pages' word for a slug in the reader's language; in English the slug, as JSON has it."""
    source = words.get(slug, slug)
    return slug if (told := _(source)) == source else told


def _finding(number: int, finding: "Finding", price: float | None, currency: str) -> list[str]:
    from advisor import cost, prose

    title = _("{number}. [{severity}] {title} ({rule}, {scope} {target}, {confidence} confidence)").format(
        number=number,
        severity=_severity(finding.severity),
        title=sentence(finding.title),
        rule=finding.rule,
        scope=_slug(_SCOPES, finding.scope),
        target=finding.target,
        confidence=word("confidence", finding.confidence),
    )
    out = [title, f"   {sentence(finding.summary)}"]
    if costs := cost.said(finding.gpu_hours_a_day, price, currency):
        out.append("   " + _("Costs: {costs}, while it runs").format(costs=sentence(costs)))
    out.append("   " + _("Measured:"))
    out += [f"     {_evidence(line)}" for line in finding.evidence]
    out.append("   " + _("Change:"))
    kinds = [_slug(_KINDS, change.kind) + _(":") for change in finding.change]
    columns = max(_KIND_COLUMNS, *(width(kind) + 1 for kind in kinds), 0)
    for kind, change in zip(kinds, finding.change, strict=True):
        first, *rest = prose.with_comments(change.text, _).split("\n")
        out.append(f"     {left(kind, columns)}{first}")
        out += [" " * (5 + columns) + line for line in rest]
    if names := dict.fromkeys(name for change in finding.change for name in prose.placeholders(change.text)):
        says = _("Placeholders, put your own in their place: {names}.")
        out.append("     " + says.format(names=", ".join(names)))
    if finding.expected_gain:
        gain = finding.expected_gain
        says = _("Gain: {low:g} to {high:g} times the speed. {basis}")
        out.append("   " + says.format(low=gain.low, high=gain.high, basis=sentence(gain.basis)))
    elif finding.recoverable >= 1:
        out.append("   " + _("Gain: all of its GPU time; there is no speed to compare with."))
    else:
        out.append("   " + _("Gain: not a matter of speed."))
    out.append("   " + _("Risk: {text}").format(text=sentence(finding.risk)))
    out.append("   " + _("Roll back: {text}").format(text=sentence(finding.rollback)))
    out.append("   " + _("Verify: {text}").format(text=sentence(finding.verify)))
    return out


def _severity(slug: str) -> str:
    """The pages' word in the reader's language; in English the slug, as JSON has it."""
    source = "warning" if slug == "warn" else slug
    return slug if (told := word("severity", source)) == source else told


def _plain(slug: str) -> str:
    return slug.replace("_", " ")


def _compared() -> "Mapping[str, str]":
    return {
        ">=": _("at least {limit}"),
        "<=": _("at most {limit}"),
        ">": _("above {limit}"),
        "<": _("below {limit}"),
        "=": _("exactly {limit}"),
    }


def _evidence(line: "Evidence") -> str:
    from advisor.names import FEATURES

    label = _(FEATURES.get(line.name, _plain(line.name)))
    if line.value is None:
        return _("{label}: unknown").format(label=label)
    passed = ""
    if line.comparison and line.threshold is not None and line.unit != "flag":
        passed = f" ({_compared()[line.comparison].format(limit=_reading(line.threshold, line.unit))})"
    return label + _(": ") + _reading(line.value, line.unit) + passed


_SYMBOLS = {"ratio": " %", "percent": " %", "watts": " W", "celsius": " °C", "megahertz": " MHz"}
_SCALES = {"ratio": 100.0}
_SIZES = ((1 << 30, " GiB"), (1 << 20, " MiB"), (1 << 10, " KiB"))
_RATES = ((1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"))
_TIMES = ((5400.0, 3600.0, " h"), (90.0, 60.0, " min"))


def _reading(value: float, unit: str) -> str:
    """`value` as a person writes it: ratios in percent, sizes, rates and times in the unit that suits them."""
    if unit == "flag":
        return word("planner", "yes" if value else "no")
    if unit == "bytes_per_second":
        size, symbol = next((rate for rate in _RATES if abs(value) >= rate[0]), (1.0, " B/s"))
        return f"{_short(value / size)}{symbol}"
    if unit == "bytes":
        size, symbol = next((size for size in _SIZES if abs(value) >= size[0]), (1, " B"))
        return f"{_short(value / size)}{symbol}"
    if unit == "seconds" and 0 < abs(value) < 1e-3:
        return f"{_short(value * 1e6)} µs"
    if unit == "seconds":
        size, symbol = next(((size, symbol) for least, size, symbol in _TIMES if value >= least), (1.0, " s"))
        return f"{_short(value / size)}{symbol}"
    return f"{_short(value * _SCALES.get(unit, 1.0))}{_SYMBOLS.get(unit, '')}"


def _short(value: float) -> str:
    """Whole from 100 on, else two digits that say something."""
    if abs(value) >= 9.95:
        return f"{value:,.0f}"
    return f"{value:.2g}" if abs(value) < 0.95 else f"{value:.1f}".removesuffix(".0")
