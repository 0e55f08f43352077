"""What the cluster says now: its name, the jobs that its controller knows, and those that its accounting does."""

import logging
import re
from collections.abc import Collection
from datetime import datetime, timezone
from typing import Final

from msgspec.structs import replace

from agents.slurm import queue_json, tables
from agents.slurm.commands import SlurmError, asked
from agents.slurm.runs import SlurmRun
from wire.sentence import Sentence, _

log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"^ClusterName\s*=\s*(\S+)", re.M)
_DETAILS: Final = ("scontrol", "--all", "--details", "show", "job")
_MOST: Final = 1000
"""Jobs by number in one call of sacct."""


def name() -> str:
    """The cluster's name; SlurmError where the controller does not tell it."""
    found = _NAME.search(asked(["scontrol", "show", "config"]))
    if found is None:
        raise SlurmError(Sentence(_("scontrol show config names no cluster: give it with --cluster.")))
    return found[1]


class Queue:
    """squeue: JSON where this Slurm has it and it names the GPUs, else text. What works is remembered."""

    def __init__(self, as_text: bool = False) -> None:
        self._as_text = as_text

    def runs(self) -> list[SlurmRun]:
        """Every job that the controller knows; SlurmError where it does not answer, which says nothing of any job."""
        if not self._as_text:
            try:
                return _counted(queue_json.runs(asked(["squeue", "--json", "--all", "--states=all"])))
            except SlurmError as error:
                if not error.absent:
                    raise
                self._as_text = True
        mark = tables.separator()
        rows = asked(["squeue", "--noheader", "--all", "--states=all", "--array", "--format", mark.join(tables.QUEUE)])
        return tables.queue(rows, mark, asked(_DETAILS) if rows else "")


def _counted(runs: list[SlurmRun]) -> list[SlurmRun]:
    """The same, with the GPUs of those that are over from scontrol, where this cluster counts none among what it allocates."""
    over = [run for run in runs if run.is_over]
    if not over or any(run.gpus_total is not None for run in over):
        return runs
    try:
        totals = tables.totals(asked(_DETAILS))
    except SlurmError as error:
        log.warning("How many GPUs jobs had that are over is not known: %s", error)
        return runs
    return [replace(run, gpus_total=totals.get(run.job_id)) if run.is_over else run for run in runs]


def accounted(since: float, numbers: Collection[str] = ()) -> list[SlurmRun] | None:
    """The runs that accounting knows of since then (seconds since 1970), and all those of `numbers`, each run of a requeued job.

    None: this cluster keeps no accounting.
    """
    start = datetime.fromtimestamp(since, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    asked_for = [[f"--starttime={start}"]]
    some = sorted(numbers)
    asked_for += [[f"--jobs={','.join(some[first : first + _MOST])}"] for first in range(0, len(some), _MOST)]
    found: list[SlurmRun] = []
    for words in asked_for:
        mark = tables.separator()
        options = ["--noheader", "--allusers", "--allocations", "--duplicates", "--parsable2", f"--delimiter={mark}"]
        fields = ",".join(tables.ACCOUNTED)
        try:
            found += tables.accounted(asked(["sacct", *options, *words, f"--format={fields}"]), mark)
        except SlurmError as error:
            if error.absent:
                return None
            raise
    return found
