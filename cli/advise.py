"""`fettle advise FILE`: what a recording's bottleneck is and what to change."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from advisor.finding import Evidence, Finding
    from advisor.recorded import Judgement

HELP = "Say what limits a recorded program and what to change."

CURRENCY = "USD"
MAX_CURRENCY = 12
LEAST_PRICE = 1e-4
"""Less an hour of a GPU costs nowhere: it was meant in another unit."""
MOST_PRICE = 1e6
_BAR = 30


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a recording: gzipped or plain JSON lines")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=_seconds,
        default=2.0,
        help="warm-up after the first sustained GPU activity that is not judged (default 2)",
    )
    parser.add_argument(
        "--profile",
        metavar="TRACE",
        type=Path,
        help="a trace of the same program by torch.profiler or Nsight Systems: its evidence joins that of the recording",
    )
    price_arguments(parser)


def price_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what an hour of a GPU costs, for every verb that says what findings cost."""
    parser.add_argument(
        "--price", metavar="PRICE", type=_price, help="what an hour of one GPU costs: findings say what they cost a day"
    )
    parser.add_argument(
        "--currency", metavar="WORD", type=_currency, default=CURRENCY, help=f"the price's currency (default {CURRENCY})"
    )


def _price(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value and not LEAST_PRICE <= value <= MOST_PRICE:
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is not a price of 0, or from {LEAST_PRICE:g} to {MOST_PRICE:,.0f} an hour"
        )
    return value


def _currency(text: str) -> str:
    if not 1 <= len(text.strip()) <= MAX_CURRENCY or not text.isprintable():
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is not a currency: write 1 to {MAX_CURRENCY} characters, such as USD or €"
        )
    return text.strip()


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to 86400")
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
        says = f"{options.file} breaks off in line {played.cut_line}, as of a recorder that was killed: that line was cut, those before it are judged."
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
    """The judgement as text for a terminal."""
    diagnosis = judgement.diagnosis
    out = [
        f"{judgement.recording}: bottleneck {_plain(diagnosis.bottleneck)} ({diagnosis.confidence} confidence,"
        f" {judgement.window_s:.0f} s judged)"
        if diagnosis.bottleneck
        else f"{judgement.recording}: not judged"
    ]
    for name, share in sorted(diagnosis.shares.items(), key=lambda item: -item[1]):
        if share >= 0.005:
            out.append(f"  {_plain(name):<17}{share:>5.0%}  {'#' * round(share * _BAR)}")
    if judgement.from_s is not None and diagnosis.bottleneck:
        since = judgement.from_s
        out.append(f"  judged from second {since:.0f} to second {since + judgement.window_s:.0f} of the recording")
    if judgement.profile:
        out += ["", *_profile(judgement.profile)]
    if judgement.note:
        out += ["", judgement.note]
    findings = judgement.evaluation.findings
    if not findings and not judgement.note:
        out += ["", "Nothing to change: no rule found anything."]
    for number, finding in enumerate(findings, start=1):
        out += ["", *_finding(number, finding, price, currency)]
    skipped = sorted({gap.rule for gap in judgement.evaluation.not_evaluated if gap.missing != ("samples",)})
    if skipped:
        out += ["", f"Not evaluated for lack of readings: {', '.join(skipped)}."]
    return out


def _profile(features: "Mapping[str, float | str | None]") -> list[str]:
    """What the profile tells, of its own span."""
    from advisor.names import FEATURES

    told = [
        f"  {FEATURES[name].removeprefix('In a profile: ')}: {_reading(value, 'ratio')}"
        for name, value in features.items()
        if isinstance(value, float) and name.endswith("_share")
    ]
    kernel = features.get("profile_top_kernel")
    return ["In the profile:", *told, *([f"  the heaviest kernel is {kernel}"] if kernel else [])]


def _finding(number: int, finding: "Finding", price: float | None, currency: str) -> list[str]:
    from advisor import cost, prose

    where = f"{finding.scope} {finding.target}"
    out = [f"{number}. [{finding.severity}] {finding.title.english()} ({finding.rule}, {where}, {finding.confidence} confidence)"]
    out.append(f"   {finding.summary.english()}")
    if costs := cost.said(finding.gpu_hours_a_day, price, currency):
        out.append(f"   Costs: {costs.english()}, while it runs")
    out.append("   Measured:")
    out += [f"     {_evidence(line)}" for line in finding.evidence]
    out.append("   Change:")
    for change in finding.change:
        first, *rest = change.text.split("\n")
        out.append(f"     {change.kind + ':':<9}{first}")
        out += [f"              {line}" for line in rest]
    if names := dict.fromkeys(name for change in finding.change for name in prose.placeholders(change.text)):
        out.append(f"     Placeholders, put your own in their place: {', '.join(names)}.")
    if finding.expected_gain:
        gain = finding.expected_gain
        out.append(f"   Gain: {gain.low:g} to {gain.high:g} times the speed. {gain.basis.english()}")
    else:
        all_of_it = finding.recoverable >= 1
        out.append(
            f"   Gain: {'all of its GPU time; there is no speed to compare with' if all_of_it else 'not a matter of speed'}."
        )
    out.append(f"   Risk: {finding.risk.english()}")
    out.append(f"   Roll back: {finding.rollback.english()}")
    out.append(f"   Verify: {finding.verify.english()}")
    return out


def _plain(slug: str) -> str:
    return slug.replace("_", " ")


_COMPARED = {">=": "at least", "<=": "at most", ">": "above", "<": "below", "=": "exactly"}


def _evidence(line: "Evidence") -> str:
    from advisor.names import FEATURES

    label = FEATURES.get(line.name, _plain(line.name))
    if line.value is None:
        return f"{label}: unknown"
    passed = ""
    if line.comparison and line.threshold is not None and line.unit != "flag":
        passed = f" ({_COMPARED[line.comparison]} {_reading(line.threshold, line.unit)})"
    return f"{label}: {_reading(line.value, line.unit)}{passed}"


_SYMBOLS = {"ratio": " %", "percent": " %", "watts": " W", "celsius": " °C", "megahertz": " MHz"}
_SCALES = {"ratio": 100.0}
_SIZES = ((1 << 30, " GiB"), (1 << 20, " MiB"), (1 << 10, " KiB"))
_RATES = ((1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"))
_TIMES = ((5400.0, 3600.0, " h"), (90.0, 60.0, " min"))


def _reading(value: float, unit: str) -> str:
    """`value` as a person writes it: ratios in percent, sizes, rates and times in the unit that suits them."""
    if unit == "flag":
        return "yes" if value else "no"
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
