"""`fettle advise FILE`: what a recording's bottleneck is and what to change."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.finding import Evidence, Finding
    from advisor.recorded import Judgement

HELP = "Say what limits a recorded program and what to change."

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


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to 86400")
    return value


def call(options: argparse.Namespace) -> int:
    """Print the judgement; 2 when the file is no recording."""
    import json

    from advisor.recorded import judge
    from wire import recording

    try:
        judgement = judge(recording.read(options.file), options.patience)
    except recording.RecordingError as error:
        print(f"fettle advise: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(judgement.as_json(), ensure_ascii=False, allow_nan=False))
    else:
        print("\n".join(lines(judgement)))
    return 0


def lines(judgement: "Judgement") -> list[str]:
    """The judgement as text for a terminal."""
    diagnosis = judgement.diagnosis
    out = [
        f"{judgement.recording}: bottleneck {diagnosis.bottleneck} ({diagnosis.confidence} confidence,"
        f" {judgement.window_s:.0f} s judged)"
        if diagnosis.bottleneck
        else f"{judgement.recording}: not judged"
    ]
    for name, share in sorted(diagnosis.shares.items(), key=lambda item: -item[1]):
        if share >= 0.005:
            out.append(f"  {name:<17}{share:>5.0%}  {'#' * round(share * _BAR)}")
    if judgement.note:
        out += ["", judgement.note]
    findings = judgement.evaluation.findings
    if not findings and not judgement.note:
        out += ["", "Nothing to change: no rule found anything."]
    for number, finding in enumerate(findings, start=1):
        out += ["", *_finding(number, finding)]
    skipped = sorted({gap.rule for gap in judgement.evaluation.not_evaluated if gap.missing != ("samples",)})
    if skipped:
        out += ["", f"Not evaluated for lack of readings: {', '.join(skipped)}."]
    return out


def _finding(number: int, finding: "Finding") -> list[str]:
    where = f"{finding.scope} {finding.target}"
    out = [f"{number}. [{finding.severity}] {finding.title.english()} ({finding.rule}, {where}, {finding.confidence} confidence)"]
    out.append(f"   {finding.summary.english()}")
    out.append("   Measured: " + "; ".join(_evidence(line) for line in finding.evidence))
    out.append("   Change:")
    for change in finding.change:
        first, *rest = change.text.split("\n")
        out.append(f"     {change.kind + ':':<9}{first}")
        out += [f"              {line}" for line in rest]
    if finding.expected_gain:
        gain = finding.expected_gain
        out.append(f"   Gain: {gain.low:g} to {gain.high:g} times the speed. {gain.basis.english()}")
    out.append(f"   Risk: {finding.risk.english()}")
    out.append(f"   Roll back: {finding.rollback.english()}")
    out.append(f"   Verify: {finding.verify.english()}")
    return out


def _evidence(line: "Evidence") -> str:
    value = "?" if line.value is None else _reading(line.value, line.unit)
    passed = (
        f" ({line.comparison} {_reading(line.threshold, line.unit)})" if line.comparison and line.threshold is not None else ""
    )
    return f"{line.name} {value}{passed}"


_SCALES = {"bytes": (1 << 30, " GiB"), "bytes_per_second": (1e9, " GB/s"), "percent": (1, " %")}
_SYMBOLS = {"watts": " W", "celsius": " °C", "megahertz": " MHz", "seconds": " s"}


def _reading(value: float, unit: str) -> str:
    """`value` as a person writes it: bytes in GiB, everything else to four digits with its symbol."""
    scale, symbol = _SCALES.get(unit, (1, _SYMBOLS.get(unit, "")))
    return f"{value / scale:.4g}{symbol}"
