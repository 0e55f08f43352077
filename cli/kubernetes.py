"""`fettle kubernetes hints`: tells the cluster's nodes what Fettle knows of their health."""

import argparse
import logging
import sys
import time
from pathlib import Path

from cli.language import _, gettext_noop, said

HELP = gettext_noop("Annotate a cluster's nodes with their health, and cordon those to drain where that is asked for.")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.epilog = _(
        "Exit codes with --once or --dry-run: 0 done; 1 a server did not answer, or a node was not written; 2 wrong settings."
    )
    parser.add_argument(
        "what", choices=("hints",), help=_("hints: the annotations fettle.dev/health, health-reasons and health-since")
    )
    parser.add_argument("--server", required=True, metavar="URL", help=_("Fettle's server: https://fettle.example"))
    parser.add_argument(
        "--token-file", type=Path, required=True, metavar="FILE", help=_("file with an API token of the scope health")
    )
    parser.add_argument(
        "--ca-file", type=Path, metavar="FILE", help=_("certificates that vouch for Fettle's server, in place of the system's")
    )
    parser.add_argument(
        "--api", metavar="URL", help=_("the cluster's API where this is no pod: http://127.0.0.1:8001 of `kubectl proxy`")
    )
    parser.add_argument("--selector", metavar="LABEL", help=_("nodes to tell (nvidia.com/gpu.present=true); '' for all"))
    parser.add_argument(
        "--cordon", action="store_true", help=_("make nodes to drain unschedulable, and those that are well again schedulable")
    )
    parser.add_argument(
        "--most", type=float, default=10.0, metavar="PCT", help=_("no more than this share of the nodes, and one (10)")
    )
    parser.add_argument("--every", type=float, default=60.0, metavar="S", help=_("seconds between rounds (60)"))
    parser.add_argument("--once", action="store_true", help=_("make one round and end"))
    parser.add_argument("--dry-run", action="store_true", help=_("make one round, print what would change, change nothing"))


def call(options: argparse.Namespace) -> int:
    """0 done; 1 a server did not answer, or a node was not written; 2 with a sentence where the settings cannot be used."""
    from agents.kubernetes.rest import Rest, RestError
    from agents.kubernetes.rounds import SELECTOR, Rounds, cluster
    from wire.terminal import printable

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    if not (0 <= options.most <= 100 and 1 <= options.every <= 3600):
        print("fettle kubernetes: " + _("--most is 0 to 100 per cent, --every 1 to 3600 seconds."), file=sys.stderr)
        return 2
    try:
        rounds = Rounds(
            cluster(options.api),
            Rest(options.server, options.token_file, options.ca_file),
            lambda line: print(printable(said(line)), flush=True),
            cordons=options.cordon,
            share=options.most / 100,
            selector=SELECTOR if options.selector is None else options.selector,
        )
    except RestError as error:
        print(printable(f"fettle kubernetes: {said(error)}"), file=sys.stderr)
        return 2
    while True:
        try:
            failed = rounds.round(dry=options.dry_run)
        except RestError as error:
            print(printable(f"fettle kubernetes: {said(error)}"), file=sys.stderr)
            failed = 1
        if options.once or options.dry_run:
            return min(failed, 1)
        time.sleep(options.every)
