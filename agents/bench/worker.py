"""A process that measures one GPU: it reads orders, does each, and answers with a line. It alone imports torch."""

import ctypes
import importlib
import os
import select
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final

from agents.bench import on_gpu
from agents.bench.on_gpu import Measured, NoScoreError
from agents.bench.orders import Order, Said, encode, order
from agents.bench.together import Ranks
from wire.sentence import _
from wire.terminal import printable

_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG


def main(words: Sequence[str]) -> int:
    """`words`: this GPU's number among those of the run, how many there are, and the cores to run on (`-`: any)."""
    index, ranks, cpus = int(words[0]), int(words[1]), words[2]
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # NCCL and others print to the standard output
    stay_on(cpus)
    torch, ready = start(index)
    answers.write(encode(ready) + b"\n")
    if torch is None:
        return 1
    _Worker(torch, index, ranks, answers).serve()
    return 0


def start(index: int) -> tuple[Any, Said]:
    """Torch with a context on GPU `index`, and what it says of itself; None and the reason where it cannot be used."""
    try:
        torch: Any = importlib.import_module("torch")
        if not torch.cuda.is_available():
            return None, Said(what="missing", reason=_("torch sees no GPU: it may be built without CUDA, or for another driver"))
        torch.cuda.set_device(index)
        torch.zeros(1, device=f"cuda:{index}")
        torch.cuda.synchronize()
    except (ImportError, OSError, RuntimeError, AssertionError) as error:
        return None, Said(what="missing", reason=f"torch cannot use the GPU: {' '.join(str(error).split())[:200]}")
    return torch, Said(what="ready", versions=versions(torch))


def versions(torch: Any) -> dict[str, str]:
    """Those that bear on the scores."""
    told = {"torch": str(torch.__version__), "cuda": str(torch.version.cuda or "")}
    try:
        told["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        told["cudnn"] = str(torch.backends.cudnn.version() or "")
    except (AttributeError, RuntimeError, ImportError):  # built without
        pass
    return {name: printable(text)[:100] for name, text in told.items() if text}


def stay_on(cpus: str) -> None:
    """Run on these cores alone, as `0-15,32-47`; on any, where they may not be had."""
    try:
        os.sched_setaffinity(0, cores(cpus))
    except (OSError, ValueError):
        return


def cores(text: str) -> set[int]:
    """The kernel's list of cores as numbers; ValueError where it is none."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


class _Worker:
    """Does what it is told until the orders end."""

    def __init__(self, torch: Any, index: int, ranks: int, answers: Any) -> None:
        self._torch = torch
        self._index = index
        self._ranks = ranks
        self._answers = answers
        self._group: Ranks | None = None

    def serve(self) -> None:
        while line := sys.stdin.buffer.readline():
            try:
                answer = self._do(order(line))
            except Exception as error:
                answer = Said(what="missing", reason=on_gpu.reason(self._torch, error))
            self._answers.write(encode(answer) + b"\n")

    def _do(self, what: Order) -> Said:
        if what.do == "soak":
            self._soak()
        elif what.do == "join":
            self._group = Ranks(self._torch, self._index, self._ranks, what.meeting)
        elif what.do == "leave" and self._group is not None:
            group, self._group = self._group, None
            group.leave()
        elif what.case is not None:
            score, began, ended = self._measure(what)
            return Said(what="score", score=score, began=began, ended=ended)
        return Said(what="done")

    def _measure(self, what: Order) -> Measured:
        case = what.case
        assert case is not None  # noqa: S101 - the caller looked
        try:
            if case.kind != "all_reduce":
                return on_gpu.measure(self._torch, self._index, case)
            if self._group is None:
                raise NoScoreError(_("the GPUs of the run could not be joined"))
            return self._group.measure(case)
        finally:
            self._torch.cuda.empty_cache()

    def _soak(self) -> None:
        """Load the GPU until the next order comes."""
        for _turn in on_gpu.soak(self._torch, self._index, self._torch.cuda.get_device_capability(self._index)):
            if select.select([sys.stdin], [], [], 0)[0]:
                return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
