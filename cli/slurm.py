"""`fettle slurm`: keeps the server's jobs of a Slurm cluster as Slurm has them."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cli.language import _, gettext_noop, said
from cli.unknown import parsed

if TYPE_CHECKING:
    from agents.slurm.reconciler import Reconciler

HELP = gettext_noop("Reconcile the server's jobs with Slurm's, every minute; runs on one node that has Slurm's client commands.")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.epilog = _(
        "Exit codes with --once: 0 done; 1 Slurm or the server did not answer, or a job was refused; 2 wrong settings."
    )
    parser.add_argument("--cluster", metavar="NAME", help=_("what the server is to call the cluster (its ClusterName)"))
    parser.add_argument("--every", type=float, default=60.0, metavar="S", help=_("seconds between rounds (60)"))
    parser.add_argument("--once", action="store_true", help=_("make one round and end"))
    parser.add_argument(
        "--dry-run", action="store_true", help=_("make one round, print what the server would be told, send nothing")
    )
    parser.add_argument("--text", action="store_true", help=_("read squeue's text even where it prints JSON"))
    parser.add_argument("--config", type=Path, metavar="FILE", help=_("the agent's settings: /etc/fettle/agent.toml"))
    parser.add_argument("--server", metavar="URL", help=_("the server's agent socket: wss://fettle.example/ws/agent/"))
    parser.add_argument("--token-file", type=Path, metavar="FILE", help=_("file with an API token that may tell jobs"))


def main(words: list[str], program: str) -> int:
    """The verb alone, as the agent's file has it; exit codes as `fettle slurm`."""
    return call(parsed(words, program, arguments, HELP))


def call(options: argparse.Namespace) -> int:
    """0 done; 1 Slurm or the server did not answer, or refused a job; 2 with a sentence where the settings cannot be used."""
    import logging

    from agents import config
    from agents.rest import Rest, RestError
    from agents.slurm import cluster
    from agents.slurm.commands import SlurmError
    from agents.slurm.reconciler import Reconciler
    from wire.terminal import printable

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    if not 1 <= options.every <= 3600:
        says = _("{flag} {value} is outside {low} to {high}.").format(
            flag="--every", value=f"{options.every:g}", low=1, high=3600
        )
        print(f"fettle slurm: {says}", file=sys.stderr)
        return 2
    file = config.file_of(options.config)
    try:
        rest = Rest(config.load(file, {"server": options.server, "token_file": options.token_file}))
    except (config.ConfigError, RestError) as error:
        print(printable(f"fettle slurm: {said(error)}"), file=sys.stderr)
        return 2
    try:
        name = options.cluster or cluster.name()
        reconciler = Reconciler(name, rest, as_text=options.text)
        if options.dry_run:
            return _show(reconciler)
        if options.once:
            done = reconciler.round()
            says = _("{cluster}: Slurm tells of {seen} runs; told {told}, refused {refused}.")
            print(says.format(cluster=name, seen=done.seen, told=done.told, refused=done.refused))
            return 1 if done.refused else 0
    except (SlurmError, RestError) as error:
        print(printable(f"fettle slurm: {said(error)}"), file=sys.stderr)
        return 1
    from agents.slurm.service import run

    return run(reconciler, options.every)


def _show(reconciler: "Reconciler") -> int:
    import json

    _seen, bodies, _running = reconciler.bodies()
    for body in bodies:
        print(json.dumps(body, ensure_ascii=True))
    return 0
