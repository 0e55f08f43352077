"""Slurm's client commands, each within a time of its own; what they cannot do is a sentence."""

import os
import subprocess
from collections.abc import Sequence
from typing import Final

from wire.sentence import Sentence, _

DEADLINE_S: Final = 30.0
_MAX_BYTES: Final = 256_000_000
"""Of an answer: squeue in JSON takes about 3 kB a job."""

_NARROWING: Final = ("SQUEUE_", "SACCT_", "SCONTROL_", "SLURM_CLUSTERS")
"""Variables by which a person narrows what these commands list."""


class SlurmError(Exception):
    """A command told nothing; the message is a sentence. `absent`: there is no such command, or it lacks what it was asked for."""

    def __init__(self, message: str, absent: bool = False) -> None:
        super().__init__(message)
        self.absent = absent


def asked(words: Sequence[str], deadline_s: float = DEADLINE_S) -> str:
    """What a command prints; SlurmError where it fails, or does not end in time. Texts that are not UTF-8 keep what is."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_NARROWING)}
    told = kept | {"TZ": "UTC0", "SLURM_TIME_FORMAT": "%s"}  # times as seconds since 1970
    try:
        done = subprocess.run(words, env=told, capture_output=True, timeout=deadline_s, check=False)  # noqa: S603 - fixed words
    except subprocess.TimeoutExpired:
        raise SlurmError(
            Sentence(_("{command} did not answer within {seconds:.0f} s."), command=words[0], seconds=deadline_s)
        ) from None
    except OSError as error:
        raise SlurmError(
            Sentence(_("{command} cannot be started: {why}."), command=words[0], why=error.strerror or error), absent=True
        ) from None
    if done.returncode or len(done.stdout) > _MAX_BYTES:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        why = said[-1][:300] if said else Sentence(_("it ended with code {code}"), code=done.returncode)
        raise SlurmError(
            Sentence(_("{command}: {why}."), command=words[0], why=why), absent=done.returncode == 127 or _lacks(" ".join(said))
        )
    return done.stdout.decode(errors="replace")


def _lacks(said: str) -> bool:
    """True where the command says that it has no such option, or that this cluster has no such data."""
    return any(
        words in said.lower() for words in ("unrecognized option", "invalid option", "is disabled", "plugin", "not supported")
    )
