"""The processes that measure, one for each GPU: started, told what to do, and ended, whatever state they are in."""

import contextlib
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from agents.bench.orders import MAX_LINE, Order, Said, encode, said
from wire.sentence import Sentence, _

START_S: Final = 240.0
"""For torch to be imported, from a cold network disk too, and a context to be made."""
_CODE: Final = Path(__file__).resolve().parents[2]
_START: Final = "import sys; sys.path[0:1] = {path!r}; from agents.bench.worker import main; sys.exit(main(sys.argv[1:]))"


class WorkerError(Exception):
    """A process gives no answer any more; the message is a sentence without its first words' capital."""


class Answer(NamedTuple):
    """What one worker said; None: it is gone or its time was up."""

    worker: "Worker"
    said: Said | None


class Worker:
    """One process. `number` is its GPU among those of the run."""

    def __init__(self, number: int, gpus: int, cpus: str, environment: Mapping[str, str]) -> None:
        self.number = number
        self.gone = ""  # why it takes no orders any more
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        path = [str(_CODE), *(one for one in sys.path if one and one != str(_CODE))]  # the agent's file has its wheels there
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", _START.format(path=path), str(number), str(gpus), cpus or "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl-C is for the one that leads
        )
        self._heard: queue.Queue[Said | None] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, name=f"bench-{number}", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        for line in iter(lambda: self._process.stdout.readline(MAX_LINE), b""):  # type: ignore[union-attr]
            with contextlib.suppress(msgspec.MsgspecError):  # a library that writes to the descriptor itself
                self._heard.put(said(line))
        self._heard.put(None)

    def tell(self, order: Order) -> None:
        """Send an order; a process that is gone is noted as such."""
        if self.gone:
            return
        try:
            assert self._process.stdin is not None  # noqa: S101
            self._process.stdin.write(encode(order) + b"\n")
            self._process.stdin.flush()
        except OSError:
            self._note_gone()

    def hear(self, until: float) -> Said | None:
        """Its next answer; None where it is gone, or silent at monotonic second `until`: it is ended then."""
        if self.gone:
            return None
        try:
            found = self._heard.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            self.gone = _("it gave no answer in time and was ended")
            self.kill()
            return None
        if found is None:
            self._note_gone()
        return found

    def _note_gone(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        code = self._process.poll()
        last = self._last_words()
        how = "is gone" if code is None else f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        self.gone = f"the process that measures {how}{': ' + last if last else ''}"

    def _last_words(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 2000))
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((" ".join(line.split())[:150] for line in reversed(lines) if line.strip()), "")

    def kill(self) -> None:
        """End it at once; one that a stuck driver holds is left behind, and not waited for."""
        with contextlib.suppress(OSError):
            self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)

    def end(self) -> None:
        """Let it go: its orders end, and it has some seconds to leave."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        if not self.gone:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
        self.kill()
        self._listener.join(5)
        if self._process.stdout is not None and not self._listener.is_alive():
            self._process.stdout.close()
        self._errors.close()


def all_of(workers: Iterable[Worker], orders: Mapping[int, Order], patience_s: float) -> list[Answer]:
    """Tell each its order at the same time; their answers, in the workers' order."""
    told = [worker for worker in workers if worker.number in orders]
    for worker in told:
        worker.tell(orders[worker.number])
    until = time.monotonic() + patience_s
    return [Answer(worker, worker.hear(until)) for worker in told]


def started(cpus: Sequence[str], environment: Mapping[str, str]) -> list[Worker]:
    """One worker for each entry, which names the cores to run on; none is waited for."""
    found: list[Worker] = []
    try:
        for number, cores in enumerate(cpus):
            found.append(Worker(number, len(cpus), cores, environment))
    except OSError as error:
        for worker in found:
            worker.kill()
        raise WorkerError(Sentence(_("no process can be started: {why}"), why=error.strerror or error)) from None
    return found
