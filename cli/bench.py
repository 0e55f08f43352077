"""`fettle bench`: measure what this node's GPUs and disk reach, beside their cards' peaks, and tell the server."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.language import _, gettext_noop, left, right, said, width
from cli.unknown import parsed

if TYPE_CHECKING:
    from agents.config import AgentConfig
    from wire.bench import BenchGpu, BenchReport, Score

HELP = gettext_noop(
    "Measure what this node's GPUs and disk reach: products, memory, copies, all-reduce, reads. Needs torch on the node."
)

_INTERRUPTED = 130
_KINDS = ("matmul", "memory", "host", "peer", "all_reduce", "disk")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.epilog = _(
        "Exit codes: 0 measured; 1 nothing has a score, or the server did not take it; 2 refused, with a sentence; 130 interrupted."
    )
    parser.add_argument(
        "--quick", action="store_true", help=_("a minute at most for one or two GPUs: fewer repetitions and sizes")
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=_KINDS,
        default=(),
        metavar="KIND",
        help=_("only these: {kinds}").format(kinds=", ".join(_KINDS)),
    )
    parser.add_argument("--gpus", metavar="LIST", help=_("GPUs by index or UUID, as 0,1 (CUDA_VISIBLE_DEVICES, or all)"))
    parser.add_argument("--disk", type=Path, metavar="DIR", help=_("read a file in this folder too, by direct I/O"))
    parser.add_argument(
        "--settle-s",
        type=float,
        metavar="S",
        help=_(
            "load the GPUs until temperatures change by less than 0.5 C a minute, so long at most (240, with --quick 5); 0: not at all"
        ),
    )
    parser.add_argument(
        "--beside-others", action="store_true", help=_("measure while other processes hold the GPUs; the result is marked")
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help=_("write the report there too"))
    parser.add_argument(
        "--from-json", type=Path, metavar="FILE", help=_("measure nothing: read a report that was written before")
    )
    parser.add_argument(
        "--send",
        action=argparse.BooleanOptionalAction,
        help=_("tell the server (what happens where one is set, but for --from-json)"),
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help=_("the agent's settings: /etc/fettle/agent.toml"))
    parser.add_argument("--server", metavar="URL", help=_("the server's agent socket: wss://fettle.example/ws/agent/"))
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help=_("file with this node's token, or with an API token that may write")
    )
    parser.add_argument("--node", metavar="NAME", help=_("the node's name (the host's name)"))


def main(words: list[str], program: str) -> int:
    """The verb alone, as the agent's file has it; exit codes as `fettle bench`."""
    return call(parsed(words, program, arguments, HELP))


def call(options: argparse.Namespace) -> int:
    """0 measured; 1 without a score or not sent; 2 refused with a sentence; 130 after an interrupt, with what was measured."""
    from agents import config
    from agents.bench.choice import BenchRefusedError
    from wire.bench import BenchError
    from wire.terminal import printable

    try:
        settings = _settings(options)
        if options.send and settings.server is None:
            raise BenchRefusedError(_("no server is set: give --server, or --config with the agent's settings."))
        report = _read(options.from_json) if options.from_json is not None else _measured(options, settings)
    except (config.ConfigError, BenchRefusedError, BenchError) as error:
        print(printable(f"fettle bench: {said(error)}"), file=sys.stderr)
        return 2
    code = 0 if report.scores else 1
    if options.from_json is None and options.json is not None:
        code = max(code, _write(options.json, report))
    _print(lines(report))
    if options.send or (options.send is None and options.from_json is None and settings.server is not None and report.scores):
        code = max(code, _send(report, settings))
    return _INTERRUPTED if report.interrupted and options.from_json is None else code


def _settings(options: argparse.Namespace) -> "AgentConfig":
    from agents import config

    file = config.file_of(options.config)
    return config.load(file, {name: getattr(options, name) for name in ("server", "token_file", "node")})


def _measured(options: argparse.Namespace, settings: "AgentConfig") -> "BenchReport":
    from agents.bench.choice import BenchRefusedError, check
    from agents.bench.session import Run, Settings
    from wire.terminal import printable

    if options.gpus is not None:
        check(options.gpus)
    if options.settle_s is not None and not 0 <= options.settle_s <= 3600:
        raise BenchRefusedError(
            _("{flag} {value} is outside {low} to {high}.").format(
                flag="--settle-s", value=f"{options.settle_s:g}", low=0, high=3600
            )
        )
    if "disk" in options.only and options.disk is None:
        raise BenchRefusedError(_("--only disk needs --disk DIR: the folder whose disk is to be read."))
    if options.json is not None and not options.json.absolute().parent.is_dir():
        raise BenchRefusedError(_("{file} cannot be written: there is no such folder.").format(file=options.json))
    run = Run(
        Settings(
            node=settings.node,
            quick=options.quick,
            only=tuple(options.only),
            gpus=options.gpus,
            beside_others=options.beside_others,
            settle_s=options.settle_s,
            disk=options.disk,
            sys=settings.sys,
        ),
        lambda sentence: print(printable(said(sentence)), file=sys.stderr, flush=True),
    )
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        run.go()
    finally:
        signal.signal(signal.SIGTERM, before)
    return run.report()


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _read(file: Path) -> "BenchReport":
    from wire.bench import MAX_BYTES, BenchError, decode

    try:
        with file.open("rb") as opened:
            return decode(opened.read(MAX_BYTES + 1))
    except OSError as error:
        raise BenchError(_("{file} cannot be read: {why}.").format(file=file, why=error.strerror or error)) from None
    except BenchError as error:
        raise BenchError(_("{file} is no report of fettle bench: {why}.").format(file=file, why=error)) from None


def _write(file: Path, report: "BenchReport") -> int:
    from wire.bench import encode

    try:
        file.write_bytes(encode(report))
    except OSError as error:
        says = _("{file} cannot be written: {why}.").format(file=file, why=error.strerror or error)
        print(f"fettle bench: {says}", file=sys.stderr)
        return 1
    return 0


def _send(report: "BenchReport", settings: "AgentConfig") -> int:
    from agents.bench.send import send
    from agents.report_post import SendError
    from wire.terminal import printable

    try:
        print(_("Sent to the server: {answer}.").format(answer=send(report, settings)), file=sys.stderr)
    except SendError as error:
        print(printable("fettle bench: " + _("not sent: {why}").format(why=said(error))), file=sys.stderr)
        return 1
    return 0


def _print(told: Iterable[str]) -> None:
    from wire.terminal import printable

    try:
        print("\n".join(map(printable, told)), flush=True)
    except BrokenPipeError:  # the reader has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def lines(report: "BenchReport") -> list[str]:
    """The report as text: the state it was measured in, a table for each GPU and the node, and what has no score."""
    says = _("{node}: quick run of {seconds:.0f} s") if report.protocol == "quick" else _("{node}: full run of {seconds:.0f} s")
    told = [says.format(node=report.node, seconds=report.seconds), _versions(report)]
    if report.interrupted:
        told.append(_("Interrupted: what was measured until then."))
    if report.shared:
        told.append(_("Other processes held the GPUs: no GPU is judged by this run."))
    for gpu in report.gpus:
        told += ["", _head(gpu), *_table([one for one in report.scores if one.gpu == gpu.uuid], gpu)]
    of_node = [one for one in report.scores if not one.gpu]
    if of_node:
        told += ["", _("Node"), *_table(of_node, None)]
    index = {gpu.uuid: f"GPU {gpu.index}, " for gpu in report.gpus}
    if report.missing:
        told += ["", _("Without a score:")]
        told += [f"  {index.get(one.gpu, '')}{one.name}: {_(one.reason)}" for one in report.missing]
    return told


def _versions(report: "BenchReport") -> str:
    names = [*report.versions.items(), *report.environment.items()]
    return ", ".join(f"{name} {text}" for name, text in names if text)


def _head(gpu: "BenchGpu") -> str:
    parts = [f"GPU {gpu.index} {gpu.model}"]
    if gpu.power_limit_w is not None:
        parts.append(_("power limit {watts:.0f} W").format(watts=gpu.power_limit_w))
    if gpu.sm_clock_set_mhz is not None and gpu.sm_clock_max_mhz is not None and gpu.sm_clock_set_mhz < gpu.sm_clock_max_mhz:
        says = _("clocks set to {set:.0f} of {max:.0f} MHz")
        parts.append(says.format(set=gpu.sm_clock_set_mhz, max=gpu.sm_clock_max_mhz))
    if gpu.settled is False:
        slope = gpu.temperature_slope_c_per_min
        parts.append(
            _("its temperature had not settled")
            if slope is None
            else _("its temperature had not settled ({slope:+.1f} C a minute)").format(slope=slope)
        )
    return ", ".join(parts)


def _table(scores: Sequence["Score"], gpu: "BenchGpu | None") -> list[str]:
    from advisor.peaks import peak

    rows: list[tuple[str, ...]] = [(_("test"), _("median"), "p5", "p95", _("of peak"), "MHz", "W", "C")]
    for one in scores:
        top = None if gpu is None else peak(
            gpu.model, one.name, pcie_gen=gpu.pcie_link_gen_max, pcie_width=gpu.pcie_link_width_max, nvlink_links=gpu.nvlink_links,
            nvlink_bytes_per_s_per_link=gpu.nvlink_bytes_per_s_per_link, compute_capability=gpu.compute_capability,
        )  # fmt: skip
        write: Callable[[float], str] = lambda rate, unit=one.unit: written(rate, unit)  # type: ignore[misc] # noqa: E731
        state = [f"{value:.0f}" if value is not None else "" for value in (one.sm_clock_mhz, one.power_w, one.temperature_c)]
        share = "" if top is None else _("{share:.0%} of {peak}").format(share=one.value / top, peak=written(top, one.unit))
        rows.append((one.name, write(one.value), write(one.p5), write(one.p95), share, *state))
    widths = [max(width(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        (
            "  "
            + "  ".join(
                left(cell, columns) if place == 0 else right(cell, columns)
                for place, (cell, columns) in enumerate(zip(row, widths, strict=True))
            )
        ).rstrip()
        for row in rows
    ]


def written(rate: float, unit: str) -> str:
    """`788 TFLOP/s`, `1,293 TFLOP/s`, `4.31 TB/s`: three digits or whole, in the unit that suits the number."""
    ending = "FLOP/s" if unit == "flop_per_second" else "B/s"
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if rate >= size:
            number = rate / size
            return f"{number:,.{0 if number >= 99.95 else 1 if number >= 9.995 else 2}f} {letter}{ending}"
    return f"{rate:.0f} {ending}"
