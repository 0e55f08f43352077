"""`fettle profile FILE`: what a profiler's trace tells of the time between kernels."""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cli.language import _, gettext_noop, left, right, sentence

if TYPE_CHECKING:
    from advisor.profiles.summary import Device, Kernel, Profile

HELP = gettext_noop(
    "Say what a trace of torch.profiler or Nsight Systems tells: idle time by cause, exposed communication, kernels."
)

_BAR = 30
_ROWS = 10
_NAME = 100


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help=_("a JSON trace of torch.profiler, plain or gzipped, or what `nsys export --type sqlite` writes"),
    )
    parser.add_argument("--json", action="store_true", help=_("print one JSON object instead of text"))
    parser.add_argument(
        "--send", action="store_true", help=_("tell the server the summary (never the trace), for the job's findings")
    )
    parser.add_argument(
        "--job", metavar="JOB", help=_("with --send: the job that was profiled, as its findings name it: NODE/USER/PROGRAM")
    )
    parser.add_argument(
        "--pid", metavar="PID", type=int, help=_("with --send: instead, the process that was profiled, while it runs")
    )
    parser.add_argument("--node", metavar="NAME", help=_("with --pid: the node it runs on (the host's name)"))
    parser.add_argument("--config", type=Path, metavar="FILE", help=_("the agent's settings: /etc/fettle/agent.toml"))
    parser.add_argument("--server", metavar="URL", help=_("the server's agent socket: wss://fettle.example/ws/agent/"))
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help=_("file with the node's token, or with an API token that may write")
    )


def call(options: argparse.Namespace) -> int:
    """Print the profile's summary, and send it where that is asked; 1 when it was not sent, 2 when the file is none or a flag lacks."""
    import json

    from advisor.profiles.joined import features, summed
    from advisor.profiles.profile import read
    from advisor.profiles.stream import ProfileError
    from wire.terminal import printable

    if wrong := _wrong(options):
        print(f"fettle profile: {wrong}", file=sys.stderr)
        return 2
    try:
        profile = read(options.file)
    except ProfileError as error:
        print(f"fettle profile: {printable(str(error))}", file=sys.stderr)
        return 2
    if options.json:
        report = summed(profile, "", 0.0)
        told = [
            json.dumps(
                profile.as_json() | {"features": features(report) if report else None}, ensure_ascii=False, allow_nan=False
            )
        ]
    else:
        told = list(lines(profile, options.file.name))
    try:
        print("\n".join(map(printable, told)), flush=True)
    except BrokenPipeError:  # the reader has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _send(profile, options) if options.send else 0


def _wrong(options: argparse.Namespace) -> str:
    """What does not fit among the flags, as a sentence; empty: nothing."""
    if not options.send:
        given = [name for name in ("job", "pid", "node", "config", "server", "token_file") if getattr(options, name) is not None]
        return (
            _("{flag} says where to send the summary: give --send too.").format(flag=f"--{given[0].replace('_', '-')}")
            if given
            else ""
        )
    if (options.job is None) == (options.pid is None):
        return _("--send needs --job JOB, or --pid PID and --node NAME: whose findings are to show the profile?")
    if options.job is not None and not all(options.job.partition("/")[::2]):
        return _("--job names a job as its findings do: NODE/USER/PROGRAM.")
    if options.pid is not None and not 1 <= options.pid < 1 << 31:
        return _("--pid {pid} is no process.").format(pid=options.pid)
    return ""


def _send(profile: "Profile", options: argparse.Namespace) -> int:
    from advisor.profiles.joined import summed
    from agents import config, report_post
    from wire.profile import API, ProfileError, decode, encode
    from wire.terminal import printable

    node = options.node or (options.job.partition("/")[0] if options.job else None)
    file = config.file_of(options.config)
    try:
        settings = config.load(file, {"server": options.server, "token_file": options.token_file, "node": node})
        report = summed(profile, settings.node, options.file.stat().st_mtime, options.job or "", options.pid)
        if report is None:
            raise ProfileError("it has no time on a GPU, so it says nothing of a job")
        body = encode(report)
        decode(body)
        told = report_post.send(body, settings.node, API, settings)
        print(_("Sent to the server: {answer}.").format(answer=told), file=sys.stderr)
    except config.ConfigError as error:
        print(printable(f"fettle profile: {error}"), file=sys.stderr)
        return 2
    except (report_post.SendError, ProfileError, OSError) as error:
        print(printable("fettle profile: " + _("not sent: {why}").format(why=error)), file=sys.stderr)
        return 1
    return 0


def lines(profile: "Profile", name: str) -> Iterator[str]:
    """The profile as text for a terminal, in the reader's language."""
    source = profile.source
    kind = _("a trace of torch.profiler") if source.kind == "kineto" else _("an export of Nsight Systems")
    rank = ""
    if source.rank is not None:
        rank = _(", rank {rank} of {world}") if source.world_size else _(", rank {rank}")
        rank = rank.format(rank=source.rank, world=source.world_size)
    yield _("{file}: {kind}{rank}, {events:,} events").format(file=name, kind=kind, rank=rank, events=source.events)
    for note in source.notes:
        yield _("Note: {text}").format(text=sentence(note))
    if profile.steps:
        steps = profile.steps
        says = _("Steps: {count:,}, median {p50}, 95th percentile {p95}")
        yield says.format(count=steps.count, p50=_time(steps.p50_s), p95=_time(steps.p95_s))
    else:
        yield sentence(profile.absent["steps"])
    if not profile.devices:
        yield sentence(profile.absent["devices"])
        return
    for device in profile.devices:
        yield ""
        yield from _device(device)
    yield ""
    yield _("What this says of the rules:")
    verdicts = {"supports": _("supports"), "speaks against": _("speaks against"), "cannot tell": _("cannot tell")}
    for one in profile.evidence:
        yield f"  {left(verdicts[one.verdict] + _(':'), 16)}{one.rule}. {sentence(one.text)}"


def _device(device: "Device") -> Iterator[str]:
    of = _(" of process {process}").format(process=device.process) if device.process else ""
    number = _("unknown") if device.device is None else device.device
    yield _("GPU {number}{name}{of}: {span} from its first activity to its last, {kernels:,} kernels, {streams} streams").format(
        number=number,
        name=f" ({device.name})" if device.name else "",
        of=of,
        span=_time(device.span_s),
        kernels=device.kernels,
        streams=device.streams,
    )
    idle = device.idle
    for label, spent in (
        (_("compute"), device.compute_s),
        (_("communication exposed"), device.communication_exposed_s),
        (_("copies exposed"), device.copies_exposed_s),
        (_("idle"), idle.total_s),
        ("  " + _("already launched"), idle.queued_s),
        ("  " + _("host launching"), idle.launching_s),
        ("  " + _("host waiting for GPU"), idle.waiting_s),
        ("  DataLoader", idle.loading_s),
        ("  " + _("unknown"), idle.unknown_s),
    ):
        if spent is None:
            yield "  " + left(label, 24) + " " + _("not told")
        else:
            share = spent / device.span_s if device.span_s else 0.0
            yield f"  {left(label, 24)}{share:>5.0%}  {'#' * round(share * _BAR)}".rstrip()
    yield from dict.fromkeys(f"  {sentence(text)}" for text in device.absent.values())
    launches = device.launches
    says = _("Gaps of at most 100 us between kernels: {count:,}, {spent} in all")
    if launches.gap_p50_s is not None:
        says = _("Gaps of at most 100 us between kernels: {count:,}, {spent} in all, median {p50}")
    yield "  " + says.format(count=launches.gaps, spent=_time(launches.gaps_s), p50=_time(launches.gap_p50_s or 0.0))
    if launches.latency_p50_s is not None and launches.latency_p95_s is not None:
        says = _(
            "From launch to start: median {p50}, 95th percentile {p95}; {count:,} kernels were launched when nothing was queued any more"
        )
        yield "  " + says.format(p50=_time(launches.latency_p50_s), p95=_time(launches.latency_p95_s), count=launches.unqueued)
    yield from _table(_("Kernels"), device.top[:_ROWS], device)
    if device.matrix.off:
        formats = ", ".join(f"{dtype} {_time(spent)}" for dtype, spent in device.matrix.off_by_dtype_s.items())
        title = _("Matrix work off the tensor cores ({formats})").format(formats=formats)
        yield from _table(title, device.matrix.off[:_ROWS], device)
    for copy in device.copies[:_ROWS]:
        yield "  " + _("Copies {direction} ({source} -> {target}): {count:,}, {size}, {spent}").format(
            direction=copy.direction or _("of unknown direction"),
            source=copy.source or _("unknown"),
            target=copy.target or _("unknown"),
            count=copy.count,
            size=_("size not told") if copy.size_bytes is None else f"{copy.size_bytes / 1e6:,.3f} MB",
            spent=_time(copy.total_s),
        )


def _table(title: str, rows: "tuple[Kernel, ...]", device: "Device") -> Iterator[str]:
    if not rows:
        return
    yield "  " + title + _(":")
    heads = right(_("share"), 6) + right(_("total"), 10) + right(_("count"), 10) + right(_("mean"), 10)
    yield "    " + heads + "  " + _("name")
    for row in rows:
        name = row.name if len(row.name) <= _NAME else f"{row.name[: _NAME - 1]}…"
        yield f"    {row.share:>6.1%}{_time(row.total_s):>10}{row.count:>10,}{_time(row.mean_s):>10}  {name}"
    if rows[0] is device.top[0] and (rest := device.kernels - sum(row.count for row in rows)):
        spent = device.kernel_total_s - sum(row.total_s for row in rows)
        share = spent / device.kernel_total_s if device.kernel_total_s else 0.0
        yield f"    {share:>6.1%}{_time(spent):>10}{rest:>10,}{_time(spent / rest):>10}  " + _("all others")


def _time(seconds: float) -> str:
    """Three digits and the unit that suits them."""
    size, unit = next(((size, unit) for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")) if seconds >= size), (1e-6, "us"))
    return f"{seconds / size:.3g} {unit}"
