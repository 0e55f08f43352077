"""`fettle run -- CMD`: run a command and say what held its GPUs back."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cli.language import _, gettext_noop

if TYPE_CHECKING:
    from agents import command

HELP = gettext_noop("Run a command, sample the GPUs meanwhile, and print the diagnosis at the end.")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--record", type=Path, metavar="FILE", help=_("keep the samples in this file for `fettle advise`"))
    from cli.price import price_arguments

    price_arguments(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD", help=_("the command and its arguments"))


def call(options: argparse.Namespace) -> int:
    """The command's exit code (128 + n after signal n); 126 or 127 when it cannot be started, 2 on bad usage."""
    words = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not words:
        print("fettle run: " + _("no command: fettle run [--record FILE] -- CMD [ARGUMENT...]"), file=sys.stderr)
        return 2
    import asyncio
    import logging

    from agents import command, drivers, recorder, reports
    from agents.machine import Machine

    logging.getLogger("agents").addHandler(logging.NullHandler())  # stderr is the command's; what matters is said at the end

    async def ran() -> command.Ran:
        with reports.private() as told:
            machine = Machine(drivers.of_this_machine(), deadline_s=0.2, slow_s=recorder.SLOW_S, reports=told)
            try:
                return await command.run(words, machine, options.record)
            finally:
                await machine.close()

    try:
        result = asyncio.run(ran())
    except command.CommandError as error:
        print(f"fettle run: {error}", file=sys.stderr)
        return error.code
    except OSError as error:
        says = _("{file}: cannot be written: {why}.").format(file=options.record, why=error.strerror or error)
        print(f"fettle run: {says}", file=sys.stderr)
        return 2
    if result.trouble is not None:
        print(f"fettle run: {result.trouble}.", file=sys.stderr)
    if result.recording is None:
        print(f"fettle run: {_why(result)}", file=sys.stderr)
        return result.code
    try:
        from advisor.recorded import judge
        from cli.advise import lines
        from wire.terminal import printable

        print("\n".join(map(printable, lines(judge(result.recording), options.price, options.currency))), file=sys.stderr)
    except Exception as error:  # the command's own result must stand whatever the diagnosis does
        says = _("the diagnosis failed: {why}").format(why=f"{type(error).__name__}: {error}")
        print(f"fettle run: {says}", file=sys.stderr)
    return result.code


def _why(result: "command.Ran") -> str:
    from agents.device import DRIVER_STATES

    if result.gpus_state in ("ok", "not_read"):
        says = _("the command ended after {seconds:.1f} s, before a GPU could be sampled; there is nothing to judge.")
        return says.format(seconds=result.seconds)
    why = _(DRIVER_STATES.get(result.gpus_state, result.gpus_state))
    return _("no GPU was found, so there is no diagnosis: {why}.").format(why=why)
