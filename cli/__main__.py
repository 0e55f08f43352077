"""The `fettle` command: one file a verb, each with HELP, arguments(parser) and call(options).

Only the verb that was asked for is imported: an agent must not pay for the advisor.
"""

import argparse
import importlib
import sys
from typing import Any

from cli.language import _
from cli.parser import Help, parser
from cli.unknown import refuse

VERBS = ("advise", "agent", "bench", "job", "kubernetes", "plan", "profile", "record", "run", "slurm")


class _Version(argparse.Action):
    """Prints the version; reads it only when asked."""

    def __call__(self, parser: argparse.ArgumentParser, *_rest: Any) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"fettle {version('fettle')}")
        except PackageNotFoundError:
            print(_("fettle, not installed: version unknown"))
        parser.exit()


def main(argv: list[str] | None = None) -> int:
    """Run one verb; the exit code is 0 for success, 2 for bad usage or bad input."""
    argv = sys.argv[1:] if argv is None else argv
    whole = parser("fettle", _("GPU monitoring that ends in tuning advice."))
    whole.add_argument("--version", nargs=0, action=_Version, help=_("show the version and exit"))
    verbs = whole.add_subparsers(dest="verb", required=True, metavar="VERB")
    wanted = argv[:1] if argv[:1] and argv[0] in VERBS else VERBS
    for name in wanted:
        verb = importlib.import_module(f"cli.{name}")
        one = verbs.add_parser(name, help=_(verb.HELP), description=_(verb.HELP), formatter_class=Help)
        verb.arguments(one)
        one.set_defaults(call=verb.call)
    options, unknown = whole.parse_known_args(argv)
    if unknown:
        refuse(verbs.choices[options.verb], unknown)
    return int(options.call(options))


if __name__ == "__main__":
    sys.exit(main())
