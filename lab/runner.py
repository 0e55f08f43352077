"""Runs programs under `fettle run`, each with a hard limit, and reads what they and the advisor say of them."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from advisor.recorded import judge
from lab.outcomes import Outcome, Run, named_change, outcome
from lab.pairs import Pair
from lab.scratch import VARIABLE, place
from wire import recording

ROOT: Final = Path(__file__).resolve().parent.parent
START_UP_S: Final = 45.0
"""What a program may take beside its measured time: imports, files that it writes, NCCL, the diagnosis at the end."""
SAID: Final = 1500
"""Characters kept of what a program that failed said last."""

Command = Callable[[str, float, Mapping[str, str]], Sequence[str]]


def program(name: str, seconds: float, settings: Mapping[str, str]) -> Sequence[str]:
    """The command line of a program of lab/changes/."""
    words = [sys.executable, "-m", "lab.programs", name, "--seconds", f"{seconds:g}"]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    return words


@dataclass
class Runner:
    """Runs pairs. `fettle` begins the command line, `command` gives a program's; tests put others in their place."""

    recordings: Path
    seconds: float = 8.0
    start_up_s: float = START_UP_S
    fettle: Sequence[str] = (sys.executable, "-m", "cli")
    command: Command = program
    _known: dict[tuple[str, str], Run] = field(default_factory=dict)
    _children: set["subprocess.Popen[str]"] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def longest_s(self) -> float:
        """What one program takes at most."""
        return self.seconds * 1.5 + self.start_up_s

    def pair(self, pair: Pair, devices: str) -> Outcome:
        """Both programs of `pair` on `devices` (as CUDA_VISIBLE_DEVICES has them); `after` runs whatever was said of `before`."""
        before = self._once(pair.before, devices)
        _, settings = named_change(before, pair)
        after = None if before["trouble"] else self.run(pair.after, devices, settings)
        return outcome(pair, before, after)

    def _once(self, name: str, devices: str) -> Run:
        """As `run`; pairs that begin with the same program share its run."""
        if (name, devices) not in self._known:
            self._known[name, devices] = self.run(name, devices, {})
        return self._known[name, devices]

    def run(self, name: str, devices: str, settings: Mapping[str, str]) -> Run:
        """One program under `fettle run`."""
        file = self.recordings / f"{name}.jsonl.gz"
        words = [*self.fettle, "run", "--record", str(file), "--", *self.command(name, self.seconds, settings)]
        run = Run(program=name, settings=dict(settings), measured=None, bottleneck=None, findings=[], trouble=None)
        with _place() as places:
            code, out, said = self._call(words, os.environ | places | {"CUDA_VISIBLE_DEVICES": devices})
        if code is None:
            run["trouble"] = f"ended after {self.longest_s:g} s, unfinished: {_last(said)}"
        elif code != 0:
            run["trouble"] = f"exit code {code}: {_last(said)}"
        else:
            run["measured"] = _measured(out)
            run["trouble"] = "it told no speed" if run["measured"] is None else judged(run, file, said)
        return run

    def _call(self, words: Sequence[str], environment: Mapping[str, str]) -> tuple[int | None, str, str]:
        """Exit code (None: it took too long and was killed with all that it started), stdout and stderr."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as said:
            child = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=said, text=True, cwd=ROOT, env=dict(environment), start_new_session=True
            )  # fmt: skip
            with self._lock:
                self._children.add(child)
            try:
                code: int | None = child.wait(self.longest_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                self._end(child)
            out.seek(0)
            said.seek(0)
            return code, out.read(), said.read()

    def _end(self, child: "subprocess.Popen[str]") -> None:
        """Nothing of it is left: a loader process that outlives its program would hold the GPU."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        with self._lock:
            self._children.discard(child)

    def stop(self) -> None:
        """End what runs."""
        with self._lock:
            children = list(self._children)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def judged(run: Run, file: Path, said: str = "") -> str | None:
    """Put what the advisor says of the recording `file` into `run`; why it says nothing, else None. `said`: stderr of the program."""
    try:
        judgement = judge(recording.read(file)).as_json()
    except (OSError, recording.RecordingError) as error:
        return f"nothing to judge: {error}; {_last(said)}"
    except Exception as error:  # a defect of one rule must not end the other pairs
        return f"the diagnosis failed: {type(error).__name__}: {error}"
    run["bottleneck"], run["findings"] = judgement["bottleneck"], judgement["findings"]
    return None if run["bottleneck"] or run["findings"] else judgement["note"] or "nothing was judged"


@contextlib.contextmanager
def _place() -> Iterator[dict[str, str]]:
    """A folder on disk for a program's files, gone when it has ended."""
    with tempfile.TemporaryDirectory(prefix="fettle-lab-", dir=place()) as made:
        yield {VARIABLE: made}


def _measured(out: str) -> dict[str, Any] | None:
    """The last line of `out` that tells units and seconds."""
    for line in reversed(out.splitlines()):
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and "units" in told and "seconds" in told:
            return {name: value for name, value in told.items() if name != "program"}
    return None


def _last(said: str) -> str:
    """The end of what a program said, on one line, without the places of the machine that it ran on."""
    return re.sub(r"(?:/[\w.+-]+)+/", "", " ".join(said.split()))[-SAID:] or "it said nothing"
