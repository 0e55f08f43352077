"""`fettle job ID`: a job's report in the terminal, as seff prints one, with what held it back and what to change."""

import argparse
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cli.language import _, gettext_noop, said
from cli.unknown import parsed

if TYPE_CHECKING:
    from agents.rest import Rest

HELP = gettext_noop("Print a job's report: what it held, how well it used it, what held it back and what to change.")

_WITHIN_S: Final = 5.0
"""For all that the server is asked: at the end of a batch script the job still holds its GPUs."""
_JOBS: Final = "/api/v1/jobs/"
_ID: Final = re.compile(r"(?:(?P<cluster>[A-Za-z0-9][A-Za-z0-9._-]*)/)?(?P<id>[A-Za-z0-9][A-Za-z0-9._+-]*)")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.epilog = _("Exit codes: 0 printed; 1 no such job, or the server did not answer within 5 s; 2 wrong usage or settings.")
    parser.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        help=_(
            "as squeue shows it or by its own number: 4711, 4711_3 (of an array), 4711+1 (heterogeneous), or cluster/4711; inside a job: that job"
        ),
    )
    parser.add_argument(
        "--run", type=int, metavar="N", help=_("of a job that ran several times, the Nth run from the first (the last)")
    )
    parser.add_argument("--json", action="store_true", help=_("print one JSON object instead of text"))
    parser.add_argument("--config", type=Path, metavar="FILE", help=_("the agent's settings: /etc/fettle/agent.toml"))
    parser.add_argument("--server", metavar="URL", help=_("the server's agent socket: wss://fettle.example/ws/agent/"))
    parser.add_argument("--token-file", type=Path, metavar="FILE", help=_("file with an API token"))


def main(words: list[str], program: str) -> int:
    """The verb alone, as the agent's file has it; exit codes as `fettle job`."""
    return call(parsed(words, program, arguments, HELP))


def call(options: argparse.Namespace) -> int:
    """0 printed; 1 no such job, or no answer; 2 with a sentence where the usage or the settings are wrong."""
    import json

    from agents import config
    from agents.rest import Rest, RestError
    from cli.job_text import lines
    from wire.terminal import printable

    wanted = _ID.fullmatch(options.id or os.environ.get("FETTLE_JOB") or os.environ.get("SLURM_JOB_ID") or "")
    if wanted is None:
        says = (
            _("{id} is no job's id: give it as its scheduler does, such as 4711, 4711_3 or cluster/4711.").format(
                id=repr(options.id)
            )
            if options.id
            else _("which job: give it as its scheduler does, such as 4711, 4711_3 or cluster/4711.")
        )
        print(printable(f"fettle job: {says}"), file=sys.stderr)
        return 2
    file = config.file_of(options.config)
    try:
        rest = Rest(config.load(file, {"server": options.server, "token_file": options.token_file}), _WITHIN_S)
    except (config.ConfigError, RestError) as error:
        print(printable(f"fettle job: {said(error)}"), file=sys.stderr)
        return 2
    try:
        runs = _runs(rest, wanted["cluster"] or "", wanted["id"])
        if wrong := _wrong(runs, options):
            print(printable(f"fettle job: {wrong}"), file=sys.stderr)
            return 1
        report = _report(rest, runs[-1] if options.run is None else runs[options.run - 1])
    except RestError as error:
        print(printable(f"fettle job: {said(error)}"), file=sys.stderr)
        return 1
    number = len(runs) if options.run is None else options.run
    told = [json.dumps(report, ensure_ascii=True)] if options.json else list(lines(report, number, len(runs)))
    try:
        print("\n".join(map(printable, told)), flush=True)
    except BrokenPipeError:  # the reader has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _runs(rest: "Rest", cluster: str, wanted: str) -> list[Any]:
    """The runs of that id, oldest first; the server finds a task of an array by the name that squeue shows, too."""
    where = {"cluster": cluster} if cluster else {}
    found = rest.pages(_JOBS, {**where, "job_id": wanted})
    return sorted(found, key=lambda row: (row["started_at"], row["id"]))


def _wrong(runs: list[Any], options: argparse.Namespace) -> str:
    """Why none of the runs can be shown; empty: one can."""
    if not runs:
        asked = options.id or os.environ.get("FETTLE_JOB") or os.environ.get("SLURM_JOB_ID")
        says = _("the server knows no job {id}: was it given GPUs, and does this cluster's prolog or `fettle slurm` tell of it?")
        return says.format(id=asked)
    clusters = sorted({row["cluster"] for row in runs})
    if len(clusters) > 1:
        says = _("{id} ran on {clusters}: name one, as {first}/{id}.")
        return says.format(id=options.id, clusters=", ".join(clusters), first=clusters[0])
    if options.run is not None and not 1 <= options.run <= len(runs):
        return _("it ran {total} times, so --run takes 1 to {total}.").format(total=len(runs))
    return ""


def _report(rest: "Rest", run: Any) -> Any:
    """The server's report; from one that makes none, the run and its findings, which is the same with less in it."""
    from agents.rest import RestError

    for part in ("report", "findings"):
        try:
            found = rest.get(f"{_JOBS}{run['id']}/{part}/")
        except RestError as error:
            if error.status != 404 and not (part == "report" and error.status == 503):  # its store of telemetry does not answer
                raise
            continue
        if part == "report":
            return {"job": run, **found}
        return {"job": run, "findings": found["results"] if isinstance(found, dict) else found}
    return {"job": run}
