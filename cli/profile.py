"""`fettle profile FILE`: what a profiler's trace tells of the time between kernels."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.profiles.summary import Device, Kernel, Profile

HELP = "Say what a trace of torch.profiler or Nsight Systems tells: idle time by cause, exposed communication, kernels."

_BAR = 30
_ROWS = 10
_NAME = 100


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="a JSON trace of torch.profiler, plain or gzipped, or what `nsys export --type sqlite` writes",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def call(options: argparse.Namespace) -> int:
    """Print the profile's summary; 2 when the file is none."""
    import json
    import os

    from advisor.profiles.profile import read
    from advisor.profiles.stream import ProfileError
    from wire.terminal import printable

    try:
        profile = read(options.file)
    except ProfileError as error:
        print(f"fettle profile: {printable(str(error))}", file=sys.stderr)
        return 2
    if options.json:
        told = [json.dumps(profile.as_json(), ensure_ascii=False, allow_nan=False)]
    else:
        told = list(lines(profile, options.file.name))
    try:
        print("\n".join(map(printable, told)), flush=True)
    except BrokenPipeError:  # the reader has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def lines(profile: "Profile", name: str) -> Iterator[str]:
    """The profile as text for a terminal."""
    source = profile.source
    kind = "a trace of torch.profiler" if source.kind == "kineto" else "an export of Nsight Systems"
    rank = ""
    if source.rank is not None:
        rank = f", rank {source.rank}" + (f" of {source.world_size}" if source.world_size else "")
    yield f"{name}: {kind}{rank}, {source.events:,} events"
    for note in source.notes:
        yield f"Note: {note.english()}"
    if profile.steps:
        steps = profile.steps
        yield f"Steps: {steps.count:,}, median {_time(steps.p50_s)}, 95th percentile {_time(steps.p95_s)}"
    else:
        yield profile.absent["steps"].english()
    if not profile.devices:
        yield profile.absent["devices"].english()
        return
    for device in profile.devices:
        yield ""
        yield from _device(device)
    yield ""
    yield "What this says of the rules:"
    for one in profile.evidence:
        yield f"  {one.verdict + ':':<16}{one.rule}. {one.text.english()}"


def _device(device: "Device") -> Iterator[str]:
    of = f" of process {device.process}" if device.process else ""
    number = "unknown" if device.device is None else device.device
    yield (
        f"GPU {number}{f' ({device.name})' if device.name else ''}{of}: {_time(device.span_s)} from its first activity to its last,"
        f" {device.kernels:,} kernels, {device.streams} streams"
    )
    idle = device.idle
    for label, spent in (
        ("compute", device.compute_s),
        ("communication exposed", device.communication_exposed_s),
        ("copies exposed", device.copies_exposed_s),
        ("idle", idle.total_s),
        ("  already launched", idle.queued_s),
        ("  host launching", idle.launching_s),
        ("  host waiting for GPU", idle.waiting_s),
        ("  DataLoader", idle.loading_s),
        ("  unknown", idle.unknown_s),
    ):
        if spent is None:
            yield f"  {label:<24} not told"
        else:
            share = spent / device.span_s if device.span_s else 0.0
            yield f"  {label:<24}{share:>5.0%}  {'#' * round(share * _BAR)}".rstrip()
    yield from dict.fromkeys(f"  {text.english()}" for text in device.absent.values())
    launches = device.launches
    yield f"  Gaps of at most 100 us between kernels: {launches.gaps:,}, {_time(launches.gaps_s)} in all" + (
        "" if launches.gap_p50_s is None else f", median {_time(launches.gap_p50_s)}"
    )
    if launches.latency_p50_s is not None and launches.latency_p95_s is not None:
        yield (
            f"  From launch to start: median {_time(launches.latency_p50_s)}, 95th percentile {_time(launches.latency_p95_s)};"
            f" {launches.unqueued:,} kernels were launched when nothing was queued any more"
        )
    yield from _table("Kernels", device.top[:_ROWS], device)
    if device.matrix.off:
        formats = ", ".join(f"{dtype} {_time(spent)}" for dtype, spent in device.matrix.off_by_dtype_s.items())
        yield from _table(f"Matrix work off the tensor cores ({formats})", device.matrix.off[:_ROWS], device)
    for copy in device.copies[:_ROWS]:
        kinds = f"{copy.source or 'unknown'} -> {copy.target or 'unknown'}"
        size = "size not told" if copy.size_bytes is None else f"{copy.size_bytes / 1e6:,.3f} MB"
        yield f"  Copies {copy.direction or 'of unknown direction'} ({kinds}): {copy.count:,}, {size}, {_time(copy.total_s)}"


def _table(title: str, rows: "tuple[Kernel, ...]", device: "Device") -> Iterator[str]:
    if not rows:
        return
    yield f"  {title}:"
    yield f"    {'share':>6}{'total':>10}{'count':>10}{'mean':>10}  name"
    for row in rows:
        name = row.name if len(row.name) <= _NAME else f"{row.name[: _NAME - 1]}…"
        yield f"    {row.share:>6.1%}{_time(row.total_s):>10}{row.count:>10,}{_time(row.mean_s):>10}  {name}"
    if rows[0] is device.top[0] and (rest := device.kernels - sum(row.count for row in rows)):
        spent = device.kernel_total_s - sum(row.total_s for row in rows)
        share = spent / device.kernel_total_s if device.kernel_total_s else 0.0
        yield f"    {share:>6.1%}{_time(spent):>10}{rest:>10,}{_time(spent / rest):>10}  all others"


def _time(seconds: float) -> str:
    """Three digits and the unit that suits them."""
    size, unit = next(((size, unit) for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")) if seconds >= size), (1e-6, "us"))
    return f"{seconds / size:.3g} {unit}"
