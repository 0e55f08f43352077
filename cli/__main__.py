"""The `fettle` command: one file a verb."""

import argparse
import importlib
import sys

VERBS = ("advise", "agent", "record", "run")


def main(argv: list[str] | None = None) -> int:
    """Run one verb; the exit code is 0 for success, 2 for bad usage or bad input."""
    parser = argparse.ArgumentParser(prog="fettle", description="GPU monitoring that ends in tuning advice.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name in VERBS:
        verb = importlib.import_module(f"cli.{name}")
        sub = verbs.add_parser(name, help=verb.HELP, description=verb.HELP)
        verb.arguments(sub)
        sub.set_defaults(call=verb.call)
    options = parser.parse_args(argv)
    return int(options.call(options))


if __name__ == "__main__":
    sys.exit(main())
