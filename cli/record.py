"""`fettle record`: write what this machine's GPUs, host and processes do into a recording."""

import argparse
import sys
from pathlib import Path

from cli.language import _, gettext_noop, said

HELP = gettext_noop("Record this machine's GPUs, host and GPU processes into a file for `fettle advise`.")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help=_("the recording to write, e.g. run.jsonl.gz")
    )
    parser.add_argument("--hz", type=float, default=4.0, metavar="N", help=_("samples a second (default 4)"))
    parser.add_argument("--seconds", type=float, metavar="S", help=_("end after so long (default: at Ctrl-C)"))


def call(options: argparse.Namespace) -> int:
    """0 when the recording is whole, also after Ctrl-C; 2 where there is no GPU or the file cannot be written."""
    from agents import record
    from wire.terminal import printable

    if not 0.1 <= options.hz <= 20:
        says = _("{flag} {value} is outside {low} to {high}.").format(flag="--hz", value=options.hz, low=0.1, high=20)
        print(f"fettle record: {says}", file=sys.stderr)
        return 2
    try:
        count = record.to_file(options.output, options.hz, options.seconds)
    except record.RecordError as error:
        print(printable(f"fettle record: {said(error)}"), file=sys.stderr)
        return 2
    says = _("{file}: {count} samples. Judge it with: fettle advise {file}").format(file=options.output, count=count)
    print(says, file=sys.stderr)
    return 0
